"""The request of an app as its client hands it to the watcher that is to create the app: with all values.

It goes from memory to memory over the control socket, since it holds the values of secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from launcher.schedulers.docker.containers import environment_of
from launcher.schedulers.docker.images import pull
from launcher.schedulers.docker.request.job import DockerContainer, DockerJob


def to_json(job: DockerJob, environ: Mapping[str, str]) -> dict[str, Any]:
    """The bound request as a JSON object. Its images are pulled again only when they are missing.

    Args:
        environ: the variables that `copy_env` selects from.

    Raises SchedulerError for a secret that cannot be read.
    """
    whole = [
        replace(each, kwargs={**each.kwargs, "environment": environment_of(each, job, environ)})
        for each in job.containers
    ]
    policy = pull.NEVER if job.image_pull == pull.NEVER else pull.MISSING
    return asdict(replace(job, containers=whole, copy_env=[], image_pull=policy))


def from_json(data: Mapping[str, Any]) -> DockerJob:
    """The inverse of `to_json`."""
    return DockerJob(**{**data, "containers": [DockerContainer(**each) for each in data["containers"]]})
