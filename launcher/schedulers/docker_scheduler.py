"""The import path under which the Docker scheduler is known; it lives in launcher.schedulers.docker.

For programs written for TorchX; launcher itself does not import it.
"""

from __future__ import annotations

from launcher.schedulers.docker.client.engine import has_docker
from launcher.schedulers.docker.job import DockerContainer, DockerJob
from launcher.schedulers.docker.labels import (
    APP_ID as LABEL_APP_ID,
    REPLICA as LABEL_REPLICA_ID,
    ROLE as LABEL_ROLE_NAME,
    VERSION as LABEL_VERSION,
)
from launcher.schedulers.docker.names import NETWORK
from launcher.schedulers.docker.rules import DockerOpts
from launcher.schedulers.docker.scheduler import DockerScheduler, create_scheduler

__all__ = [
    "LABEL_APP_ID",
    "LABEL_REPLICA_ID",
    "LABEL_ROLE_NAME",
    "LABEL_VERSION",
    "NETWORK",
    "DockerContainer",
    "DockerJob",
    "DockerOpts",
    "DockerScheduler",
    "create_scheduler",
    "has_docker",
]
