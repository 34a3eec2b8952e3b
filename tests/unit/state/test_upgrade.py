"""A ledger of an earlier version: brought up to date with every row by the first client that writes."""

import sqlite3
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.errors import StateError
from launcher.holding.use import Use
from launcher.specs.attempt import Attempt
from launcher.state import reader as module
from launcher.state.records import AppRecord
from launcher.state.rows import COLUMNS, SCHEMA, VERSION, from_attempt
from launcher.state.store import Store
from tests.unit.state.attempts import attempt, end_of, key
from tests.unit.state.older import FIRST, THIRD

ATTEMPTS = [attempt(state="succeeded", ended_at=2.0), attempt(number=2, state="running", started_at=3.0)]


def write(
    path: Path, number: int, schema: str, names: Sequence[str], attempts: Sequence[Attempt] = ATTEMPTS
) -> None:
    """A ledger of a version with this schema, whose attempts have the columns `names`."""
    with sqlite3.connect(path) as made:
        made.executescript(f"PRAGMA journal_mode=WAL; {schema}; PRAGMA user_version={number}")
        for each in attempts:
            row = dict(zip(COLUMNS, from_attempt(each), strict=True))
            holes = ", ".join("?" * len(names))
            made.execute(
                f"INSERT INTO attempts ({', '.join(names)}) VALUES ({holes})", [row[n] for n in names]
            )
    made.close()


@pytest.fixture(autouse=True)
def first_version(launcher_home: Path) -> Path:
    """A ledger as version 1 wrote it, with two attempts."""
    launcher_home.mkdir(mode=0o700)
    path = launcher_home / "ledger.db"
    write(path, 1, FIRST, [name for name in COLUMNS if name in FIRST])
    return path


def version(path: Path) -> int:
    with sqlite3.connect(path) as opened:
        (found,) = opened.execute("PRAGMA user_version").fetchone()
    opened.close()
    return int(found)


def test_an_upgrade_keeps_every_attempt(first_version: Path):
    with Store.open() as store:
        assert store.attempts(key()) == ATTEMPTS[::-1]
        assert [entry.number for entry in store.live()] == [2]
    assert version(first_version) == VERSION


def test_an_upgraded_ledger_takes_attempts_of_the_current_version(first_version: Path):
    new = attempt(number=3, trigger_digest="tr1:a.b")
    with Store.open() as store:
        store.record(new)
    with Store.open() as store:
        assert store.latest() == {key(): new}


def test_a_reader_of_an_older_ledger_sees_every_attempt_and_writes_nothing(first_version: Path):
    before = first_version.read_bytes()
    with Store.open(readonly=True) as store:
        assert store.attempts(key()) == ATTEMPTS[::-1]
        with pytest.raises(StateError):
            store.record(attempt(number=3))
    assert first_version.read_bytes() == before
    assert version(first_version) == 1


def test_many_clients_at_once_upgrade_the_ledger_once():
    def read(_: int) -> int:
        with Store.open() as store:
            return len(store.attempts(key()))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(16))) == {2}


def test_a_version_that_cannot_be_brought_up_to_date_is_left_alone(first_version, monkeypatch):
    monkeypatch.setattr(module, "UPGRADES", {})
    before = first_version.read_bytes()
    with pytest.raises(StateError, match="is of schema 1, which this version cannot bring up to date"):
        Store.open()
    assert first_version.read_bytes() == before


def test_an_attempt_of_an_older_version_takes_a_trigger_digest_once():
    with Store.open() as store:
        app_id = ATTEMPTS[0].app_id
        assert store.watch(app_id, "tr1:a.b") is True
        assert store.watch(app_id, "tr1:a.b") is False
        assert store.by_app_id(app_id).trigger_digest == "tr1:a.b"


def test_rows_of_apps_come_from_the_source_in_the_same_transaction(first_version: Path):
    seen = []

    def source():
        seen.append("asked")
        yield AppRecord("local_cwd", "launcher", "loose", name="n", created_at=5.0, state="failed"), False

    with Store.open(readonly=True, source=source) as store:
        assert {app.app_id for app in store.newest()} == {"loose", *(each.app_id for each in ATTEMPTS)}
    with Store.open(source=source) as store:
        assert store.app("loose").state == "failed"
        assert store.to_tidy(["local_cwd"]) == []
    with Store.open(source=source) as store:
        assert len(store.newest()) == 3
    assert len(seen) == 2, "once to look at it, once to write it, and never again"


def test_the_third_version_gets_indexes_that_know_waiting_attempts(first_version: Path):
    first_version.unlink()
    write(first_version, 3, THIRD, [name for name in COLUMNS if name in THIRD], ATTEMPTS[1:])
    waiting = attempt(number=3, state="waiting")
    with Store.open() as store:
        store.record(waiting)
        store.add(AppRecord("local_cwd", "launcher", "loose", name="n", created_at=5.0, state="waiting"))
        assert [entry.number for entry in store.live_attempts()] == [3, 2]
        assert {entry.app_id for entry in store.live()} == {ATTEMPTS[1].app_id, waiting.app_id, "loose"}
    assert version(first_version) == VERSION


IN_10 = ("review", "receivers", "output_digest", "images")


def write_without(path: Path, number: int, *later: str) -> None:
    """A ledger of a version that lacked these columns, with ATTEMPTS."""
    schema = SCHEMA
    for name in later:
        schema = schema.replace(f", {name} TEXT NOT NULL DEFAULT ''", "")
    write(path, number, schema, [name for name in COLUMNS if name not in later])


