"""The use of CPU time and memory by the runs of replicas. Pure; Python >= 3.6."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from resource import struct_rusage
    from typing import Any

    Measured = Sequence[Any]
    """The field `use` of an event: [user_s, system_s, memory in bytes, source of the memory]."""

PROCESS, CGROUP, ACCOUNTING, SAMPLES = "process", "cgroup", "accounting", "samples"
"""How memory was measured: of the largest single process; the peak of the replica's own cgroup; by the
accounting of the scheduler; the highest of samples, which are also all that is known of the CPU time then."""

_WEIGHT = {PROCESS: 1, SAMPLES: 2, ACCOUNTING: 3, CGROUP: 4}


_SHORTEST_S = 0.01
"""The least duration of a run, in s, for which its CPU time gives a number of cores. The start of a program,
before its run is timed, counts as CPU time: a run of 1 ms would seem to have kept ten cores busy."""


class Use:
    """The use of one run of a replica, or of several runs together.

    Attributes:
        user_s, system_s: CPU time in s, summed.
        wall_s: duration in s, summed.
        memory: in bytes, the highest of one run; 0 where it is unknown.
        source: how `memory` was measured; "" where it is unknown.
        runs: number of runs.
        cores: the number of cores that a run kept busy on average, of the busiest run.
    """

    __slots__ = ("cores", "memory", "runs", "source", "system_s", "user_s", "wall_s")

    def __init__(self, measured: "Measured" = (0.0, 0.0, 0, ""), wall_s: float = 0.0, runs: int = 1) -> None:
        self.user_s, self.system_s, self.memory, self.source = measured
        self.wall_s = wall_s
        self.runs = runs
        self.cores = (self.user_s + self.system_s) / wall_s if wall_s >= _SHORTEST_S else 0.0

    @property
    def has_cores(self) -> bool:
        """Whether `cores` is known: a run lasted long enough."""
        return self.cores > 0 or self.wall_s >= max(1, self.runs) * _SHORTEST_S

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s

    def add(self, other: "Use") -> None:
        """Count the runs of `other`, too."""
        self.user_s += other.user_s
        self.system_s += other.system_s
        self.wall_s += other.wall_s
        self.runs += other.runs
        if other.cores > self.cores:
            self.cores = other.cores
        if other.source and _rank(other) > _rank(self):
            self.memory, self.source = other.memory, other.source

    def to_json(self) -> "dict[str, Any]":
        """Return a JSON object with units in its keys; `from_json` reads it."""
        return {
            "cpu_user_s": round(self.user_s, 3),
            "cpu_system_s": round(self.system_s, 3),
            "wall_s": round(self.wall_s, 3),
            "cores": round(self.cores, 3),
            "memory_bytes": self.memory or None,
            "memory_source": self.source or None,
            "runs": self.runs,
        }

    @classmethod
    def from_json(cls, found: "Mapping[str, Any]") -> "Use":
        memory, source = found.get("memory_bytes") or 0, found.get("memory_source") or ""
        measured = (found["cpu_user_s"], found["cpu_system_s"], memory, source)
        made = cls(measured, found["wall_s"], found["runs"])
        made.cores = found["cores"]
        return made

    def __repr__(self) -> str:
        return f"<Use {self.to_json()}>"


def _rank(use: Use) -> "tuple[int, int]":
    """A key that orders measurements of memory: by their source, then by their size."""
    return _WEIGHT.get(use.source, 0), use.memory


def to_json(used: "Mapping[str, Use]") -> "dict[str, dict[str, Any]]":
    """Role → the JSON object of its use."""
    return {role: use.to_json() for role, use in used.items()}


def from_json(found: "Mapping[str, Mapping[str, Any]] | None") -> "dict[str, Use]":
    """The inverse of `to_json`; {} for None. Raises ValueError for any other value."""
    try:
        return {role: Use.from_json(use) for role, use in (found or {}).items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no record of use: {error!r}") from error


# -- the field `use` of an event -----------------------------------------------------------------------------

_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in a unit of ru_maxrss


def of_child(usage: "struct_rusage", floor: int, peak: int = 0) -> "Measured":
    """The field `use` of the event of a child's end.

    A child's maximum of memory starts with that of the process that forks it: for a child that used no more,
    the memory is unknown, and 0 here. Source: getrusage(2), and fs/exec.c of Linux.

    Args:
        usage: from wait4(2), including all descendants that the child has waited for.
        floor: `ru_maxrss` of the process that forked it.
        peak: peak memory in bytes of a cgroup with this child's processes alone; 0 for none.
    """
    memory, source = peak, CGROUP
    if not memory:
        highest = usage.ru_maxrss
        memory, source = (highest * _UNIT, PROCESS) if highest > floor else (0, "")
    return [round(usage.ru_utime, 3), round(usage.ru_stime, 3), memory, source]


def of_rest(user_s: float, system_s: float) -> "Measured":
    """The field `use` of the event `quiet`, for processes that outlived their replica; [] for none."""
    return [round(user_s, 3), round(system_s, 3), 0, ""] if user_s + system_s >= 0.001 else []
