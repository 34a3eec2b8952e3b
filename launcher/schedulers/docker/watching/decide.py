"""Decide what a watcher does next, from the containers and the journal of its app. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.progress import Progress, progress
from launcher.schedulers.docker.replicas import (
    CANCELLED,
    DockerReplica,
    is_stopped,
    mark_of,
    not_restarted,
    waits_for_restart,
    where,
)
from launcher.schedulers.docker.status import DockerAppView, is_probed, may_restart
from launcher.schedulers.order import STOPPED_AT_END, pause_s


@dataclass(frozen=True, slots=True)
class Wait:
    """Sleep until the next event, or until `deadline` (epoch seconds)."""

    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop these containers for good."""

    ids: tuple[str, ...]
    why: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """Start these containers again, after stopping those that run.

    Attributes:
        again: completes an earlier restart.
        held: ids of those that wait for another role then: a later action starts them.
        delay_s: the restart is recorded now, and starts them that much later.
    """

    role: str
    policy: str
    containers: tuple[Container, ...]
    again: bool = False
    delay_s: int = 0
    held: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop these containers, which a restart starts again, or which have failed as they were not ready."""

    containers: tuple[Container, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """Start the containers that the submitting client left unstarted, or that waited for other roles."""

    containers: tuple[Container, ...]


@dataclass(frozen=True, slots=True)
class End:
    """Record the end of the app: all of its containers have ended."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Exit: the app needs no watcher, or no longer needs one."""


_NOTHING_LEFT = "nothing runs any more that the other roles wait for"

Action = Wait | Stop | Restart | Halt | Start | End | Leave


def aim(action: Action, containers: Sequence[Container]) -> object:
    """The kind of action, and the current state of the containers it is to change; None if it changes none.

    An action that has made progress never has the same aim again.
    """
    if isinstance(action, (Wait, End, Leave)):
        return None
    ids = action.ids if isinstance(action, Stop) else tuple(each.id for each in action.containers)
    now = ((each.id, each.state, each.started_at) for each in containers if each.id in ids)
    pause = action.delay_s if isinstance(action, Restart) else 0
    return type(action), pause, tuple(sorted(now, key=str))


def decide(
    app: DockerAppView | None,
    containers: Sequence[Container],
    journal: Journal,
    *,
    retries: Mapping[str, tuple[int, str, int]],
    deadline: float | None,
    now: float,
) -> Action:
    """The next action for an app whose submission is over.

    Args:
        containers: of its replicas; all inspected once a restart was begun.
    """
    if app is None or journal.outcome is not None:
        return Leave()
    if app.done and journal.stop is None and (rest := unended(containers, journal)):
        return Stop(rest, "end", STOPPED_AT_END)
    order = progress(containers, journal)
    held = frozenset(each.id for each in containers if order is not None and order.is_held(each))
    reason = _reason_to_stop(app, containers, journal)
    if reason is not None:
        return _stop(containers, journal, order, *reason)
    if app.done:
        return End()  # a service that has failed since is not started again
    waiting = tuple(each for each in containers if waits_for_restart(each, journal))
    due_at = {each.id: journal.last_restart[each.id].due_at for each in waiting}
    due = tuple(each for each in waiting if due_at[each.id] <= now and each.id not in held)
    late = deadline is not None and now >= deadline
    live = tuple(each for each in waiting if each.live)
    if due and not late and not (order and live):
        return _go_on(due, journal)
    unready = tuple(each for each in containers if each.live and _is_unready(each, journal))
    if (live or unready) and not late:
        return Halt(live or unready)
    failed = sorted((each for each in app.replicas if each.state == "failed"), key=_ended_at)
    if failed:
        first = failed[0]
        probed = is_probed(first, order)
        by_hand = any(each.stopped_externally for each in failed)
        if not (journal.adopted or by_hand) and may_restart(first, retries, journal, probed=probed):
            return _restart(first, retries[first.role], containers, journal, order)
        why = "hand" if first.stopped_externally else "peer"
        return _stop(containers, journal, order, why)
    if order is not None and (stuck := _stuck(app, order)):
        return Stop(unended(containers, journal), "peer", stuck)
    if late and (app.live or waiting or held):
        return Stop(unended(containers, journal), "timeout")
    unstarted = tuple(
        each
        for each in containers
        if not (each.was_started or each.id in due_at or each.id in held or is_stopped(each, journal))
    )
    if unstarted:
        return Start(unstarted)
    if not (app.live or waiting):
        if not held:
            return End()
        why = "cancel" if any(mark_of(each) == CANCELLED for each in containers) else "peer"
        return Stop(unended(containers, journal), why, "" if why == "cancel" else _NOTHING_LEFT)
    return Wait(min((at for at in (deadline, *due_at.values()) if at is not None and at > now), default=None))


