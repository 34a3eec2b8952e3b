"""The import path under which the Docker scheduler is known; it lives in launcher.schedulers.docker.

For programs written for TorchX; launcher itself does not import it.
"""

from launcher.schedulers.docker import labels
from launcher.schedulers.docker.client.engine import has_docker as has_docker
from launcher.schedulers.docker.job import DockerContainer as DockerContainer, DockerJob as DockerJob
from launcher.schedulers.docker.names import NETWORK as NETWORK
from launcher.schedulers.docker.rules import DockerOpts as DockerOpts
from launcher.schedulers.docker.scheduler import (
    DockerScheduler as DockerScheduler,
    create_scheduler as create_scheduler,
)

LABEL_APP_ID, LABEL_REPLICA_ID = labels.APP_ID, labels.REPLICA
LABEL_ROLE_NAME, LABEL_VERSION = labels.ROLE, labels.VERSION
