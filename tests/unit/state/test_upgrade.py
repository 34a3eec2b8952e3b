"""A ledger of an earlier version: brought up to date with every row by the first client that writes."""

import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import StateError
from launcher.holding.use import Use
from launcher.state import reader as module
from launcher.state.records import AppRecord
from launcher.state.rows import COLUMNS, SCHEMA, VERSION, from_attempt
from launcher.state.store import Store
from tests.unit.state.attempts import attempt, end_of, key
from tests.unit.state.older import FIRST, THIRD

ATTEMPTS = [attempt(state="succeeded", ended_at=2.0), attempt(number=2, state="running", started_at=3.0)]
NEW = attempt(
    number=3, trigger_digest="tr1:a.b", matrix="sweep", reason="asked for with --rerun",
    review="lr1:sha256:ab", output_digest="ou1:sha256:cd", images={"main": "sha256:ef"},
)  # fmt: skip
"""An attempt with values in the columns that later versions have added, but for its use."""
_SINCE_10 = ("review", "receivers", "output_digest", "images")
_SINCE_9 = ("matrix", "reason", *_SINCE_10)


def schema_without(*later: str) -> str:
    schema = SCHEMA
    for name in later:
        schema = schema.replace(f", {name} TEXT NOT NULL DEFAULT ''", "")
    return schema


SCHEMAS = {
    1: FIRST, 3: THIRD, 7: schema_without("used", *_SINCE_9), 8: schema_without(*_SINCE_9),
    9: schema_without(*_SINCE_10),
}  # fmt: skip
ANY = pytest.mark.parametrize("of", SCHEMAS)


def write(path: Path, of: int) -> None:
    """A ledger of that version with ATTEMPTS, in the columns that it has."""
    schema = SCHEMAS[of]
    names = [name for name in COLUMNS if name in schema]
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as made:
        made.executescript(f"PRAGMA journal_mode=WAL; {schema}; PRAGMA user_version={of}")
        for each in ATTEMPTS:
            row = dict(zip(COLUMNS, from_attempt(each), strict=True))
            holes = ", ".join("?" * len(names))
            made.execute(
                f"INSERT INTO attempts ({', '.join(names)}) VALUES ({holes})", [row[n] for n in names]
            )
    made.close()


@pytest.fixture(autouse=True)
def ledger(launcher_home: Path) -> Path:
    """The path of a ledger that version 1 wrote, with two attempts."""
    launcher_home.mkdir(mode=0o700)
    write(launcher_home / "ledger.db", 1)
    return launcher_home / "ledger.db"


def version(path: Path) -> int:
    with sqlite3.connect(path) as opened:
        (found,) = opened.execute("PRAGMA user_version").fetchone()
    opened.close()
    return int(found)


@ANY
def test_an_upgrade_keeps_every_attempt_and_takes_attempts_of_this_version(ledger: Path, of: int):
    write(ledger, of)
    with Store.open() as store:
        assert store.attempts(key()) == ATTEMPTS[::-1]
        assert store.record(NEW)
        store.record(replace(NEW, number=4, app_id="train-4-x", state="waiting"))
        store.add(AppRecord("local_cwd", "launcher", "loose", name="n", created_at=5.0, state="waiting"))
        assert [entry.number for entry in store.live_attempts()] == [3, 4, 2]
        assert {entry.app_id for entry in store.live()} >= {ATTEMPTS[1].app_id, "train-4-x", "loose"}
        assert [each.number for each in store.matching("none-*", matrix="sweep")] == [4]
        ended = end_of(ATTEMPTS[1].app_id, "succeeded", 9.0)
        ended.used = {"main": Use((1.0, 0.5, 200, "process"), wall_s=3.0)}
        assert store.end(ended)
        assert not store.end(end_of(ATTEMPTS[1].app_id, "succeeded", 9.0)), "it does not take the use away"
    with Store.open() as store:
        _, new, second, first = store.attempts(key())
        assert (new, first) == (NEW, ATTEMPTS[0])
        assert (second.used["main"].cpu_s, second.used["main"].wall_s) == (1.5, 3.0)
    assert version(ledger) == VERSION


@ANY
def test_a_reader_of_an_older_ledger_sees_every_attempt_and_writes_nothing(ledger: Path, of: int):
    write(ledger, of)
    before = ledger.read_bytes()
    with Store.open(readonly=True) as store:
        assert store.attempts(key()) == ATTEMPTS[::-1]
        with pytest.raises(StateError):
            store.record(NEW)
    assert ledger.read_bytes() == before
    assert version(ledger) == of


def test_many_clients_at_once_upgrade_the_ledger_once():
    def read(_: int) -> int:
        with Store.open() as store:
            return len(store.attempts(key()))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(16))) == {2}


def test_a_version_that_cannot_be_brought_up_to_date_is_left_alone(ledger, monkeypatch):
    monkeypatch.setattr(module, "UPGRADES", {})
    before = ledger.read_bytes()
    with pytest.raises(StateError, match="is of schema 1, which this version cannot bring up to date"):
        Store.open()
    assert ledger.read_bytes() == before


def test_an_attempt_of_an_older_version_takes_a_trigger_digest_once():
    with Store.open() as store:
        app_id = ATTEMPTS[0].app_id
        assert store.watch(app_id, "tr1:a.b") is True
        assert store.watch(app_id, "tr1:a.b") is False
        assert store.by_app_id(app_id).trigger_digest == "tr1:a.b"


def test_rows_of_apps_come_from_the_source_in_the_same_transaction(ledger: Path):
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


def test_an_upgrade_of_a_ledger_with_rows_of_apps_reads_no_records_of_schedulers(ledger: Path):
    write(ledger, 8)
    for readonly in (True, False):
        with Store.open(readonly=readonly, source=lambda version: pytest.fail("asked")) as store:
            assert len(store.attempts(key())) == 2


def test_a_client_of_the_version_before_goes_on_recording_what_it_has_begun(ledger: Path):
    """The client opened the ledger before the upgrade, as a running `apply --wait` may have."""
    write(ledger, 8)
    older = sqlite3.connect(ledger)
    assert older.execute("SELECT count(*) FROM attempts").fetchone() == (2,)
    with Store.open() as store:
        new = attempt(number=3, matrix="sweep")
        store.record(new)
        names = ", ".join(name for name in COLUMNS if name not in (*_SINCE_9, "number", "app_id"))
        with older:
            older.execute("UPDATE attempts SET state = 'succeeded', ended_at = 9.0 WHERE number = 2")
            older.execute(
                f"INSERT INTO attempts (number, app_id, {names}) "
                f"SELECT 4, 'train-4-x', {names} FROM attempts WHERE number = 1"
            )
        older.close()
        found = {each.number: (each.state, each.matrix) for each in store.attempts(key())}
    assert found == {
        1: ("succeeded", ""), 2: ("succeeded", ""), 3: (new.state, "sweep"), 4: ("succeeded", ""),
    }  # fmt: skip


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
