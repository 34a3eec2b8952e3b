"""Assign GPUs to replicas by CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
from collections.abc import Sequence

from launcher.errors import CommandError
from launcher.specs.app import AppDef

ENV_CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


def requested_gpus(app: AppDef) -> int:
    """The number of GPUs that all replicas of all roles request."""
    return sum(role.num_replicas * max(role.resource.gpu, 0) for role in app.roles)


def count_gpus() -> int:
    """The number of NVIDIA GPUs of this host, 0 when it is unknown."""
    from launcher.command import run

    try:
        listed = run(["nvidia-smi", "-L"])
    except CommandError:
        return _device_files()
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def _device_files() -> int:
    try:
        names = os.listdir("/dev")
    except OSError:
        return 0
    return sum(name.startswith("nvidia") and name[6:].isdigit() for name in names)


def assign_gpus(wanted: Sequence[tuple[int, int]], available: int) -> list[list[str]] | None:
    """CUDA_VISIBLE_DEVICES for each replica of each role, None when there are too few GPUs.

    Args:
        wanted: per role (replicas, GPUs a replica), in order. Roles without GPUs get empty texts.

    Replicas get consecutive ranges: (2, 1), (3, 2) gives "0", "1" and "2,3", "4,5", "6,7".
    """
    if sum(replicas * max(gpus, 0) for replicas, gpus in wanted) > available:
        return None
    out: list[list[str]] = []
    next_gpu = 0
    for replicas, gpus in wanted:
        ranges = []
        for _ in range(replicas):
            ranges.append(",".join(str(gpu) for gpu in range(next_gpu, next_gpu + max(gpus, 0))))
            next_gpu += max(gpus, 0)
        out.append(ranges)
    return out
