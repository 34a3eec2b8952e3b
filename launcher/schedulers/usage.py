"""Measure the CPU time and memory that an ended child process has used. Python >= 3.6."""

import resource
import sys

from launcher.holding.use import CGROUP, PROCESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.holding.use import Measured

_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in a unit of ru_maxrss


def of_child(usage: resource.struct_rusage, peak: int = 0) -> "Measured":
    """The field `use` of the event of its end.

    A child's maximum of memory starts with that of the process that forks it: for a child that used no more,
    the memory is unknown, and 0 here. Source: getrusage(2), and fs/exec.c of Linux.

    Args:
        usage: from wait4(2), including all descendants that the child has waited for.
        peak: peak memory in bytes of a cgroup with this child's processes alone; 0 for none.
    """
    memory, source = peak, CGROUP
    if not memory:
        highest, floor = usage.ru_maxrss, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory, source = (highest * _UNIT, PROCESS) if highest > floor else (0, "")
    return [round(usage.ru_utime, 3), round(usage.ru_stime, 3), memory, source]


def of_rest(user_s: float, system_s: float) -> "Measured":
    """The field `use` of the event `quiet`, for processes that outlived their replica; [] for none."""
    return [round(user_s, 3), round(system_s, 3), 0, ""] if user_s + system_s >= 0.001 else []


def peak_of_task() -> int:
    """The peak memory in bytes of the cgroup that Slurm has made for this task; 0 where there is none.

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
