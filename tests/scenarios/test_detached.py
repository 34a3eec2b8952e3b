"""An applied job outlives the terminal, the shell and the client that started it."""

import os
import pty
import shlex
import sys
from pathlib import Path

import pytest

from launcher.specs import AppState
from tests import processes
from tests.scenario import until_line

IN_A_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execvp('sh', ['sh', '-c', sys.argv[1]])"
)


@pytest.mark.slow
def test_a_job_outlives_its_closed_terminal_and_can_be_followed_from_another_terminal(scenario):
    gate = scenario.gate()
    file = scenario.job(f"echo first; {gate.script}; echo last")
    ours, theirs = pty.openpty()
    command = (
        f"{shlex.join([sys.executable, '-m', 'launcher', 'apply', str(file), '--yes', '--wait'])}; read never"
    )
    shell = scenario.spawn(
        [sys.executable, "-c", IN_A_TERMINAL, command], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    gate.entered()
    os.close(ours)  # the terminal is gone: the kernel hangs up on its session
    shell.wait()

    assert scenario.state("job") is AppState.RUNNING
    follower = scenario.start("logs", "job", "--follow")
    until_line(follower.stdout, "first")
    gate.open()
    until_line(follower.stdout, "last")
    assert follower.wait() == 0
    scenario.wait("job")
    assert scenario.state("job") is AppState.SUCCEEDED


def test_the_supervisor_is_in_a_session_of_its_own_with_no_terminal(scenario):
    gate = scenario.gate()
    scenario.apply(scenario.job(gate.script))
    replica = int(gate.entered())
    [supervisor] = scenario.supervisors().values()
    assert os.getsid(supervisor) == supervisor
    assert os.getsid(replica) == replica
    assert os.getpgid(replica) == replica
    assert {os.readlink(f"/proc/{supervisor}/fd/{fd}") for fd in (0, 1)} == {"/dev/null"}
    assert os.readlink(f"/proc/{replica}/fd/0") == "/dev/null"
    gate.open()
    scenario.wait("job")


def test_no_process_of_a_job_has_the_variables_by_which_a_ci_runner_finds_and_kills_it(scenario, monkeypatch):
    """A job keeps one that it sets itself."""
    for name in ("RUNNER_TRACKING_ID", "JENKINS_NODE_COOKIE", "VSTS_PROCESS_LOOKUP_ID"):
        monkeypatch.setenv(name, "a-mark-of-ci")
    gate = scenario.gate()
    scenario.apply(scenario.job(gate.script, role="env: {RUNNER_TRACKING_ID: mine}"))
    replica = int(gate.entered())
    environs = [Path(f"/proc/{pid}/environ").read_bytes() for pid in (replica, processes.parent(replica))]
    assert not any(b"a-mark-of-ci" in each for each in environs)
    assert b"RUNNER_TRACKING_ID=mine" in environs[0]
    gate.open()
    scenario.wait("job")


def test_records_are_private_and_only_replicas_write_with_the_modes_of_the_umask(scenario):
    before = os.umask(0o022)
    try:
        scenario.run_to_end(scenario.job("echo x >$LAUNCHER_SCRATCH/x", top="description: modes"))
    finally:
        os.umask(before)
    found = {
        path.relative_to(scenario.home): path.stat().st_mode & 0o777 for path in scenario.home.rglob("*")
    }
    theirs = {"logs", "scratch", "outputs"}
    ours = {path: mode for path, mode in found.items() if not theirs.intersection(path.parts)}
    assert {mode for path, mode in ours.items() if not (scenario.home / path).is_dir()} == {0o600}
    assert {mode for path, mode in ours.items() if (scenario.home / path).is_dir()} == {0o700}
    assert len(found) > len(ours) > 6
