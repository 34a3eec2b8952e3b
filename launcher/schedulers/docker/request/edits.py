"""Check the edits of a dry run's request: each edit takes effect, or is refused here. Pure."""

from __future__ import annotations

from launcher.errors import SchedulerError
from launcher.schedulers.docker.labels import PREFIX
from launcher.schedulers.docker.request.body import check_parameters
from launcher.schedulers.docker.request.job import DockerContainer, DockerJob
from launcher.schedulers.docker.request.labelling import replica_labels
from launcher.schedulers.docker.request.sdk_values import labels


def check_edits(container: DockerContainer, name: str) -> None:
    """Raises SchedulerError for an edited container that could not be created as it stands.

    Args:
        name: the name of the container under the symbolic app id.
    """
    check_parameters(container.kwargs)
    if container.kwargs.get("name") != name:
        raise SchedulerError(
            f"the name of a container cannot be edited: `{container.kwargs.get('name')}`",
            hint="it is made of the app id; set `hostname`, or an alias in `networking_config`",
        )
    own = replica_labels(container.role, container.replica)
    for label, value in labels(container.kwargs.get("labels") or {}).items():
        if label.startswith(PREFIX) and own.get(label) != value:
            raise SchedulerError(
                f"the label `{label}` cannot be edited: labels that begin with `{PREFIX}` are launcher's",
                hint="give it another name",
            )


def check_head(job: DockerJob, derived: DockerJob) -> None:
    """Raises SchedulerError where an edit of the job itself would be lost.

    Args:
        derived: the job as it was before any edit.
    """
    for name in ("app_id", "handle", "scratch"):
        if getattr(job, name) != getattr(derived, name):
            raise SchedulerError(f"`{name}` of a request cannot be edited: it is made when it is scheduled")
    if job.role_retries != derived.role_retries:
        raise SchedulerError(
            "`role_retries` of a request cannot be edited",
            hint="set `max_retries` and `retry_policy` of the role before the dry run",
        )
    if job.network != derived.network:
        raise SchedulerError(
            "`network` of a request cannot be edited", hint="edit `kwargs['network']` of its containers"
        )
