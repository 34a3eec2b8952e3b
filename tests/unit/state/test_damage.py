"""A damaged ledger is moved aside and replaced from backups and schedulers."""

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher import database
from launcher.state import restore as module
from launcher.state.records import AppRecord
from launcher.state.store import Store
from tests.unit.state.attempts import attempt, key

DAY = 86400.0


@pytest.fixture(autouse=True)
def notices() -> Iterator[dict[str, None]]:
    """The notices of damage that a command would print."""
    module.notices.clear()
    yield module.notices
    module.notices.clear()


def source() -> Iterator[tuple[AppRecord, bool]]:
    yield AppRecord("local_cwd", "s", "loose", name="n", created_at=5.0, state="failed"), False


def flip(path: Path, start: int, end: int) -> None:
    data = bytearray(path.read_bytes())
    data[start:end] = bytes(byte ^ 0x5A for byte in data[start:end])
    path.write_bytes(data)


DAMAGE = {
    "no database": lambda path: path.write_bytes(b"no database at all" * 100),
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 20000),
    "flipped bytes": lambda path: flip(path, 4096, 24576),
    "missing": lambda path: path.unlink(),
    "empty": lambda path: os.truncate(path, 0),
}


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("damage", DAMAGE)
def test_rows_of_apps_come_back_from_their_source(launcher_home: Path, damage: str, readonly: bool):
    with Store.open() as store:
        store.record(attempt())
    DAMAGE[damage](launcher_home / "ledger.db")
    with Store.open(readonly=readonly, source=source) as store:
        assert [(app.app_id, app.state) for app in store.newest()] == [("loose", "failed")]
        assert store.latest() == {}
    if not readonly:
        opened = sqlite3.connect(launcher_home / "ledger.db")
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        opened.close()


@pytest.mark.parametrize("readonly", [True, False])
def test_outcomes_come_back_from_the_backup(launcher_home: Path, readonly: bool, notices: dict[str, None]):
    path = launcher_home / "ledger.db"
    ended = attempt(state="succeeded", ended_at=2.0)
    with Store.open() as store:
        store.record(ended)
        store.add(AppRecord("local_cwd", "s", "removed since", created_at=3.0, state="running"))
        store.back_up(ended.created_at + 2 * DAY)
        store.record(attempt(number=2))
    path.write_bytes(b"no database" * 1000)
    for _ in range(2):
        with Store.open(readonly=readonly, source=source) as store:
            assert store.attempts(key()) == [ended]
            assert {app.app_id for app in store.newest()} == {ended.app_id, "loose"}
    assert path.with_name("ledger.db.damaged").exists() is not readonly
    (output,) = notices
    assert f"{path} is damaged" in output
    assert "ledger.db.daily.bak and the records of the schedulers" in output


def test_a_backup_of_an_older_version_is_brought_up_to_date(launcher_home: Path):
    from tests.unit.state.older import SECOND

    launcher_home.mkdir(mode=0o700)
    backup = sqlite3.connect(launcher_home / "ledger.db.v2.bak")
    backup.executescript(f"PRAGMA journal_mode=WAL; {SECOND}; PRAGMA user_version=2")
    backup.close()
    (launcher_home / "ledger.db").write_bytes(b"no database" * 1000)
    for readonly in (True, False):
        with Store.open(readonly=readonly, source=source) as store:
            assert [app.app_id for app in store.newest()] == ["loose"]
    with Store.open() as store:
        assert store.record(attempt())


def test_damage_that_shows_while_the_ledger_is_open_is_repaired(launcher_home, notices):
    with Store.open(source=source) as first:
        for number in range(1, 200):
            first.record(attempt(number=number))
    with Store.open(source=source) as store:
        flip(launcher_home / "ledger.db", 4096, 40960)
        assert [app.app_id for app in store.newest()] == ["loose"]
        assert store.record(attempt())
    assert (launcher_home / "ledger.db.damaged").exists()
    assert len(notices) == 1


def test_one_of_many_clients_that_meet_a_damaged_file_replaces_it(launcher_home, notices):
    Store.open().close()
    (launcher_home / "ledger.db").write_bytes(b"no database" * 1000)

    def write(number: int) -> bool:
        with Store.open(source=source) as store:
            return store.record(attempt(number=number))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(1, 17)))
    with Store.open(readonly=True) as store:
        assert len(store.attempts(key())) == 16
    assert len(notices) == 1


@pytest.mark.slow
def test_a_file_that_is_moved_aside_meanwhile_is_not_unwritable(launcher_home: Path):
    path = launcher_home / "ledger.db"
    Store.open().close()

    def move() -> None:
        for number in range(3000):
            path.rename(launcher_home / f"{number}.damaged")
            path.touch()

    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(move)
        while not moving.done():
            database._refuse_unwritable(str(path))
        moving.result()


def test_a_young_ledger_is_not_backed_up(launcher_home: Path):
    with Store.open() as store:
        store.back_up(attempt().created_at + 2 * DAY)
        store.record(attempt())
        store.back_up(attempt().created_at + 0.5 * DAY)
    assert not (launcher_home / "ledger.db.daily.bak").exists()
