"""Named resources that mean no machine in particular: `gpu.small`, `cpu.large`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from launcher.specs.app import GiB, Resource

__all__ = ["GENERIC_NAMED_RESOURCES", "NAMED_RESOURCES", "GiB"]

NAMED_RESOURCES: Mapping[str, Callable[[], Resource]] = {
    name: partial(Resource, cpu=cpu, gpu=gpu, memMB=memMB)
    for name, cpu, gpu, memMB in (
        ("gpu.small", 8, 1, 32 * GiB),
        ("gpu.medium", 16, 2, 64 * GiB),
        ("gpu.large", 32, 4, 128 * GiB),
        ("gpu.xlarge", 64, 8, 256 * GiB),
        ("cpu.nano", 1, 0, GiB // 2),
        ("cpu.micro", 1, 0, 1 * GiB),
        ("cpu.small", 1, 0, 2 * GiB),
        ("cpu.medium", 2, 0, 4 * GiB),
        ("cpu.large", 2, 0, 8 * GiB),
        ("cpu.xlarge", 8, 0, 32 * GiB),
    )
}
GENERIC_NAMED_RESOURCES = NAMED_RESOURCES
