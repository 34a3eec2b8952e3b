"""The record of a Docker app: its lock, its journal, its removal; its row, there from the reservation on."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers import owner
from launcher.schedulers.docker import record
from launcher.schedulers.registry import open_store
from launcher.state.records import AppRecord

HOLDER = """
import sys
from launcher.schedulers.docker import record
from launcher.schedulers.registry import open_store
from launcher.state.records import AppRecord
lock = record.claim(record.folder("app"))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def app_dir(launcher_home: Path) -> str:
    return record.folder("app")


def _hold() -> subprocess.Popen[bytes]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    return holder


def test_a_lock_is_held_by_one_process_that_it_names(app_dir: str) -> None:
    with _hold() as holder:
        with pytest.raises(record.HeldError, match=f"pid {holder.pid} on "):
            record.claim(app_dir)
        assert record.is_locked(app_dir)
        holder.kill()
    assert not record.is_locked(app_dir)
    record.claim(app_dir).release()


def test_the_record_of_a_docker_app_is_private(app_dir: str) -> None:
    record.claim(app_dir).release()
    record.append(app_dir, "starting")
    record.write_attempt(app_dir, {"app_id": "app"})
    assert stat.S_IMODE(os.stat(app_dir).st_mode) == 0o700
    paths = [os.path.join(app_dir, name) for name in os.listdir(app_dir)]
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in paths} == {0o600}


def test_a_lock_does_not_count_once_its_folder_was_removed(app_dir: str) -> None:
    lock = record.claim(app_dir)
    record.remove(app_dir)
    assert not lock.is_valid
    other = record.claim(app_dir)
    assert (lock.is_valid, other.is_valid) == (False, True)
    lock.release()
    other.release()


def test_the_declaration_of_an_app_is_the_first_line_and_alone_no_journal(app_dir: str) -> None:
    declared = {"e": "created", "roles": [["main", 1]], "t": 1}
    record.claim(app_dir).release()
    assert record.begin(app_dir, declared, "waiting", **{"for": ["prepare"]})
    assert record.begin(app_dir, declared, "starting")
    found = record.journal(app_dir)
    assert [each["e"] for each in found.events] == ["created", "waiting", "starting"]
    with open(os.path.join(app_dir, "journal.jsonl"), "w") as file:
        file.write(json.dumps(declared) + '\n{"e":"star')  # the disk was full
    assert record.journal(app_dir) is None


def test_an_app_without_a_folder_gets_no_record(app_dir: str) -> None:
    assert not record.append(app_dir, "starting")
    assert record.journal(app_dir) is None
    assert record.app_ids() == []


def test_a_removal_that_was_cut_short_is_finished(app_dir: str) -> None:
    record.claim(app_dir).release()
    os.rename(app_dir, os.path.join(record.apps_dir(), f"{record.GONE}app-1-1"))
    assert record.app_ids() == []
    record.sweep()
    assert os.listdir(record.apps_dir()) == []


def test_an_owner_is_alive_as_long_as_its_process(launcher_home: Path) -> None:
    me = owner.this_process()
    assert owner.from_json(me.to_json()) == me
    assert me.is_alive(None)
    assert not owner.Owner(me.host, me.boot, me.pid, me.start + 1).is_alive(None), "its pid was reused"
    assert not owner.Owner(me.host, "before", me.pid, me.start).is_alive(None), "it was booted since"


def test_an_owner_on_another_machine_counts_as_alive_for_a_limited_time() -> None:
    far = owner.Owner("far", "boot", 1, 1)
    assert far.is_alive(1000.0, now=1000.0 + owner.PATIENCE_S - 1)
    assert not far.is_alive(1000.0, now=1000.0 + owner.PATIENCE_S)
    assert not far.is_alive(1000.0, now=1000.0, take_over=True)


@pytest.mark.parametrize("text", ["", "null", "{}", '{"host": "h", "boot": "b", "pid": "x", "start": 1}'])
def test_text_that_is_no_owner_is_read_as_none(text: str) -> None:
    assert owner.from_json(text) is None


# -- its row in the store ------------------------------------------------------------------------------------

DOCKER = "local_docker"
LABELS = {
    "launcher.app-id": "train-4-abcde", "launcher.scheduler": DOCKER, "launcher.session": "vision",
    "launcher.name": "train", "launcher.project": "vision", "launcher.target": "default",
    "launcher.job": "train", "launcher.attempt": "4", "launcher.created-at": "7.5",
}  # fmt: skip


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
