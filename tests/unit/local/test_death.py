"""The supervisor is killed: the state that the record then gives, and the removal of all that it leaves."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from launcher.schedulers import pids
from launcher.schedulers.local import appview
from launcher.schedulers.local.appview import AppView
from tests.unit.local.driving import Driven, sh

SLEEP = ["sleep", "1000"]


def test_processes_that_left_the_session_or_dropped_the_environment_are_killed(app: Driven) -> None:
    app.start(
        app.role(
            "main",
            sh("setsid -f sleep 1001; echo ready; sleep 1000"),  # another session, the same environment
            sh("env -i sleep 1002 & echo ready; wait"),  # the same session, no environment
            sh("(exec env -i setsid sleep 1003) & echo ready; wait"),  # neither, but a living parent
            sh("trap '' TERM INT HUP; echo ready; sleep 1004; sleep 1000"),
        )
    )
    for k in range(4):
        app.until_log("ready", k=k)
    started = {each.pid: each.start for each in pids.descendants([app.pid])}
    app.kill()
    assert appview.kill_leftovers(app.app_dir, app.view) >= 4
    assert not any(pids.is_running(pid, start) for pid, start in started.items())


def test_a_replica_that_writes_after_its_supervisor_ends_by_itself(app: Driven) -> None:
    app.start(app.role("main", ["yes"]))
    pid, start = app.replica().run
    app.kill()
    assert pids.wait_for_exit(pid, start, 10)


@pytest.mark.parametrize("wrong", ["start", "boot"])
def test_a_reused_pid_is_never_signalled(tmp_path: Path, wrong: str) -> None:
    stranger = subprocess.Popen(SLEEP, start_new_session=True)
    start = pids.start_time(stranger.pid) or 0
    view = AppView()
    view.supervisor = (stranger.pid, start + 1, "another boot" if wrong == "boot" else pids.boot_id())
    view.take({"e": "created", "roles": [["main", 1]]})
    view.replicas[0].run = (stranger.pid, start + (wrong == "start"))
    assert not appview.visible_pid(*view.supervisor)
    assert appview.kill_leftovers(str(tmp_path), view) == 0
    assert not pids.send(stranger.pid, start + 1, signal.SIGKILL)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_an_app_whose_folder_name_begins_like_ours_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(SLEEP, env={**os.environ, "LAUNCHER_SCRATCH": f"{tmp_path}/app/scratch-2"})
    assert appview.kill_leftovers(f"{tmp_path}/app", AppView()) == 0
    assert other.poll() is None
    other.kill()
    other.wait()


KEEPS_THE_LOCK = """
import os, time
parent = os.getpid()
if not os.fork():
    while os.getppid() == parent:
        time.sleep(0.001)
    time.sleep(0.3)
    os._exit(0)
"""


def test_a_child_that_is_slow_to_become_its_program_does_not_make_the_app_look_alive(supervise, monkeypatch):
    """On a busy machine the child holds the lock of the killed supervisor for more than milliseconds."""
    monkeypatch.setattr(appview, "_patience_s", 20.0)  # a process that has waited in vain once waits less
    app = supervise(first=KEEPS_THE_LOCK)
    app.start(app.role("main", SLEEP))
    app.kill()
    assert (app.view.state, app.view.lock_held) == ("lost", False)
    appview.kill_leftovers(app.app_dir, app.view)


def test_an_error_of_the_supervisor_itself_leaves_no_process(app: Driven) -> None:
    app.start(app.role("main", SLEEP), attached=True)
    app.socket.sendall((1).to_bytes(4, "little") + b"?")  # nothing a client would ever send
    assert app.exited() == 1
    assert "Error" in app.errors
    assert app.view.state == "lost"
    assert app.left() == []
