"""Names of an app's objects at the engine, which has one flat space of short names for all clients.

The name of a container that launcher has stopped ends in a mark for the reason, which exit codes do not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from launcher.schedulers.docker.labels import PART, REPLICA, RESERVATION_PART, ROLE, WAITING_PART, Labels
from launcher.schedulers.ids import normalise

if TYPE_CHECKING:
    from launcher.schedulers.docker.client.objects import Container

NETWORK = "launcher"
"""The network of every app that names no other."""
NETWORK_LABELS = {"launcher.network": "1"}
OURS = "/launcher"
"""The folder that launcher mounts its own folders below: scratch and output folders."""
SCRATCH = "/launcher/scratch"
"""Mount point of the volume that all replicas of an app share."""
OUTPUT = "/launcher/output"
"""Mount point of a job's own output folder."""
NEEDS = "/launcher/needs"
"""Folder of the mount points of the output folders of other jobs."""

RUNS_NOTHING = {"Entrypoint": ["true"], "Cmd": []}
"""The command of containers that are never started, should a user start one."""

_OUTPUT_END = "-output"
_LIMIT = 63  # length of a DNS label: a container's name is its hostname
_MARK = 6


def container_name(app_id: str, role: str, k: int) -> str:
    """`<app_id>-<role>-<k>` as a DNS label; longer names are cut and marked with a hash."""
    return _fit(f"{app_id}-{stem(role)}-{k}", f"{app_id}\0{role}\0{k}", f"-{k}")


def waiting_name(app_id: str) -> str:
    """The name of the container that represents a waiting attempt. App ids have no dot."""
    return f"{app_id}.waiting"


def queued_name(app_id: str) -> str:
    """The name of a waiting attempt's container once the attempt is in line for its turn."""
    return f"{app_id}.queued"


def scratch_volume(app_id: str) -> str:
    return f"{app_id}-scratch"


def output_volume(output: str) -> str:
    """The volume of an output folder; `output` as in `launcher.specs.outputs`."""
    return f"{output}{_OUTPUT_END}"


def output_of(volume: str) -> str:
    """The output folder of a volume: the inverse of `output_volume`."""
    return volume.removesuffix(_OUTPUT_END)


def output_of_need(job: str) -> str:
    """The mount point of the output folder of a job that the app's job needs."""
    return f"{NEEDS}/{job}"


def is_of_need(mount: Mapping[str, Any]) -> bool:
    """Whether the mount is of the output folder of another job."""
    return str(mount.get("target", "")).startswith(f"{NEEDS}/")


def error_file(role: str, k: int) -> str:
    """The path in the container of a replica's structured error file."""
    return f"{SCRATCH}/.error-{stem(role)}-{k}.json"


@lru_cache(maxsize=256)
def stem(role: str) -> str:
    """A role's name as a part of a DNS label. Roles whose names collide are marked with a hash."""
    name = normalise(role, _LIMIT)
    return name if name == role else f"{name[: _LIMIT - _MARK - 1]}-{_mark(role)}"


def _fit(name: str, whole: str, end: str) -> str:
    plain = name.isascii() and name.lower() == name and name.replace("-", "").isalnum()
    if plain and len(name) <= _LIMIT and name[0] != "-":
        return name
    end = f"-{_mark(whole)}{end}"
    start = normalise(name, _LIMIT - len(end))
    return f"{start}{end}"


def _mark(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]


CANCELLED = ".cancelled"
TIMED_OUT = ".timed-out"
STOPPED = ".stopped"
AT_END = ".ended"
ALL_MARKS = (CANCELLED, TIMED_OUT, STOPPED, AT_END)
MARKS = {"cancel": CANCELLED, "parent": CANCELLED, "hand": CANCELLED, "timeout": TIMED_OUT, "end": AT_END}
"""Reason of a stop → suffix of the container's name from then on; STOPPED for any other reason."""


def where(container: Container) -> tuple[str, int]:
    """The role and the replica number of a container."""
    role, k = container.labels.get(ROLE, ""), container.labels.get(REPLICA, "")
    return role, int(k) if k.isdecimal() else 0


def own_name(container: Container) -> str:
    """The name with which the container was created, by its labels."""
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
    """Whether the container has the name that launcher gave it."""
    return container.name.removesuffix(mark_of(container)) == own_name(container)


def is_reservation(container: Container) -> bool:
    """Whether the container reserves the app id, until all other containers exist."""
    return container.labels.get(PART) == RESERVATION_PART


def is_waiting(container: Container) -> bool:
    """Whether the container represents an attempt that waits for others, or for its turn."""
    return container.labels.get(PART) == WAITING_PART


def waiting_container(containers: Iterable[Container]) -> Container | None:
    """The container that represents an attempt while it waits."""
    return next((each for each in containers if is_waiting(each)), None)


def is_replica(container: Container) -> bool:
    """Whether a replica runs in the container: reservations and waiting containers never start."""
    return not (is_reservation(container) or is_waiting(container))


def expected_replicas(labels: Labels) -> list[tuple[str, int]]:
    """Every (role, replica) that an app should have, in order. Unpacks the document: call once for an app."""
    roles = labels.document.get("roles", ())
    return [(role["name"], k) for role in roles for k in range(role.get("num_replicas", 1))]
