"""How an app is stopped: by cancel, timeout, its parent's end, a failing peer; and what must be gone then."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from launcher.schedulers import pids
from launcher.schedulers.local import control, rundir
from launcher.schedulers.local.apprecord import replica_records
from launcher.schedulers.local.appview import fold
from tests.unit.local.driving import Driven, replicas, sh

SLEEP = ["sleep", "1000"]


def test_cancel_ends_every_replica_with_term(app: Driven) -> None:
    app.start(app.role("main", SLEEP, SLEEP), app.role("other", SLEEP))
    app.cancel("alice on box")
    view = app.ended()
    assert (view.state, view.message, view.code) == ("cancelled", "cancelled by alice on box", None)
    assert [(r.state, r.exit_code, r.signal) for r in replicas(view)] == [("cancelled", 143, 15)] * 3
    assert (view.stop_why, view.stop_by) == ("cancel", "alice on box")


def test_a_signal_without_an_intent_cancels_too(app: Driven) -> None:
    app.start(app.role("main", SLEEP))
    os.kill(app.pid, signal.SIGINT)
    view = app.ended()
    assert (view.state, view.message) == ("cancelled", "stopped by signal 2")


def test_a_replica_may_clean_up_within_the_grace_period(app: Driven) -> None:
    app.start(
        app.role("main", sh("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"))
    )
    app.until_log("ready")
    app.cancel()
    assert app.ended().state == "cancelled"
    assert app.log(stream="stdout") == "ready\nsaved\n"


def test_what_ignores_term_is_killed_after_the_grace_period(app: Driven) -> None:
    app.start(app.role("main", sh("trap '' TERM; echo ready; sleep 1000; sleep 1000")), grace_s=0.2)
    app.until_log("ready")
    began = time.monotonic()
    app.cancel()
    assert replicas(app.ended())[0].signal == signal.SIGKILL
    assert 0.2 <= time.monotonic() - began < 60
    assert app.left() == []


def test_the_group_gets_its_grace_period_even_when_its_leader_went_at_once(app: Driven) -> None:
    child = "trap 'sleep 0.3; echo saved; exit' TERM; echo ready; while :; do sleep 0.01; done"
    app.start(app.role("main", sh(f'sh -c "{child}" & wait')))
    app.until_log("ready")
    app.cancel()
    assert app.ended().state == "cancelled"
    assert app.log(stream="stdout") == "ready\nsaved\n"


def test_the_group_is_killed_also_where_the_leader_has_gone(app: Driven) -> None:
    child = "trap '' TERM; echo ready; sleep 1000; sleep 1000"
    app.start(app.role("main", sh(f'sh -c "{child}" & wait')), grace_s=0.2)
    app.until_log("ready")
    app.cancel()
    app.ended()
    assert app.left() == []


def test_a_suspended_replica_hears_of_the_cancel(app: Driven) -> None:
    app.start(app.role("main", SLEEP))
    os.kill(app.replica().pid or 0, signal.SIGSTOP)
    app.cancel()
    assert replicas(app.ended())[0].signal == signal.SIGTERM


def test_what_went_to_another_session_is_killed_with_the_app(app: Driven) -> None:
    app.start(
        app.role("main", sh("setsid -f sleep 1234; env -i setsid -f sleep 4321; echo ready; sleep 1000"))
    )
    app.until_log("ready")
    started = {each.pid: each.start for each in pids.descendants([app.pid])}
    assert len(started) >= 3
    app.cancel()
    app.ended()
    assert not any(pids.is_running(pid, start) for pid, start in started.items())


def test_processes_that_keep_forking_do_not_escape(app: Driven) -> None:
    forker = "import os\nprint('ready', flush=True)\nwhile True:\n  if os.fork(): os._exit(0)\n  os.setsid()"
    app.start(app.role("main", *[[sys.executable, "-I", "-S", "-c", forker]] * 8, SLEEP))
    for k in range(8):
        app.until_log("ready", k=k)
    app.cancel()
    app.ended()
    assert app.left() == []


def test_cancel_twice_is_one_cancel(app: Driven) -> None:
    app.start(app.role("main", sh("trap '' TERM; echo ready; sleep 1000; sleep 1000")), grace_s=0.3)
    app.until_log("ready")
    app.cancel("first")
    app.until(lambda view: view.stop_why)
    app.cancel("second")
    assert app.ended().message == "cancelled by first"
    assert app.record.count('"stopping"') == 1


def test_cancel_while_waiting_for_go_is_recorded_and_nothing_runs(app: Driven) -> None:
    app.create(app.role("main", sh("echo ran")))
    app.cancel("bob")
    view = app.ended()
    assert (view.state, view.message) == ("cancelled", "cancelled by bob")
    assert app.go() is None
    assert app.log() == ""


@pytest.mark.parametrize("first", ["cancel", "hang up"])
def test_cancel_and_hanging_up_in_the_same_moment_leave_one_clear_state(app: Driven, first: str) -> None:
    app.create(app.role("main", sh("echo ran")))
    os.kill(app.pid, signal.SIGSTOP)  # it finds both when it looks again
    for step in (app.cancel, app.hang_up) if first == "cancel" else (app.hang_up, app.cancel):
        step()
    os.kill(app.pid, signal.SIGCONT)
    assert app.exited() == 0
    view = rundir.read_state(app.app_dir)
    assert view is None or (view.state == "cancelled" and app.errors == "")


@pytest.mark.parametrize("when", ["before create", "before go"])
def test_an_intent_without_a_signal_is_seen_at_the_next_step(app: Driven, when: str) -> None:
    if when == "before create":
        Path(rundir.cancel(app.app_dir)).write_text("carol\n")
        assert app.create(app.role("main", sh("echo ran"))) is None
    else:
        app.create(app.role("main", sh("echo ran")))
        Path(rundir.cancel(app.app_dir)).write_text("carol\n")
        assert app.go() is None
    assert app.ended().message == "cancelled by carol"
    assert app.log() == ""


def test_cancel_in_the_middle_of_starting_many(app: Driven) -> None:
    app.create(app.role("main", *[SLEEP] * 400))
    control.send(app.socket.fileno(), {"op": "go"})
    app.until(lambda view: any(each.state == "running" for each in replicas(view)))
    app.cancel()
    assert app.reply() == {"ok": "started"}
    view = app.ended()
    assert view.state == "cancelled"
    assert {each.state for each in replicas(view)} == {"cancelled"}
    assert app.left() == []


def test_an_attached_app_is_cancelled_when_its_parent_goes(app: Driven) -> None:
    app.start(app.role("main", SLEEP), attached=True)
    app.hang_up()
    view = app.ended()
    assert (view.state, view.stop_why, view.message) == ("cancelled", "parent", "its parent process ended")


def test_an_attached_app_is_cancelled_when_its_client_lets_go_of_it(app: Driven) -> None:
    app.start(app.role("main", SLEEP), attached=True)
    control.send(app.socket.fileno(), {"op": "close"})
    app.hang_up()
    assert app.ended().message == "its Runner was closed"


def test_an_attached_app_is_cancelled_when_its_parent_goes_during_the_start(app: Driven) -> None:
    app.create(app.role("main", *[SLEEP] * 200), attached=True)
    control.send(app.socket.fileno(), {"op": "go"})
    app.hang_up()
    assert app.ended().stop_why == "parent"
    assert app.left() == []


def test_a_timeout_is_a_failure(app: Driven) -> None:
    view = app.run(app.role("main", SLEEP, ["true"]), timeout_s=2)
    assert (view.state, view.message, view.stop_why) == ("failed", "timed out after 2 s", "timeout")
    assert [each.state for each in replicas(view)] == ["cancelled", "succeeded"]


def test_what_was_stopped_reads_cancelled_also_when_it_ended_with_0(app: Driven) -> None:
    cleans_up = sh("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
    os.mkfifo(os.path.join(app.cwd, "gate"))
    app.start(app.role("main", cleans_up, sh("read line < gate; exit 3")))
    app.until_log("ready")
    Path(app.cwd, "gate").write_text("go\n")
    view = app.ended()
    assert view.message == "main/1 exited with 3"
    assert [(each.state, each.exit_code) for each in replicas(view)] == [("cancelled", 0), ("failed", 3)]


CLEANS_UP = sh("trap 'exit 0' TERM; echo ready; echo >up; while :; do sleep 0.01; done")
"""Ends with 0 when it is stopped."""
IS_KILLED = sh("echo ready; echo >up; exec sleep 1000")
UP = "until [ -s up ]; do sleep 0.01; done"


@pytest.mark.parametrize("stopped", [CLEANS_UP, IS_KILLED], ids=["exit 0", "signal"])
@pytest.mark.parametrize(
    ("other", "options", "why"),
    [
        (SLEEP, {"timeout_s": 0.5}, "timed out after 0.5 s"),
        (sh(f"{UP}; exit 3"), {}, "main/1 failed"),
        (sh(f"{UP}; kill -9 $$"), {}, "main/1 failed"),
        (SLEEP, {}, "cancelled by alice"),
    ],
    ids=["timeout", "peer", "killed peer", "cancel"],
)
def test_a_replica_that_was_stopped_says_why_whatever_its_exit_code(
    app: Driven, stopped: list[str], other: list[str], options: dict[str, float], why: str
) -> None:
    app.start(app.role("main", stopped, other), **options)
    if "cancelled" in why:
        app.until_log("ready")
        app.cancel("alice")
    first = replicas(app.ended())[0]
    assert (first.state, first.message) == ("cancelled", why)
    assert replica_records(str(app.app_dir), app.view)[0].message == why


def test_a_replica_that_was_never_started_says_why(app: Driven) -> None:
    app.start(
        app.role("server", SLEEP, rules={"service": True, "ready": {"file": "never", "timeout": 30}}),
        app.role("main", ["true"], rules={"depends_on": {"server": "ready"}}),
    )
    app.cancel("alice")
    assert [each.message for each in replicas(app.ended())] == ["cancelled by alice"] * 2


def test_a_replica_that_is_stopped_for_a_restart_names_the_cause_until_it_runs_again(app: Driven) -> None:
    fails = sh("until [ -e ready ]; do sleep 0.01; done; exit 3")
    app.start(app.role("main", CLEANS_UP, fails, retries=1, rules={"retry_delay": 300}))
    app.until_log("ready")
    Path(app.cwd, "ready").touch()
    app.until(lambda view: view.num_restarts)
    before = replicas(fold(app.record.partition('{"e":"restart"')[0].encode(), locked=True))[0]
    assert (before.state, before.message) == ("cancelled", "main/1 failed")
    assert [(each.state, each.message) for each in replicas(app.view)] == [("pending", "")] * 2
    app.cancel("alice")
    assert [each.message for each in replicas(app.ended())] == ["cancelled by alice"] * 2


def test_what_had_ended_before_the_stop_is_not_said_to_be_stopped(app: Driven) -> None:
    """Its leader is gone, and the rest of its group is what the stop is waiting for."""
    app.start(app.role("main", sh("trap '' TERM; sleep 1000 & exit 0"), SLEEP), grace_s=0.2)
    leader = app.replica()
    assert pids.wait_for_exit(leader.pid or 0, leader.start or 0, 10)
    app.cancel()
    assert [each.state for each in replicas(app.ended())] == ["succeeded", "cancelled"]


def test_the_end_of_a_short_app_does_not_wait_for_its_timeout(app: Driven) -> None:
    began = time.monotonic()
    assert app.run(app.role("main", ["true"]), timeout_s=1000).state == "succeeded"
    assert time.monotonic() - began < 60


def test_a_failing_replica_stops_its_peers_at_once(app: Driven) -> None:
    view = app.run(app.role("main", SLEEP, sh("exit 3"), SLEEP), app.role("other", SLEEP))
    assert (view.state, view.message, view.code) == ("failed", "main/1 exited with 3", 3)
    assert [each.state for each in replicas(view)] == ["cancelled", "failed", "cancelled", "cancelled"]


def test_a_replica_killed_by_a_signal_fails_as_in_a_shell(app: Driven) -> None:
    view = app.run(app.role("main", sh("kill -SEGV $$")))
    assert (view.message, view.code) == ("main/0 was killed by signal 11", 139)
    assert (replicas(view)[0].exit_code, replicas(view)[0].signal) == (139, 11)


def test_what_a_replica_leaves_in_its_group_is_killed_soon_after_it(app: Driven) -> None:
    began = time.monotonic()
    view = app.run(app.role("main", sh("sleep 1000 & echo $!; exit 0")))
    assert view.state == "succeeded"
    assert time.monotonic() - began < 60
    assert pids.start_time(int(app.log())) is None


def test_what_a_replica_leaves_in_another_session_does_not_hold_it_up(app: Driven) -> None:
    app.start(app.role("main", sh("setsid -f sh -c 'echo here; sleep 1000'; exit 0"), SLEEP))
    view = app.until(lambda view: replicas(view)[0].state != "running")
    assert replicas(view)[0].state == "succeeded"
    assert view.state == "running"
    app.cancel()
    app.ended()
    assert app.left() == []


def test_output_of_what_stays_behind_is_kept_as_long_as_the_app_runs(app: Driven) -> None:
    os.mkfifo(os.path.join(app.cwd, "fifo"))
    app.start(app.role("main", sh("setsid -f sh -c 'read line < fifo; echo $line'; exit 0"), SLEEP))
    app.until(lambda view: replicas(view)[0].state == "succeeded")
    Path(app.cwd, "fifo").write_text("late\n")
    app.until_log("late")
    app.cancel()
    app.ended()
