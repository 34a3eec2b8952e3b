"""Arguments with parts: `experiment/run`, nodes x processes, and the names of scripts and modules."""

from __future__ import annotations

import os
import re
import warnings

from launcher.dataclass import dataclass
from launcher.specs.resources import get_named_resources


@dataclass
class StructuredNameArgument:
    """`experiment/run`, each part with a default."""

    experiment_name: str
    run_name: str

    def __str__(self) -> str:
        return f"{self.experiment_name}/{self.run_name}"

    @staticmethod
    def parse_from(
        name: str,
        m: str | None = None,
        script: str | None = None,
        default_experiment_name: str = "default-experiment",
    ) -> StructuredNameArgument:
        """Read `e/r`, `e/`, `/r`, `r`, `/` or "". The run is called after the script or module by default.

        Raises ValueError unless one of `m` and `script` is given.
        """
        if not m and not script:
            raise ValueError("No main module or script specified")
        if m and script:
            raise ValueError("Both main module and script set")
        experiment, slash, run = name.partition("/")
        if not slash:
            experiment, run = "", name
        return StructuredNameArgument(experiment or default_experiment_name, run or get_role_name(script, m))


@dataclass
class StructuredJArgument:
    """`nodes x processes per node`."""

    nnodes: int
    nproc_per_node: int

    def __str__(self) -> str:
        return f"{self.nnodes}x{self.nproc_per_node}"

    @staticmethod
    def parse_from(h: str, j: str) -> StructuredJArgument:
        """Read `N`, with a process per GPU of the named resource `h`, or `NxM`.

        Raises ValueError; UnknownResourceException for `h`.
        """
        found = re.fullmatch(r"(\d+)(?:x(\d+))?", j.strip())
        if not found:
            raise ValueError(f"Invalid format for `-j`: `{j}`; want NODES or NODESxPROCESSES, such as 2x4")
        gpus = get_named_resources(h).gpu
        if found[2] is None:
            if gpus <= 0:
                raise ValueError(
                    f"nproc_per_node cannot be inferred from GPU count. `{h}` is not a GPU instance."
                    " Write NODESxPROCESSES"
                )
            return StructuredJArgument(int(found[1]), gpus)
        if gpus > 0 and int(found[2]) != gpus:
            warnings.warn(f"{j}: {found[2]} processes per node, and {h} has {gpus} GPUs", stacklevel=3)
        return StructuredJArgument(int(found[1]), int(found[2]))


def parse_nnodes(j: str) -> tuple[int, int, int, str]:
    """(min nodes, max nodes, processes per node, nodes as torchrun takes them).

    `2` is one node with two processes, `1x2` too, `1:2x3` one to two nodes with three each.
    Raises ValueError, also for no node, no process, and a minimum above the maximum.
    """
    found = re.fullmatch(r"(?:(\d+)(?::(\d+))?x)?(\d+)", j.strip())
    if not found:
        raise ValueError(f"Invalid format for -j, usage example: 1x2 or 1:2x2. Given: {j}")
    low = int(found[1] or 1)
    high = int(found[2] or low)
    processes = int(found[3])
    if not 1 <= low <= high or processes < 1:
        raise ValueError(f"-j wants at least one node and one process, and MIN:MAX in this order. Given: {j}")
    return low, high, processes, f"{found[1]}:{found[2]}" if found[2] else str(low)


def get_role_name(script: str | None, m: str | None) -> str:
    """Return the name of a script without folder and suffix, or the last part of a module's name."""
    if script and m:
        raise ValueError("only one of script and m can be given")
    if script:
        return os.path.splitext(os.path.basename(script))[0]
    if m:
        return m.rpartition(".")[2]
    raise ValueError("one of script and m must be given")
