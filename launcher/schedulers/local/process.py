"""The processes of an app as a client sees them: whether its supervisor is alive, and what a dead one left.

A process is identified by pid, start time and boot: the pid alone may have been reused.
"""

from __future__ import annotations

import os
import time

from launcher.schedulers import pids
from launcher.schedulers.local import kernel, rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from launcher.schedulers.local.appview import AppView
    from launcher.schedulers.pids import Process

PATIENCE_S = 5.0  # for killed processes to exit; those that hang in the kernel longer are given up


def supervisor_alive(view: AppView) -> bool:
    """Whether the supervisor that the record names is the process that has its pid now."""
    if view.supervisor is None:
        return False
    pid, start, boot = view.supervisor
    return boot == pids.boot_id() and pids.is_running(pid, start)


def supervisor_pid(view: AppView) -> int | None:
    """The pid by which this process can signal the supervisor; None when it has exited or is not visible.

    The record has the pid that the supervisor has in its own pid namespace: from outside of a container its
    processes have others.
    """
    if supervisor_alive(view):
        assert view.supervisor is not None
        return view.supervisor[0]
    if view.supervisor is None or view.supervisor[2] != pids.boot_id():
        return None
    pid, start, _ = view.supervisor
    for each in pids.processes():
        if each.start == start and each.alive and pids.innermost(each.pid) == pid:
            return each.pid
    return None


def kill_leftovers(app_dir: str, view: AppView) -> int:
    """KILL every process that an app left behind; returns their number. Only for apps without a supervisor.

    Repeats until none is left, as processes may start new ones.
    """
    killed: set[tuple[int, int]] = set()
    deadline = time.monotonic() + PATIENCE_S
    while left := leftovers(app_dir, view):
        for each in left:
            if _kill(each):
                killed.add((each.pid, each.start))
        if time.monotonic() > deadline:
            break
        for each in left:
            pids.wait_for_exit(each.pid, each.start, deadline - time.monotonic())
    return len(killed)


def leftovers(app_dir: str, view: AppView) -> list[Process]:
    """The living processes of an app: by their environment, by the session of a replica that still has its
    leader, and all descendants of those. Without /proc: none."""
    everybody = [each for each in pids.processes() if each.pid != os.getpid()]
    mark = b"LAUNCHER_SCRATCH=" + os.fsencode(rundir.scratch(app_dir))
    sessions = _sessions(view, everybody)
    found = {each.pid: each for each in everybody if each.session in sessions or _has(each, mark)}
    found.update({each.pid: each for each in pids.descendants(found, everybody)})
    return [each for each in found.values() if each.alive]


def _sessions(view: AppView, everybody: Sequence[Process]) -> set[int]:
    """Sessions of replicas, whose leader is still the recorded process, so that the number was not reused."""
    if view.supervisor is None or view.supervisor[2] != pids.boot_id():
        return set()
    recorded = {each.run for each in view.replicas}
    return {each.pid for each in everybody if (each.pid, each.start) in recorded}


def _has(process: Process, mark: bytes) -> bool:
    """Whether a process was started with this variable. False for another user's, which cannot be read."""
    return mark in pids.environment(process.pid).split(b"\0")


def _kill(process: Process) -> bool:
    try:
        return pids.send(process.pid, process.start, kernel.SIGKILL)
    except PermissionError:  # it runs as another user by now
        return False
