"""The Runner on the local scheduler, with real processes."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from launcher.runner import Runner, get_runner
from launcher.specs import AppDef, AppState, Role


def app(script: str) -> AppDef:
    return AppDef(name="demo", roles=[Role(name="main", image="", entrypoint="sh", args=["-c", script])])


def state(runner: Runner, handle: str) -> AppState:
    status = runner.status(handle)
    assert status is not None
    return status.state


def started(fifo: Path) -> None:
    """Return when a replica has opened the fifo for writing."""
    fifo.read_text()


def test_an_app_runs_ends_and_leaves_its_lines():
    with get_runner() as runner:
        handle = runner.run(app("echo one; echo two"), "local_cwd")
        assert handle.startswith("local_cwd://launcher/demo-")
        status = runner.wait(handle, timeout_s=30)
        assert status is not None
        assert status.state == AppState.SUCCEEDED
        assert list(runner.log_lines(handle, "main")) == ["one\n", "two\n"]
        assert [listed.app_handle for listed in runner.list("local_cwd")] == [handle]


def test_text_of_a_kind_of_its_own_is_text():
    class Word(str, Enum):
        ECHO = "echo"

    role = Role(name="main", image="", entrypoint=Word.ECHO, args=[Word.ECHO], env={"WORD": Word.ECHO})
    with get_runner() as runner:
        handle = runner.run(AppDef(name="demo", roles=[role]), "local_cwd")
        runner.wait(handle, timeout_s=30)
        assert list(runner.log_lines(handle, "main")) == ["echo\n"]


def test_a_failure_is_told_with_its_exit_code():
    with get_runner() as runner:
        status = runner.wait(runner.run(app("exit 3"), "local_cwd"), timeout_s=30)
        assert status is not None
        assert status.roles[0].replicas[0].exit_code == 3


def test_leaving_the_runner_cancels_what_is_attached(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with get_runner() as runner:
        handle = runner.run(app(f"echo > {fifo}; exec sleep 1000"), "local_cwd")
        started(fifo)
    with get_runner() as later:
        status = later.wait(handle, timeout_s=30)
        assert status is not None
        assert status.state == AppState.CANCELLED


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
