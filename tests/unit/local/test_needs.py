"""An app that waits for others: what its supervisor does at their ends, and who decides that it starts."""

import os
from pathlib import Path
from typing import Any

import pytest

from launcher.holding.events import ended
from launcher.holding.journal import JournalWriter
from launcher.schedulers import pids
from launcher.schedulers.local import rundir
from launcher.schedulers.local.waiting import holder, outcome
from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven, sh, stay_asleep, withdraw


def hold(app: Driven, *holders: Driven, script: str = "echo ran", **options: Any) -> None:
    """Let the app wait for others, under the names job-0, job-1, …"""
    assert app.create(app.role("main", sh(script)), **options) == {"ok": "created"}
    wanted = [(f"job-{k}", each.app_dir) for k, each in enumerate(holders)]
    assert app.ask({"op": "go", "needs": wanted}) == {"ok": "waiting"}


def skipped(app: Driven) -> str:
    """Wait for the end of the app; return why it was skipped."""
    assert app.exited() == 0, app.errors
    assert (app.view.state, app.errors) == ("skipped", "")
    assert "spawn" not in app.record
    return app.view.message


def test_the_outcome_of_a_need_with_a_dead_supervisor_follows_from_its_record(supervise: Supervise) -> None:
    """All replicas had ended with 0, so the app succeeded, although its supervisor could not record that."""
    first, second = supervise(dies_at=("exit", 1)), supervise()
    assert first.create(first.role("main", ["sleep", "0.3"])) == {"ok": "created"}
    assert first.go() == {"ok": "started"}
    hold(second, first)
    assert second.ended().state == "succeeded"


def test_a_need_whose_supervisor_died_before_its_start_can_come_back(supervise: Supervise) -> None:
    zero, second = supervise("zero"), supervise()
    assert zero.create(zero.role("main", ["true"])) == {"ok": "created"}
    hold(second, zero)
    zero.kill()
    again = supervise("zero")
    assert (second.view.state, second.view.lock_held) == ("waiting", True)
    again.start(again.role("main", ["true"]))
    assert second.ended().state == "succeeded"


def test_an_app_waits_on_while_the_record_of_its_need_cannot_be_read(supervise: Supervise) -> None:
    first, second = supervise(), supervise()
    first.start(first.role("main", sh("until [ -e gate ]; do sleep 0.02; done")))
    record = Path(rundir.events(first.app_dir))
    saved = record.rename(record.with_name("saved"))
    record.mkdir()
    hold(second, first)
    assert not second.exits_within(0.5)
    record.rmdir()
    saved.rename(record)
    (Path(first.cwd) / "gate").touch()
    assert second.ended().state == "succeeded"


def test_an_app_whose_need_was_removed_is_skipped(supervise: Supervise, tmp_path: Path) -> None:
    app = supervise()
    assert app.create(app.role("main", ["true"])) == {"ok": "created"}
    assert app.ask({"op": "go", "needs": [("prepare", str(tmp_path / "none"))]}) == {"ok": "waiting"}
    assert skipped(app) == "prepare was removed"


def test_a_reused_pid_is_another_process(tmp_path: Path) -> None:
    """The record names a process by pid, start time and boot."""
    record = JournalWriter.begin(rundir.events(str(tmp_path)))
    own, start = os.getpid(), pids.start_time(os.getpid())
    assert start is not None
    record.append(
        {"v": 1, "e": "supervisor", "pid": own, "start": start, "boot": pids.boot_id(),
            "handle": 'a://b/"pid":7,'}
    )  # fmt: skip
    assert holder(str(tmp_path)) == ("supervisor", own, start)
    assert pids.open_pid(own, start + 1) is None
    Path(rundir.events(str(tmp_path))).unlink()
    other = JournalWriter.begin(rundir.events(str(tmp_path)))
    other.append(
        {"v": 1, "e": "supervisor", "pid": own, "start": start, "boot": "before", "handle": "a://b/c"}
    )
    assert holder(str(tmp_path)) == ("", 0, 0)


@pytest.mark.parametrize("message", ["", 'x "e":"ended","state":"failed" \\', "ä" * 5000])
def test_the_recorded_state_is_read_whatever_the_message_says(tmp_path: Path, message: str) -> None:
    record = JournalWriter.begin(rundir.events(str(tmp_path)))
    record.append({"v": 1, "e": "supervisor", "pid": 1, "start": 1, "boot": "b", "handle": "a://b/c"})
    record.append({"e": "warning", "message": '{"e":"ended","t":1,"state":"succeeded"'})
    assert outcome(str(tmp_path)) == ""
    record.append(ended("cancelled", message))
    assert outcome(str(tmp_path)) in ("cancelled", "" if len(message) > 1000 else "cancelled")


@pytest.mark.parametrize("asked", ["withdrawn", "cancelled"])
def test_an_app_that_a_client_ends_before_its_need_ends_as_asked(supervise, tmp_path, asked):
    """The supervisor sees the end of the need first, and no signal."""
    first, second, gate = supervise(), supervise(), tmp_path / "gate"
    first.start(first.role("main", sh(f"until [ -e {gate} ]; do sleep 0.02; done; exit 3")))
    hold(second, first)
    if asked == "withdrawn":
        rundir.decide(second.app_dir, rundir.WITHDRAWN)
    else:
        Path(rundir.cancel(second.app_dir)).write_text("ann\n")
    gate.touch()
    assert second.exited() == 0, second.errors
    ends = {"withdrawn": ("skipped", "withdrawn"), "cancelled": ("cancelled", "cancelled by ann")}
    assert (second.view.state, second.view.message) == ends[asked]


def test_a_supervisor_that_dies_between_decision_and_start_leaves_nothing_decided(supervise):
    first, second = supervise(), supervise()
    first.start(first.role("main", ["sleep", "1000"]))
    hold(second, first)
    assert rundir.decide(second.app_dir, rundir.START) == rundir.START  # as it does itself
    assert not withdraw(os.path.basename(second.app_dir))
    second.kill()
    assert second.view.state == "waiting"
    assert withdraw(os.path.basename(second.app_dir))
    assert (second.view.state, second.view.message) == ("skipped", "withdrawn")


@pytest.mark.slow
def test_a_supervisor_that_waits_for_needs_does_not_wake_up(supervise: Supervise) -> None:
    first = supervise()
    first.start(first.role("main", ["sleep", "1000"]))
    second = supervise()
    hold(second, first)
    second.hang_up()
    assert stay_asleep(second.pid)
