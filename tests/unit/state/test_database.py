"""A SQLite file below LAUNCHER_HOME that several processes and connections use at once."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import database
from launcher.state import restore
from launcher.state.store import Store
from tests.unit.state.attempts import attempt, key
from tests.unit.state.older import FIRST

SCHEMA = "CREATE TABLE things (name TEXT PRIMARY KEY)"

WRITER = """
import sys
from launcher import database
connection = database.connect(sys.argv[1], "", 1, readonly=False)
connection.execute("INSERT INTO things VALUES (?)", (sys.argv[2],))
connection.close()
"""


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    return database.connect(str(path), SCHEMA, 1, readonly=readonly)


def write_from_another_process(path: Path, name: str) -> None:
    subprocess.run([sys.executable, "-c", WRITER, str(path), name], check=True, timeout=60)


@pytest.fixture
def path(launcher_home: Path) -> Path:
    return launcher_home / "things.db"


@pytest.mark.parametrize("readonly", [False, True])
def test_opening_the_database_again_drops_no_lock_of_this_process(path: Path, readonly: bool) -> None:
    """Without its lock, the next process that closes the file deletes the WAL, as the last user does."""
    first = connect(path)
    first.execute("INSERT INTO things VALUES ('mine')")
    connect(path, readonly=readonly).close()
    write_from_another_process(path, "theirs")
    assert Path(f"{path}-wal").exists()
    first.execute("INSERT INTO things VALUES ('mine too')")
    first.close()
    last = connect(path)
    assert {name for (name,) in last.execute("SELECT name FROM things")} == {"mine", "theirs", "mine too"}
    assert last.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    last.close()


def test_eight_processes_that_make_the_database_at_once_lose_nothing(path: Path) -> None:
    code = WRITER.replace('""', repr(SCHEMA))
    writers = [subprocess.Popen([sys.executable, "-c", code, path, f"w{n}"]) for n in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    connection = connect(path)
    assert connection.execute("SELECT count(*) FROM things").fetchone() == (8,)
    connection.close()


def test_file_and_wal_are_private_under_any_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        connection = connect(path)
        connection.execute("INSERT INTO things VALUES ('a')")
        assert {each.stat().st_mode & 0o777 for each in path.parent.glob("things.db*")} == {0o600}
        connection.close()
    finally:
        os.umask(before)


@pytest.fixture
def ledger(launcher_home: Path) -> Path:
    Store.open().close()
    return launcher_home / "ledger.db"


def test_only_a_damaged_file_is_moved_aside(ledger: Path) -> None:
    assert restore.replace_damaged(str(ledger)) is None
    assert ledger.exists()
    ledger.write_bytes(b"no database" * 1000)
    Path(f"{ledger}-wal").write_bytes(b"of the damaged one")
    assert restore.replace_damaged(str(ledger)) == ""
    assert {each.name for each in ledger.parent.iterdir()} == {"ledger.db.damaged"}


def test_a_file_without_its_tables_is_damaged(ledger: Path) -> None:
    opened = sqlite3.connect(ledger)
    opened.execute("ALTER TABLE attempts RENAME TO others")
    opened.close()
    assert restore.replace_damaged(str(ledger)) == ""


def test_the_newest_sound_backup_takes_the_place_of_a_damaged_file(ledger: Path) -> None:
    with Store.open() as store:
        for number, age, name in ((1, 300, "first"), (2, 200, "second")):
            store.record(attempt(number=number))
            restore.back_up(str(ledger), name, older_than_s=0)
            os.utime(f"{ledger}.{name}.bak", (1e9 - age, 1e9 - age))
    Path(f"{ledger}.third.bak").write_bytes(b"no database" * 1000)
    ledger.write_bytes(b"no database" * 1000)
    assert restore.replace_damaged(str(ledger)) == f"{ledger}.second.bak"
    with Store.open(readonly=True) as store:
        assert [each.number for each in store.attempts(key())] == [2, 1]


def test_a_backup_is_made_when_the_last_one_is_old(ledger: Path) -> None:
    backup = Path(f"{ledger}.daily.bak")
    restore.back_up(str(ledger), "daily", older_than_s=100.0)
    assert backup.stat().st_mode & 0o777 == 0o600
    backup.write_text("young")
    restore.back_up(str(ledger), "daily", older_than_s=100.0)
    assert backup.read_text() == "young"
    os.utime(backup, (1e9, 1e9))
    restore.back_up(str(ledger), "daily", older_than_s=100.0)
    assert backup.read_bytes().startswith(b"SQLite format 3")


def test_a_migration_leaves_a_backup_of_the_older_file(launcher_home: Path) -> None:
    database.connect(str(launcher_home / "ledger.db"), FIRST, 1, readonly=False).close()
    with Store.open() as store:
        assert store.record(attempt())
    backup = launcher_home / "ledger.db.v1.bak"
    assert backup.stat().st_mode & 0o777 == 0o600
    kept = sqlite3.connect(backup)
    assert kept.execute("PRAGMA user_version").fetchone() == (1,)
    assert kept.execute("SELECT count(*) FROM attempts").fetchone() == (0,)
    kept.close()
    with Store.open(readonly=True) as store:
        assert len(store.attempts(key())) == 1
