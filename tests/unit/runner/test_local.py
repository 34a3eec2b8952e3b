"""The Runner on the local scheduler, with real processes."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path

import pytest

from launcher.errors import SchedulerError
from launcher.jobfile import load_job
from launcher.runner import Runner, get_runner
from launcher.schedulers import record
from launcher.schedulers.local import submit
from launcher.schedulers.local.request import bind_request
from launcher.schedulers.local.scheduler import create_scheduler
from launcher.specs import AppDef, AppState, Role
from tests import processes


def app(script: str) -> AppDef:
    return AppDef(name="demo", roles=[Role(name="main", image="", entrypoint="sh", args=["-c", script])])


def state(runner: Runner, handle: str) -> AppState:
    status = runner.status(handle)
    return status.state


def started(fifo: Path) -> None:
    """Return when a replica has opened the fifo for writing."""
    fifo.read_text()


def test_an_app_runs_ends_and_leaves_its_lines():
    with get_runner() as runner:
        handle = runner.run(app("echo one; echo two"), "local_cwd")
        assert handle.startswith("local_cwd://launcher/demo-")
        status = runner.wait(handle, timeout_s=30)
        assert status.state == AppState.SUCCEEDED
        assert list(runner.log_lines(handle, "main")) == ["one\n", "two\n"]
        assert [listed.app_handle for listed in runner.list("local_cwd")] == [handle]


def test_a_job_of_a_file_is_dry_run_and_run(tmp_path: Path):
    file = tmp_path / "job.launcher.yaml"
    file.write_text(
        "version: 1\nname: job\nscheduler: local_cwd\ncfg: {grace_s: 7}\ntimeout: 60s\n"
        "roles: {main: {entrypoint: pwd}}\n"
    )
    launch = load_job(file)
    with get_runner() as runner:
        info = runner.dryrun_launch(launch, cfg={"prepend_cwd": True})
        cfg = {name: info.cfg[name] for name in ("cwd", "grace_s", "prepend_cwd", "timeout_s")}
        assert cfg == {"cwd": str(tmp_path), "grace_s": 7, "prepend_cwd": True, "timeout_s": 60}
        handle = runner.schedule(info)
        runner.wait(handle, timeout_s=30)
        assert list(runner.log_lines(handle, "main")) == [f"{tmp_path}\n"]
        in_folder = replace(launch, app=AppDef("demo", [Role("main", str(tmp_path), entrypoint="true")]))
        elsewhere = runner.dryrun_launch(in_folder, "local_dir")
        assert elsewhere.scheduler == "local_dir"
        assert elsewhere.cfg["grace_s"] != 7


@pytest.mark.parametrize("wrong", ["role", "replicas"])
def test_a_request_with_replicas_that_have_no_log_folder_is_refused_and_leaves_nothing(wrong, launcher_home):
    with get_runner() as runner:
        info = runner.dryrun(app("true"), "local_cwd")
        if wrong == "role":
            info.request.role_params["other"] = info.request.role_params["main"]
        else:
            info.request.role_params["main"] *= 2
        with pytest.raises(SchedulerError, match=r"`(other|main)` of a request has .* log folder"):
            runner.schedule(info)
        assert runner.list("local_cwd") == []


def test_a_subclass_of_str_is_used_as_text():
    class Word(str, Enum):
        ECHO = "echo"

    role = Role(name="main", image="", entrypoint=Word.ECHO, args=[Word.ECHO], env={"WORD": Word.ECHO})
    with get_runner() as runner:
        handle = runner.run(AppDef(name="demo", roles=[role]), "local_cwd")
        runner.wait(handle, timeout_s=30)
        assert list(runner.log_lines(handle, "main")) == ["echo\n"]


def test_a_detached_app_outlives_the_runner(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with get_runner(detach=True) as runner:
        handle = runner.run(app(f"echo > {fifo}; exec sleep 1000"), "local_cwd")
        started(fifo)
    with get_runner() as later:
        assert state(later, handle) == AppState.RUNNING
        later.cancel(handle)
        assert state(later, handle) == AppState.CANCELLED


def test_an_app_that_the_runner_leaves_runs_on_and_the_others_end(tmp_path: Path):
    fifos = [tmp_path / "left", tmp_path / "kept"]
    with get_runner() as runner:
        handles = []
        for fifo in fifos:
            os.mkfifo(fifo)
            handles.append(runner.run(app(f"echo > {fifo}; exec sleep 1000"), "local_cwd"))
            started(fifo)
        left, kept = handles
        runner.leave(left)
        runner.leave(left)
    with get_runner() as later:
        assert (state(later, left), state(later, kept)) == (AppState.RUNNING, AppState.CANCELLED)
        later.cancel(left)
        assert state(later, left) == AppState.CANCELLED


FORKS = """
import os, sys
from launcher.runner import get_runner
from launcher.specs import AppDef, Role
app = AppDef("demo", [Role("main", "", entrypoint="sleep", args=["1000"])])
with get_runner() as runner:
    handle = runner.run(app, "local_cwd")
    if not os.fork():
        sys.exit()
    os.wait()
    print(runner.status(handle).state.name)
"""


def test_an_app_does_not_end_with_a_fork_of_the_process_that_runs_it():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("RUNNING\n", "")


@pytest.mark.slow
def test_leaving_the_runner_cancels_an_attached_app_whose_supervisor_is_suspended(tmp_path, launcher_home):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with get_runner() as runner:
        handle = runner.run(app(f"echo up >{fifo}; exec sleep 1000"), "local_cwd")
        started(fifo)
        [supervisor] = processes.supervisors(str(launcher_home)).values()
        os.kill(supervisor, signal.SIGSTOP)
    with get_runner() as runner:
        assert state(runner, handle) == AppState.CANCELLED
    assert processes.of_home(str(launcher_home)) == []


def test_a_created_app_whose_supervisor_is_suspended_is_taken_back(monkeypatch, launcher_home):
    monkeypatch.setattr(submit, "_TAKE_BACK_S", 0.1)
    scheduler = create_scheduler("test", detach=True)
    info = scheduler.submit_dryrun(app("true"), {})
    recorded = record.reserved(record.attempt_of_app(app("true"), {}, "local_cwd", "test", "demo-1"))
    submitter = submit.Submitter(scheduler.output_folders)
    made = submitter.claim(recorded)
    supervisor = submitter.create(
        made, bind_request(info.request, "demo-1"), submitter.environment, attached=False
    )
    os.kill(supervisor.pid, signal.SIGSTOP)
    submitter.take_back(supervisor)
    assert os.listdir(launcher_home / "local" / "apps") == []
    assert processes.of_home(str(launcher_home)) == []
    scheduler.close()
