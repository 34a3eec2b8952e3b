"""The record of a Docker app: its lock, its journal, its removal."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.schedulers import owner
from launcher.schedulers.docker import record

HOLDER = """
import sys
from launcher.schedulers.docker import record
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


def test_the_record_is_private(app_dir: str) -> None:
    record.claim(app_dir).release()
    record.append(app_dir, "starting")
    record.write_attempt(app_dir, {"app_id": "app"})
    assert stat.S_IMODE(os.stat(app_dir).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(os.path.join(app_dir, name)).st_mode) for name in os.listdir(app_dir)} == {
        0o600
    }


def test_a_lock_does_not_count_once_its_folder_was_removed(app_dir: str) -> None:
    lock = record.claim(app_dir)
    record.remove(app_dir)
    assert not lock.is_valid
    other = record.claim(app_dir)
    assert (lock.is_valid, other.is_valid) == (False, True)
    lock.release()
    other.release()


def test_lines_are_added_whole_after_a_line_that_a_full_disk_cut_short(app_dir: str) -> None:
    record.claim(app_dir).release()
    record.append(app_dir, "starting")
    with open(os.path.join(app_dir, "journal.jsonl"), "a") as file:
        file.write('{"e":"end","sta')
    assert record.append(app_dir, "cancel", by="me")
    record_events = record.journal(app_dir)
    app = record_events.app
    assert (app.started_at is not None, app.cancel["by"], record_events.outcome) == (
        True,
        "me",
        None,
    )


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


def test_without_a_folder_nothing_is_written(app_dir: str) -> None:
    assert not record.append(app_dir, "starting")
    assert record.journal(app_dir) is None
    assert record.app_ids() == []


def test_a_removal_that_was_cut_short_is_finished(app_dir: str) -> None:
    record.claim(app_dir).release()
    os.rename(app_dir, os.path.join(record.apps_dir(), f"{record.GONE}app-1-1"))
    assert record.app_ids() == []
    record.sweep()
    assert os.listdir(record.apps_dir()) == []


def test_a_reserved_attempt_is_read_back(app_dir: str) -> None:
    record.claim(app_dir).release()
    assert record.read_attempt(app_dir) is None
    record.write_attempt(app_dir, {"app_id": "ä\udcff"})
    assert record.read_attempt(app_dir) == {"app_id": "ä\udcff"}


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
