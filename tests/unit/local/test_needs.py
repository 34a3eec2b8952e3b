"""An app that waits for others: what its supervisor does at their ends, and who decides that it starts."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from launcher.holding.events import ended
from launcher.holding.journal import JournalWriter
from launcher.schedulers import pids
from launcher.schedulers.local import rundir
from launcher.schedulers.local.hold import outcome, supervisor
from launcher.schedulers.local.stop import withdraw
from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven, sh

PATIENCE_S = 30.0


def hold(app: Driven, *holders: Driven, script: str = "echo ran", **options: Any) -> None:
    """Let the app wait for others, under the names job-0, job-1, …"""
    assert app.create(app.role("main", sh(script)), **options) == {"ok": "created"}
    wanted = [(f"job-{k}", each.app_dir) for k, each in enumerate(holders)]
    assert app.ask({"op": "go", "needs": wanted}) == {"ok": "waiting"}


def skipped(app: Driven) -> str:
    """Wait for its end; why it was skipped."""
    assert app.exited() == 0, app.errors
    assert (app.view.state, app.errors) == ("skipped", "")
    assert "spawn" not in app.record
    return app.view.message


@pytest.fixture
def state_dir(launcher_home: Path) -> str:
    return str(launcher_home / "local")


def test_the_client_may_go_and_the_app_runs_later(supervise: Supervise, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first, second = supervise(), supervise()
    first.start(first.role("main", sh(f"until [ -e {gate} ]; do sleep 0.02; done")))
    hold(second, first)
    second.hang_up()
    assert (second.view.state, second.view.message) == ("waiting", "waits for job-0")
    assert second.view.owner.startswith(f"pid {second.pid} on ")
    gate.touch()
    view = second.ended()
    assert (view.state, view.message, second.log()) == ("succeeded", "", "ran\n")
    assert view.started_at is not None
    assert first.view.ended_at is not None
    assert view.started_at >= first.view.ended_at


def test_its_time_limit_begins_with_its_start(supervise: Supervise) -> None:
    first, second = supervise(), supervise()
    first.start(first.role("main", ["sleep", "0.6"]))
    hold(second, first, script="sleep 0.1", timeout_s=0.5)
    assert second.ended().state == "succeeded"


@pytest.mark.parametrize(
    ("last", "message"),
    [("exit 3", "job-0 failed"), ("kill -9 $PPID; sleep 100", "job-0 was lost")],
)
def test_a_need_that_does_not_succeed_ends_it(supervise: Supervise, last: str, message: str) -> None:
    first, second = supervise(), supervise()
    first.start(first.role("main", sh(f"sleep 0.3; {last}")))
    hold(second, first)
    assert skipped(second) == message


def test_what_a_dead_supervisor_leaves_is_judged_as_every_command_does(supervise: Supervise) -> None:
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


def test_a_need_whose_folder_is_gone_ends_it(supervise: Supervise, tmp_path: Path) -> None:
    app = supervise()
    assert app.create(app.role("main", ["true"])) == {"ok": "created"}
    assert app.ask({"op": "go", "needs": [("prepare", str(tmp_path / "none"))]}) == {"ok": "waiting"}
    assert skipped(app) == "prepare was removed"


def test_a_reused_pid_is_another_process(tmp_path: Path) -> None:
    """The record names a process by pid, start time and boot."""
    record = JournalWriter.begin(rundir.events(str(tmp_path)), rundir.spare(str(tmp_path)))
    own, start = os.getpid(), pids.start_time(os.getpid())
    assert start is not None
    record.append(
        {
            "v": 1,
            "e": "supervisor",
            "pid": own,
            "start": start,
            "boot": pids.boot_id(),
            "handle": 'a://b/"pid":7,',
        }
    )
    assert supervisor(str(tmp_path)) == (own, start)
    assert pids.open_pid(own, start + 1) is None
    Path(rundir.events(str(tmp_path))).unlink()
    other = JournalWriter.begin(rundir.events(str(tmp_path)), rundir.spare(str(tmp_path)))
    other.append(
        {"v": 1, "e": "supervisor", "pid": own, "start": start, "boot": "before", "handle": "a://b/c"}
    )
    assert supervisor(str(tmp_path)) is None


@pytest.mark.parametrize("message", ["", 'x "e":"ended","state":"failed" \\', "ä" * 5000])
def test_the_recorded_state_is_read_whatever_the_message_says(tmp_path: Path, message: str) -> None:
    record = JournalWriter.begin(rundir.events(str(tmp_path)), rundir.spare(str(tmp_path)))
    record.append({"v": 1, "e": "supervisor", "pid": 1, "start": 1, "boot": "b", "handle": "a://b/c"})
    record.append({"e": "warning", "message": '{"e":"ended","t":1,"state":"succeeded"'})
    assert outcome(str(tmp_path)) == ""
    record.append(ended("cancelled", message))
    assert outcome(str(tmp_path)) in ("cancelled", "" if len(message) > 1000 else "cancelled")


def test_what_cannot_start_any_more_has_failed(supervise: Supervise, tmp_path: Path) -> None:
    """No client waits for its start, so the error is its outcome, and its folder stays."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    first, second = supervise(), supervise()
    first.start(first.role("main", sh(f"sleep 0.3; rm {program}")))
    assert second.create(second.role("main", [str(program)])) == {"ok": "created"}
    assert second.ask({"op": "go", "needs": [("prepare", first.app_dir)]}) == {"ok": "waiting"}
    view = second.ended()
    assert view.state == "failed"
    assert view.message.startswith("main/0 could not be started: ")


