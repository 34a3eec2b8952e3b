"""Derive the replicas of an app from its containers and its journal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.journal import Journal, RecordedExit
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
_WAITS = {"paused": "paused", "restarting": RESTARTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerReplica:
    """One replica.

    Attributes:
        state: pending, running, succeeded, failed, cancelled or lost.
        id: the id of its container; "" when that was removed.
        num_restarts: restarts of this replica alone.
        error: why the engine could not start it again; "" when it could, or did not have to.
        waits: why a replica is idle: paused, between two runs, or waiting for another role; "" otherwise.
        late: why it has failed that was not ready in time; "" for any other replica.
        at_end: it was stopped because the roles that are no services had succeeded.
        stopped_externally: another program stopped it.
        said: the last line that it wrote to stderr before it failed, where that is on record.
        lost: why its end tells nothing, see `unasked.py`; "" for any other replica.
    """

    role: str
    k: int
    state: str = "pending"
    id: str = ""
    name: str = ""
    exit_code: int | None = None
    oom: bool = False
    num_restarts: int = 0
    hostname: str = ""
    ports: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    error: str = ""
    stopped_externally: bool = False
    waits: str = ""
    late: str = ""
    at_end: bool = False
    said: str = ""
    lost: str = ""

    @property
    def label(self) -> str:
        return f"{self.role}/{self.k}"


def replicas(
    containers: Sequence[Container], journal: Journal, expected_replicas: Iterable[tuple[str, int]]
) -> tuple[DockerReplica, ...]:
    """Every replica, in order: those with a container, those with a recorded end, the other expected ones."""
    found = {where(each): _replica(each, journal) for each in containers}
    begun = journal.going_at is not None or bool(journal.exits) or any(c.was_started for c in containers)
    for (role, k), exit_ in journal.exits.items():
        if (role, k) not in found:
            found[role, k] = _removed(role, k, exit_)
    for role, k in expected_replicas:
        if (role, k) not in found:
            found[role, k] = DockerReplica(role=role, k=k, state="lost" if begun else "pending")
    order = {role: at for at, role in enumerate(dict.fromkeys(role for role, _ in expected_replicas))}
    ordered = sorted(found, key=lambda each: (order.get(each[0], 0), each[0], each[1]))
    return tuple(found[each] for each in ordered)


def _replica(container: Container, journal: Journal) -> DockerReplica:
    role, k = where(container)
    stopped = is_stopped(container, journal)
    recorded = journal.exits.get((role, k))
    waits = waits_for_restart(container, journal)
    ended = container.ended and not waits
    probe = journal.probe_of(role, k, container.id, container.started_at) if ended else None
    late = probe.why if probe is not None else ""
    lost = journal.lost(role, k, container.started_at) if ended and not stopped else ""
    judged = "failed" if late else "lost" if lost else ""
    code = code_of(container, journal) if ended else None
    return DockerReplica(
        role=role,
        k=k,
        state="running" if waits else judged or _state(container, code, stopped=stopped),
        id=container.id,
        name=container.name,
        exit_code=code,
        oom=ended and (container.oom or bool(recorded and recorded.oom)),
        num_restarts=restarts_of(container, journal),
        hostname=container.hostname or container.name,
        ports=container.ports,
        started_at=container.started_at,
        ended_at=container.ended_at if ended else None,
        error=container.error,
        stopped_externally=ended
        and not lost
        and journal.was_stopped_externally(container.id, container.started_at),
        waits=RESTARTED if waits and not container.live else _WAITS.get(container.state, ""),
        late=late,
        said=recorded.said if recorded and ended and recorded.code == code else "",
        at_end=stopped and _is_stopped_at_end(container, journal),
        lost=lost,
    )


def _is_stopped_at_end(container: Container, journal: Journal) -> bool:
    if journal.stop is not None and container.id in journal.stopped:
        return journal.stop.why == "end"
    return mark_of(container) == AT_END


def is_stopped(container: Container, journal: Journal) -> bool:
    """Whether launcher has stopped it for good."""
    return container.id in journal.stopped or bool(mark_of(container))


def _state(container: Container, code: int | None, *, stopped: bool) -> str:
    """A replica that launcher stopped is cancelled, even if its process exited with 0."""
    if not container.was_started:
        return "cancelled" if stopped else "pending"
    if not container.ended:
        return "running"
    if stopped:
        return "cancelled"
    return "succeeded" if code == 0 else "failed"


def _removed(role: str, k: int, exit_: RecordedExit) -> DockerReplica:
    return DockerReplica(
        role=role,
        k=k,
        state="lost" if exit_.lost else "succeeded" if exit_.code == 0 else "failed",
        exit_code=exit_.code,
        oom=exit_.oom,
        num_restarts=exit_.restarts,
        started_at=exit_.started_at,
        ended_at=exit_.ended_at,
        said=exit_.said,
        lost=exit_.lost,
    )


def code_of(container: Container, journal: Journal) -> int | None:
    """The exit code of its last run, as recorded: an engine that was killed just then may not know it."""
    recorded = journal.exit_of(*where(container), container.started_at)
    known = recorded is not None and recorded.started_at == container.started_at
    return recorded.code if recorded is not None and known else container.exit_code


def restarts_of(container: Container, journal: Journal) -> int:
    """How often this container alone was restarted, by the engine's own policy or by the watcher."""
    ours = sum(each.policy == "REPLICA" and container.id in each.was for each in journal.restarts)
    return container.restarts + ours


def waits_for_restart(container: Container, journal: Journal) -> bool:
    """Whether a restart is to start this container, and has not yet. Needs an inspected container.

    False once it was stopped for good instead.
    """
    stopped = is_stopped(container, journal)
    failed = journal.stop is not None and journal.stop.why == "start"
    return not (stopped or failed) and not_restarted(container, journal)


def not_restarted(container: Container, journal: Journal) -> bool:
    """Whether it still is as it was when its last restart was recorded. Needs an inspected container."""
    last = journal.last_restart.get(container.id)
    return last is not None and container.inspected and container.started_at == last.was[container.id]


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