def test_the_eighth_version_gets_columns_for_matrix_and_reason(first_version: Path):
    first_version.unlink()
    write_without(first_version, 8, "matrix", "reason", *IN_10)
    new = attempt(number=3, matrix="sweep", reason="asked for with --rerun")
    with Store.open() as store:
        assert [(each.matrix, each.reason) for each in store.attempts(key())] == [("", "")] * 2, "unknown"
        store.record(new)
        assert store.attempts(key(), 1) == [new]
        assert [each.matrix for each in store.matching("none-*", matrix="sweep")] == ["sweep"]
    assert version(first_version) == VERSION


def test_the_ninth_version_gets_columns_for_what_verify_checks(first_version: Path):
    first_version.unlink()
    write_without(first_version, 9, *IN_10)
    new = attempt(
        number=3, review="lr1:sha256:ab", output_digest="ou1:sha256:cd", images={"main": "sha256:ef"}
    )
    with Store.open() as store:
        found = [(each.review, each.output_digest, each.images) for each in store.attempts(key())]
        assert found == [("", "", {})] * 2, "unknown"
        store.record(new)
        assert store.attempts(key(), 1) == [new]


def test_an_upgrade_of_a_ledger_with_rows_of_apps_reads_no_records_of_schedulers(first_version: Path):
    first_version.unlink()
    write_without(first_version, 8, "matrix", "reason", *IN_10)
    for readonly in (True, False):
        with Store.open(readonly=readonly, source=lambda version: pytest.fail("asked")) as store:
            assert len(store.attempts(key())) == 2


def test_a_client_of_the_version_before_goes_on_recording_what_it_has_begun(first_version: Path):
    """The client opened the ledger before the upgrade, as a running `apply --wait` may have."""
    first_version.unlink()
    write_without(first_version, 8, "matrix", "reason", *IN_10)
    older = sqlite3.connect(first_version)
    assert older.execute("SELECT count(*) FROM attempts").fetchone() == (2,)
    with Store.open() as store:
        new = attempt(number=3, matrix="sweep")
        store.record(new)
        names = ", ".join(
            name for name in COLUMNS if name not in ("matrix", "reason", *IN_10, "number", "app_id")
        )
        with older:
            older.execute("UPDATE attempts SET state = 'succeeded', ended_at = 9.0 WHERE number = 2")
            older.execute(
                f"INSERT INTO attempts (number, app_id, {names}) "
                f"SELECT 4, 'train-4-x', {names} FROM attempts WHERE number = 1"
            )
        older.close()
        found = {each.number: (each.state, each.matrix) for each in store.attempts(key())}
    assert found == {
        1: ("succeeded", ""),
        2: ("succeeded", ""),
        3: (new.state, "sweep"),
        4: ("succeeded", ""),
    }


def test_the_seventh_version_gets_a_column_for_use(first_version: Path):
    first_version.unlink()
    write_without(first_version, 7, "used", "matrix", "reason", *IN_10)
    with Store.open(readonly=True) as store:
        assert [each.used for each in store.attempts(key())] == [{}, {}], "unknown, and nothing is written"
    assert version(first_version) == 7
    ended = end_of(ATTEMPTS[1].app_id, "succeeded", 9.0)
    ended.used = {"main": Use((1.0, 0.5, 200, "process"), wall_s=3.0)}
    with Store.open() as store:
        assert store.attempts(key()) == ATTEMPTS[::-1]
        assert store.end(ended)
        (used,) = [each.used for each in store.attempts(key(), 1)]
        assert (used["main"].cpu_s, used["main"].wall_s) == (1.5, 3.0)
        again = end_of(ATTEMPTS[1].app_id, "succeeded", 9.0)
        assert not store.end(again), "an end without use does not take it away"
    assert version(first_version) == VERSION


def test_the_refusal_of_a_newer_ledger_names_a_way_back_that_works(launcher_home: Path):
    with Store.open() as store:
        before = store.attempts(key())
    with sqlite3.connect(launcher_home / "ledger.db") as newer:  # as the next version would
        newer.execute(f"VACUUM INTO '{launcher_home}/ledger.db.v{VERSION}.bak'")
        newer.execute("DROP TABLE attempts")
        newer.execute(f"PRAGMA user_version={VERSION + 1}")
    newer.close()
    (launcher_home / "ledger.db-wal").write_bytes(b"what SQLite would replay into another file of the name")
    with pytest.raises(StateError, match="written by a newer launcher") as failed:
        Store.open(readonly=True)
    assert failed.value.hint.startswith("update launcher; or go back to how it was on 2")
    subprocess.run(["sh", "-ec", failed.value.hint.partition("\n")[2]], check=True)
    with Store.open() as store:
        assert store.attempts(key()) == before
    assert version(launcher_home / "newer" / "ledger.db") == VERSION + 1


def test_the_refusal_of_a_newer_ledger_without_a_usable_copy_names_none(launcher_home: Path):
    with Store.open() as store:
        store._connection.execute(f"PRAGMA user_version={VERSION + 1}")
    (launcher_home / "ledger.db.v1.bak").write_bytes(b"")  # which another version than this one can read
    with pytest.raises(StateError) as failed:
        Store.open()
    assert failed.value.hint == "update launcher, or set LAUNCHER_HOME to another folder"