def test_a_cancelled_one_is_cancelled(supervise: Supervise) -> None:
    first, second = supervise(), supervise()
    first.start(first.role("main", ["sleep", "1000"]))
    hold(second, first)
    second.cancel()
    view = second.ended()
    assert (view.state, view.message) == ("cancelled", "cancelled by somebody")


def test_a_suspended_supervisor_is_withdrawn_all_the_same(supervise: Supervise, state_dir: str) -> None:
    first, second = supervise(), supervise()
    first.start(first.role("main", ["sleep", "1000"]))
    hold(second, first)
    os.kill(second.pid, signal.SIGSTOP)
    assert withdraw(state_dir, os.path.basename(second.app_dir))
    assert skipped(second) == "withdrawn"


def test_a_supervisor_that_dies_between_decision_and_start_leaves_nothing_decided(
    supervise: Supervise, state_dir: str
) -> None:
    first, second = supervise(), supervise()
    first.start(first.role("main", ["sleep", "1000"]))
    hold(second, first)
    assert rundir.decide(second.app_dir, rundir.START) == rundir.START  # as it does itself
    assert not withdraw(state_dir, os.path.basename(second.app_dir))
    second.kill()
    assert second.view.state == "waiting"
    assert withdraw(state_dir, os.path.basename(second.app_dir))
    assert (second.view.state, second.view.message) == ("skipped", "withdrawn")


@pytest.mark.parametrize("rounds", [25])
def test_it_is_withdrawn_or_it_runs(
    supervise: Supervise, state_dir: str, tmp_path: Path, rounds: int
) -> None:
    """Withdrawn by two clients at the moment at which its need ends: it never runs then, else it does."""
    for number in range(rounds):
        gate = tmp_path / f"gate-{number}"
        first, second = supervise(), supervise()
        first.start(first.role("main", sh(f"until [ -e {gate} ]; do :; done")))
        hold(second, first, script=f"touch {tmp_path}/ran-{number}")
        with ThreadPoolExecutor(2) as pool:
            gate.touch()
            time.sleep(number * 0.0004)  # moves the withdrawal over the moment of the start
            answers = list(pool.map(partial(withdraw, state_dir), [os.path.basename(second.app_dir)] * 2))
        second.exited()
        withdrawn = any(answers)  # the later client may find that it does not wait any more
        state = second.view.state
        assert (state, second.view.message) == (("skipped", "withdrawn") if withdrawn else ("succeeded", ""))
        assert (tmp_path / f"ran-{number}").exists() is not withdrawn


def test_waiting_costs_no_wake_ups(supervise: Supervise) -> None:
    first = supervise()
    first.start(first.role("main", ["sleep", "1000"]))
    second = supervise()
    hold(second, first)
    second.hang_up()

    def switches() -> list[str]:
        lines = Path(f"/proc/{second.pid}/status").read_text().splitlines()
        return [line for line in lines if "ctxt_switches" in line]

    deadline = time.monotonic() + PATIENCE_S
    while (before := switches()) != (time.sleep(0.5) or switches()):
        assert time.monotonic() < deadline, "it never comes to rest"
    time.sleep(1.5)
    assert switches() == before
