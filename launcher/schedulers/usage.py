"""Measure how much CPU time and memory an ended child process has used. Python >= 3.6."""

import resource
import sys

from launcher.holding.use import CGROUP, PROCESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.holding.use import Measured

_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


def of_child(usage: resource.struct_rusage, peak: int = 0) -> "Measured":
    """The field `use` of the event of its end.

    A child starts with the memory of the process that forks it as its highest, so that nothing is known of
    one that has not used more: its memory is 0 then. Source: getrusage(2), and fs/exec.c of Linux.

    Args:
        usage: of wait4(2), with all descendants that the child has waited for.
        peak: of the cgroup that holds this child's processes alone, in bytes; 0 for none.
    """
    memory, source = peak, CGROUP
    if not memory:
        highest, floor = usage.ru_maxrss, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory, source = (highest * _UNIT, PROCESS) if highest > floor else (0, "")
    return [round(usage.ru_utime, 3), round(usage.ru_stime, 3), memory, source]


def of_rest(user_s: float, system_s: float) -> "Measured":
    """The field `use` of the event `quiet`, of processes that outlived their replica; [] for none."""
    return [round(user_s, 3), round(system_s, 3), 0, ""] if user_s + system_s >= 0.001 else []


def peak_of_task() -> int:
    """The highest memory of the cgroup that Slurm has made for this task, in bytes; 0 where it has made none.

    Source: cgroup.conf(5) of Slurm, "the cgroup hierarchy"; Linux, admin-guide/cgroup-v2, memory.peak.
    """
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "/task_" not in path:
            continue
        if not controllers:
            name = f"/sys/fs/cgroup{path}/memory.peak"
        elif "memory" in controllers.split(","):
            name = f"/sys/fs/cgroup/memory{path}/memory.max_usage_in_bytes"
        else:
            continue
        text = _read(name).strip()
        if text.isdigit():
            return int(text)
    return 0


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