def _is_unready(container: Container, journal: Journal) -> bool:
    """Whether this run of a container was not ready in time."""
    found = journal.probe_of(*where(container), container.id, container.started_at)
    return found is not None and bool(found.why)


def _stuck(app: DockerAppView, order: Progress) -> str:
    """Why a role cannot be started any more, in a sentence; "" while none is lost."""
    for each in app.replicas:
        waiting = order.order.stuck_behind(each.role, each.k) if each.state == "succeeded" else ""
        if waiting:
            return f"{each.label} ended before it was ready, and {waiting} waits for it"
    return ""


def _reason_to_stop(
    app: DockerAppView, containers: Sequence[Container], journal: Journal
) -> tuple[str, str] | None:
    if journal.stop is not None:
        return journal.stop.why, journal.stop.message
    if journal.cancelled_by is not None:
        return "cancel", cancel_message(journal.cancelled_by, interrupt=journal.interrupted)
    idle = (each for each in containers if not each.was_started or not_restarted(each, journal))
    if any(mark_of(each) == CANCELLED for each in idle):
        return "cancel", cancel_message("")  # by a client of another state folder, while it waited
    return ("lost", app.message) if app.state == "lost" else None


def cancel_message(by: str, *, interrupt: bool = False) -> str:
    word = "interrupted" if interrupt else "cancelled"
    return f"{word} by {by}" if by else word


def _stop(
    containers: Sequence[Container], journal: Journal, order: Progress | None, why: str, message: str = ""
) -> Stop | End:
    """Stop what runs or would be started; roles that never ran must not look as if they had succeeded."""
    unstarted = (each for each in containers if not (each.was_started or is_stopped(each, journal)))
    if (order is not None and any(unstarted)) or any(
        each.live or waits_for_restart(each, journal) for each in containers
    ):
        return Stop(unended(containers, journal), why, message)
    return End()


def unended(containers: Sequence[Container], journal: Journal) -> tuple[str, ...]:
    """Ids of the containers that run, were never started, or wait to be restarted."""
    return tuple(each.id for each in containers if not each.ended or waits_for_restart(each, journal))


def _restart(
    failed: DockerReplica,
    rule: tuple[int, str, int],
    containers: Sequence[Container],
    journal: Journal,
    order: Progress | None,
) -> Restart:
    _, policy, delay_s = rule
    among = tuple(each for each in containers if policy == "APPLICATION" or where(each)[0] == failed.role)
    if policy == "REPLICA":
        among = tuple(each for each in among if each.id == failed.id)
    count = journal.restarts_of(failed.role, policy, failed.id) + 1
    whole = order is not None and policy == "APPLICATION"
    held = frozenset(each.id for each in among if whole and order and order.depends(where(each)[0]))
    return Restart(failed.role, policy, among, delay_s=pause_s(delay_s, count), held=held)


def _go_on(due: tuple[Container, ...], journal: Journal) -> Restart:
    last = journal.last_restart[due[0].id]
    return Restart(last.role, last.policy, due, again=True)


def _ended_at(replica: DockerReplica) -> float:
    return replica.ended_at or 0.0
