"""How an app is stopped: by cancel, timeout, its parent's end, a failing peer; and what must be gone then."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from launcher.schedulers import loop, pids
from launcher.schedulers.local import appview, rundir
from tests.unit.local.driving import Driven, sh, states

SLEEP = ["sleep", "1000"]


def test_a_signal_without_an_intent_cancels_too(app: Driven) -> None:
    app.start(app.role("main", SLEEP))
    os.kill(app.pid, signal.SIGINT)
    view = app.ended()
    assert (view.state, view.message) == ("cancelled", "stopped by signal 2")


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


def test_a_suspended_replica_gets_the_signal_of_the_cancel(app: Driven) -> None:
    app.start(app.role("main", SLEEP))
    os.kill(app.replica().run[0], signal.SIGSTOP)
    app.cancel()
    assert app.ended().replicas[0].signal == signal.SIGTERM


def test_processes_in_another_session_are_killed_with_the_app(app: Driven) -> None:
    script = "setsid -f sleep 1234; env -i setsid -f sleep 4321; echo ready; sleep 1000"
    app.start(app.role("main", sh(script)))
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
    view = appview.read_state(app.app_dir)
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


def test_a_cancel_while_many_replicas_start_cancels_all_of_them(app: Driven) -> None:
    app.create(app.role("main", *[SLEEP] * 400))
    loop.send(app.socket.fileno(), {"op": "go"})
    app.until(lambda view: "running" in states(view))
    app.cancel()
    assert app.reply() == {"ok": "started"}
    view = app.ended()
    assert view.state == "cancelled"
    assert {*states(view)} == {"cancelled"}
    assert app.left() == []


def test_an_attached_app_is_cancelled_when_its_parent_goes_during_the_start(app: Driven) -> None:
    app.create(app.role("main", *[SLEEP] * 200), attached=True)
    loop.send(app.socket.fileno(), {"op": "go"})
    app.hang_up()
    assert app.ended().stop["why"] == "parent"
    assert app.left() == []


def test_a_replica_that_ended_before_the_stop_is_not_reported_as_stopped(app: Driven) -> None:
    """The leader of the replica has ended, and the stop waits for the rest of its group."""
    app.start(app.role("main", sh("trap '' TERM; sleep 1000 & exit 0"), SLEEP), grace_s=0.2)
    assert pids.wait_for_exit(*app.replica().run, 10)
    app.cancel()
    assert states(app.ended()) == ["succeeded", "cancelled"]


def test_the_end_of_a_short_app_does_not_wait_for_its_timeout(app: Driven) -> None:
    began = time.monotonic()
    assert app.run(app.role("main", ["true"]), timeout_s=1000).state == "succeeded"
    assert time.monotonic() - began < 60


@pytest.mark.slow
def test_processes_that_a_replica_leaves_in_its_group_are_killed_soon_after_it(app: Driven) -> None:
    began = time.monotonic()
    view = app.run(app.role("main", sh("sleep 1000 & echo $!; exit 0")))
    assert view.state == "succeeded"
    assert time.monotonic() - began < 60
    assert pids.start_time(int(app.log())) is None


@pytest.mark.slow
def test_processes_that_a_replica_leaves_in_another_session_do_not_delay_its_end(app: Driven) -> None:
    app.start(app.role("main", sh("setsid -f sh -c 'echo here; sleep 1000'; exit 0"), SLEEP))
    view = app.until(lambda view: states(view)[0] != "running")
    assert states(view)[0] == "succeeded"
    assert view.state == "running"
    app.cancel()
    app.ended()
    assert app.left() == []


@pytest.mark.slow
def test_output_of_processes_that_a_replica_leaves_is_kept_as_long_as_the_app_runs(app: Driven) -> None:
    os.mkfifo(os.path.join(app.cwd, "fifo"))
    app.start(app.role("main", sh("setsid -f sh -c 'read line < fifo; echo $line'; exit 0"), SLEEP))
    app.until(lambda view: states(view)[0] == "succeeded")
    Path(app.cwd, "fifo").write_text("late\n")
    app.until_log("late")
    app.cancel()
    app.ended()


def cancel(app: Driven, *lines: str) -> None:
    with Path(rundir.cancel(app.app_dir)).open("a") as file:  # as clients do: the supervisor may read it now
        file.write("".join(f"{line}\n" for line in lines))
    os.kill(app.pid, signal.SIGTERM)


def test_a_longer_grace_period_of_a_cancel_gives_time_to_clean_up(app: Driven) -> None:
    late = sh("trap 'sleep 0.3; echo saved; exit' TERM; echo ready; while :; do sleep 0.01; done")
    app.start(app.role("main", late), grace_s=0.0)
    app.until_log("ready")
    cancel(app, "me@here", "grace 1000")
    assert app.ended().state == "cancelled"
    assert app.log(stream="stdout") == "ready\nsaved\n"


def test_a_second_cancel_with_a_shorter_grace_period_ends_the_wait(app: Driven) -> None:
    deaf = sh("trap '' TERM; echo ready; while :; do sleep 1000 & wait; done")
    app.start(app.role("main", deaf), grace_s=1000.0)
    app.until_log("ready")
    began = time.monotonic()
    cancel(app, "me@here")
    cancel(app, "you@there", "grace 0.1")
    assert app.ended().message == "cancelled by me@here"
    assert time.monotonic() - began < 30
