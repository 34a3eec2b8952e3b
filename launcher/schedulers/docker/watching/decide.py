"""Decide what a watcher does next, from the containers and the journal of its app. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.replicas import DockerReplica, where
from launcher.schedulers.docker.status import DockerAppView, may_restart, not_restarted, pending_restart


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
    """Start these containers again, after stopping those that run. `again`: completes an earlier restart."""

    role: str
    policy: str
    containers: tuple[Container, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Start the containers that the submitting client left unstarted."""

    containers: tuple[Container, ...]


@dataclass(frozen=True, slots=True)
class End:
    """Record the end of the app: all of its containers have ended."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Exit: the app needs no watcher, or no longer needs one."""


Action = Wait | Stop | Restart | Start | End | Leave


def aim(action: Action, containers: Sequence[Container]) -> object:
    """The kind of action, and the current state of the containers it is to change; None if it changes none.

    An action that has made progress never has the same aim again.
    """
    if isinstance(action, (Wait, End, Leave)):
        return None
    ids = action.ids if isinstance(action, Stop) else tuple(each.id for each in action.containers)
    now = ((each.id, each.state, each.started_at) for each in containers if each.id in ids)
    return type(action), tuple(sorted(now, key=str))


def decide(
    app: DockerAppView | None,
    containers: Sequence[Container],
    journal: Journal,
    *,
    retries: Mapping[str, tuple[int, str]],
    deadline: float | None,
    now: float,
) -> Action:
    """The next action for an app whose submission is over.

    Args:
        containers: of its replicas; all inspected once a restart was begun.
    """
    if app is None or (app.final and journal.outcome is not None):
        return Leave()
    reason = _reason_to_stop(app, journal)
    if reason is not None:
        return _stop(containers, *reason)
    if pending_restart(containers, journal):
        return _go_on(containers, journal)
    failed = sorted((each for each in app.replicas if each.state == "failed"), key=_ended_at)
    if failed:
        first = failed[0]
        if not (journal.adopted or first.stopped_externally) and may_restart(first.role, retries, journal):
            return _restart(first.role, retries[first.role][1], containers)
        return _stop(containers, "hand" if first.stopped_externally else "peer")
    if deadline is not None and now >= deadline and app.live:
        return _stop(containers, "timeout")
    unstarted = tuple(each for each in containers if not each.was_started)
    if unstarted:
        return Start(unstarted)
    return Wait(deadline) if app.live else End()


def _reason_to_stop(app: DockerAppView, journal: Journal) -> tuple[str, str] | None:
    if journal.stop is not None:
        return journal.stop.why, journal.stop.message
    if journal.cancelled_by is not None:
        return "cancel", cancel_message(journal.cancelled_by, interrupt=journal.interrupted)
    return ("lost", app.message) if app.state == "lost" else None


def cancel_message(by: str, *, interrupt: bool = False) -> str:
    word = "interrupted" if interrupt else "cancelled"
    return f"{word} by {by}" if by else word


def _stop(containers: Sequence[Container], why: str, message: str = "") -> Stop | End:
    return Stop(unended(containers), why, message) if any(each.live for each in containers) else End()


def unended(containers: Sequence[Container]) -> tuple[str, ...]:
    """Ids of the containers that run, or were never started."""
    return tuple(each.id for each in containers if not each.ended)


def _restart(role: str, policy: str, containers: Sequence[Container]) -> Restart:
    among = tuple(each for each in containers if policy == "APPLICATION" or where(each)[0] == role)
    return Restart(role, policy, among)


def _go_on(containers: Sequence[Container], journal: Journal) -> Restart:
    last = journal.restarts[-1]
    return Restart(
        last.role, last.policy, tuple(c for c in containers if not_restarted(c, journal)), again=True
    )


def _ended_at(replica: DockerReplica) -> float:
    return replica.ended_at or 0.0
