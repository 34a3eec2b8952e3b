"""Amounts of cores, memory and GPUs, in words."""

from __future__ import annotations

from launcher.turns.line import CPU, MEMORY

_GiB_IN_MiB = 1024


def amount(resource: str, value: float) -> str:
    """`1 core`, `0.5 cores`, `512 MiB of memory`, `16 GiB of memory`, `2 GPUs`."""
    if resource == MEMORY:
        return f"{memory(value)} of memory"
    count = f"{value:g}"
    return f"{count} {'core' if resource == CPU else 'GPU'}{'' if count == '1' else 's'}"


def memory(mebibytes: float) -> str:
    """`512 MiB`, `16 GiB`, `1.5 GiB`."""
    if mebibytes < _GiB_IN_MiB:
        return f"{mebibytes:g} MiB"
    return f"{round(mebibytes / _GiB_IN_MiB, 1):g} GiB"
