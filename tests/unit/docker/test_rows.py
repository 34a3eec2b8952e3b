"""Rows of Docker apps in the store: there from the reservation on, removed with the record."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from launcher.schedulers.docker import record
from launcher.schedulers.registry import open_store
from launcher.state.records import AppRecord

DOCKER = "local_docker"
LABELS = {
    "launcher.app-id": "train-4-abcde",
    "launcher.scheduler": DOCKER,
    "launcher.session": "vision",
    "launcher.name": "train",
    "launcher.project": "vision",
    "launcher.target": "default",
    "launcher.job": "train",
    "launcher.attempt": "4",
    "launcher.created-at": "7.5",
}


def on_record() -> dict[str, AppRecord]:
    with open_store(readonly=True) as store:
        return {app.app_id: app for app in store.apps(DOCKER)}


def make_record(app_id: str, *events: tuple[str, dict[str, Any]]) -> None:
    lock = record.claim(record.folder(app_id))
    record.write_attempt(lock.app_dir, {"labels": {**LABELS, "launcher.app-id": app_id}})
    for kind, facts in events:
        record.append(lock.app_dir, kind, **facts)
    lock.release()


def test_a_row_has_the_identity_that_the_labels_hold() -> None:
    record.add_row(LABELS)
    app = on_record()["train-4-abcde"]
    assert (app.handle, app.key, app.number) == (
        "local_docker://vision/train-4-abcde", ("vision", "default", "train"), 4,
    )  # fmt: skip
    assert (app.name, app.created_at, app.state) == ("train", 7.5, "reserved")


def test_a_lost_store_is_filled_from_the_records(launcher_home: Path) -> None:
    end = {"state": "failed", "message": "main/0 exited with 3", "code": 3, "t": 9_500_000_000}
    make_record("reserved")
    make_record("running", ("starting", {}))
    make_record("ended", ("starting", {}), ("ended", end))
    make_record("told", ("starting", {}), ("ended", end), ("reaped", {}))
    record.claim(record.folder("empty")).release()
    for readonly in (True, False):
        with open_store(readonly=readonly) as store:
            assert {app.app_id: app.state for app in store.apps(DOCKER)} == {
                "reserved": "reserved", "running": "running", "ended": "failed", "told": "failed",
            }  # fmt: skip
            assert {app.app_id for app in store.to_tidy([DOCKER])} == {"reserved", "running", "ended"}
            record_events = store.app("told")
            assert (record_events.message, record_events.exit_code, record_events.ended_at) == (
                "main/0 exited with 3",
                3,
                9.5,
            )
        assert (launcher_home / "ledger.db").exists() is not readonly


def test_the_record_of_an_ended_app_has_its_use_and_its_changed_inputs() -> None:
    """`launcher list` copies it into the store, where the first end counts."""
    run = {"role": "main", "k": 0, "id": "c", "start": 1.0}
    use = [2.0, 1.0, 4096, "samples"]
    make_record(
        "ended",
        ("starting", {}),
        ("spawn", {**run, "t": 1_000_000_000}),
        ("exit", {**run, "code": 0, "use": use, "t": 4_000_000_000}),
        ("inputs", {"changed": "data.csv"}),
        ("ended", {"state": "succeeded", "message": "", "code": 0, "t": 4_000_000_000}),
    )
    app = record.read("ended")
    assert app is not None
    assert (app.inputs_changed, list(app.used)) == ("data.csv", ["main"])
    assert (app.used["main"].cpu_s, app.used["main"].wall_s, app.used["main"].memory) == (3.0, 3.0, 4096)


def test_matching_adds_missing_rows_and_removes_rows_without_a_record() -> None:
    record.add_row(LABELS)
    make_record("unlisted")
    record.match_rows()
    assert on_record().keys() == {"unlisted"}


def test_a_row_stays_while_its_record_is_there() -> None:
    make_record("train-4-abcde")
    record.add_row(LABELS)
    record.remove_row("train-4-abcde")
    assert on_record().keys() == {"train-4-abcde"}
    record.remove(record.folder("train-4-abcde"))
    record.remove_row("train-4-abcde")
    assert on_record() == {}


def test_a_watcher_imports_no_database() -> None:
    code = (
        "import sys, launcher.schedulers.docker.watching.watcher, launcher.schedulers.docker.client.engine\n"
        "print('_sqlite3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
