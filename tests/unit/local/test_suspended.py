"""Cancelling an app whose supervisor does not answer, or cannot be seen."""

import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest

from launcher import paths
from launcher.errors import SchedulerError
from launcher.schedulers import pids
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import appview, rundir, stop
from launcher.schedulers.many import the_one
from launcher.schedulers.record import write_json
from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven
from tests.unit.local.test_eventfile import START, event, lines, spawn

SLEEP = ["sleep", "1000"]


@pytest.fixture
def app(supervise: Supervise) -> Driven:
    made = supervise("app")
    made.start(made.role("main", SLEEP, SLEEP), grace_s=0.1)
    write_json(made.app_dir, "request.json", {"grace_s": 0.1})
    return made


def cancel(app_dir: str) -> list[str]:
    """Cancel the app; return the messages meanwhile."""
    output: list[str] = []
    app_id = os.path.basename(app_dir)
    the_one(stop.cancel([app_id], on_wait=lambda app_id, what: output.append(what)))
    return output


def test_a_suspended_supervisor_is_continued_and_cancels_the_app_itself(app: Driven) -> None:
    os.kill(app.pid, signal.SIGSTOP)
    assert cancel(app.app_dir) == []
    assert (app.ended().state, app.view.abandoned) == ("cancelled", False)
    assert app.left() == []


@pytest.mark.slow
def test_a_lock_of_an_unknown_holder_is_waited_for_within_bounds(launcher_home, monkeypatch):
    """In another pid namespace the pid on record means no process here, or an unrelated process."""
    monkeypatch.setattr(stop, "_OUT_OF_SIGHT_S", 0.2)
    stranger = subprocess.Popen(SLEEP)
    app_dir = Path(paths.local_app("app"))
    app_dir.mkdir(parents=True)
    record = {**START, "pid": stranger.pid, "boot": pids.boot_id()}
    Path(rundir.events(str(app_dir))).write_bytes(lines(record, event("starting"), spawn(0)))
    with Path(AppFolder(str(app_dir)).lock).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SchedulerError, match="where this process cannot signal it") as error:
            cancel(str(app_dir))
    assert f"pid {stranger.pid}" in str(error.value)
    assert error.value.hint
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_the_holder_of_a_damaged_record_is_waited_for_within_bounds(launcher_home, monkeypatch):
    monkeypatch.setattr(stop, "_OWNER_S", 0.2)
    app_dir = Path(paths.local_app("app"))
    app_dir.mkdir(parents=True)
    damaged = lines(START).replace(b'"supervisor"', b'"sup\x00rvisor"')
    Path(rundir.events(str(app_dir))).write_bytes(damaged + lines(event("starting"), spawn(0)))
    with Path(AppFolder(str(app_dir)).lock).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SchedulerError, match="cannot stop app: its record names no process") as error:
            cancel(str(app_dir))
    assert f"fuser -v {app_dir}/lock" in str(error.value.hint)


def test_a_supervisor_in_a_pid_namespace_below_ours_is_found_by_the_pid_that_it_has_there() -> None:
    begun = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "echo up; exec sleep 1000"]
    try:
        inside = subprocess.Popen(begun, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    with inside:
        if not (inside.stdout and inside.stdout.readline()):
            pytest.skip("pid namespaces are not allowed")
        [sleep] = pids.descendants([inside.pid])
        assert appview.visible_pid(1, sleep.start, pids.boot_id()) == sleep.pid
        assert appview.visible_pid(1, sleep.start + 1, pids.boot_id()) is None
        inside.kill()
