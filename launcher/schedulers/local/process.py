"""The processes of an app as a client sees them: is its supervisor alive, and what did a dead one leave?

A process is named by pid, start time and boot: a pid alone may by now be somebody else's.
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

PATIENCE_S = 5.0  # for what was killed to be gone; what hangs in the kernel longer is beyond us


def supervisor_alive(view: AppView) -> bool:
    """Whether the supervisor that the record names is the process that has its pid now."""
    if view.supervisor is None:
        return False
    pid, start, boot = view.supervisor
    return boot == pids.boot_id() and pids.is_running(pid, start)


def supervisor_pid(view: AppView) -> int | None:
    """The pid by which this process can signal the supervisor; None when it is gone, or out of sight.

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
    """KILL every process that an app left behind; how many those were. To be used when it has no supervisor.

    Loops until none is left, as processes may be making new ones.
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
    """Sessions of replicas, where the leader is still the recorded process and the number thus not reused."""
    if view.supervisor is None or view.supervisor[2] != pids.boot_id():
        return set()
    recorded = {(each.pid, each.start) for each in view.replicas}
    return {each.pid for each in everybody if (each.pid, each.start) in recorded}


def _has(process: Process, mark: bytes) -> bool:
    """Whether a process was started with this in its environment. Another user's cannot be read: no."""
    return mark in pids.environment(process.pid).split(b"\0")


def _kill(process: Process) -> bool:
    try:
        return pids.send(process.pid, process.start, kernel.SIGKILL)
    except PermissionError:  # it changed its user
        return False
