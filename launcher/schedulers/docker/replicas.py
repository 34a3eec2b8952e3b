"""The replicas of an app, and their containers: roles, names, and the marks of stops. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.labels import PART, RESERVATION_PART, WAITING_PART, Labels
from launcher.schedulers.docker.names import container_name, queued_name, waiting_name

CANCELLED = ".cancelled"
TIMED_OUT = ".timed-out"
STOPPED = ".stopped"
AT_END = ".ended"
ALL_MARKS = (CANCELLED, TIMED_OUT, STOPPED, AT_END)
MARKS = {
    "cancel": CANCELLED,
    "parent": CANCELLED,
    "hand": CANCELLED,
    "timeout": TIMED_OUT,
    "end": AT_END,
}
"""Reason of a stop → suffix of the container's name from then on; STOPPED for any other reason."""
RESTARTED = "waits to be restarted"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerReplica:
    """One replica.

    Attributes:
        state: pending, running, succeeded, failed, cancelled or lost.
        id: the id of its container; "" when that was removed.
        num_restarts: restarts of this replica alone.
        waits: why a replica is idle: paused, between two runs, or waiting for another role; "" otherwise.
        message: why it has failed, was stopped or was lost; "" where the app's message says it.
        lost: why its end tells nothing, see `unasked.py`; "" for any other replica.
    """

    role: str
    k: int
    state: str = "pending"
    id: str = ""
    name: str = ""
    exit_code: int | None = None
    num_restarts: int = 0
    hostname: str = ""
    ports: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    waits: str = ""
    message: str = ""
    lost: str = ""

    @property
    def label(self) -> str:
        return f"{self.role}/{self.k}"


def where(container: Container) -> tuple[str, int]:
    """The role and the replica number of a container."""
    labels = Labels(container.labels)
    return labels.role, labels.replica


def own_name(container: Container) -> str:
    """The name that a container with these labels was created with."""
    labels = Labels(container.labels)
    if is_reservation(container):
        return labels.app_id
    if is_waiting(container):
        in_line = queued_name(labels.app_id)
        return in_line if container.name == in_line else waiting_name(labels.app_id)
    return container_name(labels.app_id, labels.role, labels.replica)


def mark_of(container: Container) -> str:
    """The mark of its stop, one of ALL_MARKS; "" for none. A user may give a container any other name."""
    if not container.name.endswith(ALL_MARKS):
        return ""
    mark = container.name[container.name.rindex(".") :]
    return mark if container.name == own_name(container) + mark else ""


def has_own_name(container: Container) -> bool:
    """Whether it has the name that launcher gave it."""
    return container.name.removesuffix(mark_of(container)) == own_name(container)


def is_reservation(container: Container) -> bool:
    """Whether it reserves the app id, until all other containers exist."""
    return container.labels.get(PART) == RESERVATION_PART


def is_waiting(container: Container) -> bool:
    """Whether it stands for an attempt that waits for others, or for its turn."""
    return container.labels.get(PART) == WAITING_PART


def waiting_container(containers: Iterable[Container]) -> Container | None:
    """The container that stands for an attempt while it waits."""
    return next((each for each in containers if is_waiting(each)), None)


def is_replica(container: Container) -> bool:
    """Whether it is none of these two, which are never started."""
    return not (is_reservation(container) or is_waiting(container))


def expected_replicas(labels: Labels) -> list[tuple[str, int]]:
    """Every (role, replica) that an app should have, in order. Unpacks the document: call once for an app."""
    roles = labels.document.get("roles", ())
    return [(role["name"], k) for role in roles for k in range(role.get("num_replicas", 1))]
