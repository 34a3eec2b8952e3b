"""The import path under which the local scheduler is known; it lives in launcher.schedulers.local.

For programs written for TorchX; launcher itself does not import it.
"""

from __future__ import annotations

from launcher.schedulers.ids import make_unique
from launcher.schedulers.local.popen import LocalOpts, PopenRequest, ReplicaParam
from launcher.schedulers.local.request import (
    COMBINED_LOG,
    ENV_CUDA_VISIBLE_DEVICES,
    STDERR_LOG,
    STDOUT_LOG,
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
)
from launcher.schedulers.local.scheduler import LocalScheduler, create_scheduler

__all__ = [
    "COMBINED_LOG",
    "ENV_CUDA_VISIBLE_DEVICES",
    "STDERR_LOG",
    "STDOUT_LOG",
    "CWDImageProvider",
    "ImageProvider",
    "LocalDirectoryImageProvider",
    "LocalOpts",
    "LocalScheduler",
    "PopenRequest",
    "ReplicaParam",
    "create_scheduler",
    "make_unique",
]
