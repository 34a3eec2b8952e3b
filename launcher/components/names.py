"""Parse short texts for `dist`: numbers of nodes and processes, the name of a role."""

from __future__ import annotations

import os
import re


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
    """The name of a script without folder and suffix, or the last part of a module's. Raises ValueError."""
    if script and m:
        raise ValueError("only one of script and m can be given")
    if script:
        return os.path.splitext(os.path.basename(script))[0]
    if m:
        return m.rpartition(".")[2]
    raise ValueError("one of script and m must be given")
