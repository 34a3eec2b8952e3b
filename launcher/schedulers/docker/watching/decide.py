"""What a watcher does next, out of what it sees. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.schedulers.docker.state.replicas import where
from launcher.schedulers.docker.state.restarts import may_restart, not_restarted, pending_restart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from launcher.schedulers.docker.client.container import Container
    from launcher.schedulers.docker.records.journal import Journal
    from launcher.schedulers.docker.state.replicas import ReplicaView
    from launcher.schedulers.docker.state.status import AppView


@dataclass(frozen=True, slots=True)
class Wait:
    """Until something happens, or until `deadline` (epoch seconds)."""

    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop these containers for good."""

    ids: tuple[str, ...]
    why: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """Start these containers again, after stopping those that run. `again`: a restart that was begun."""

    role: str
    policy: str
    containers: tuple[Container, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Start what whoever submitted it did not come to start."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class End:
    """All has ended: record it."""


@dataclass(frozen=True, slots=True)
class Leave:
    """There is nothing (more) to look after."""


Action = Wait | Stop | Restart | Start | End | Leave


def decide(
    app: AppView | None,
    containers: Sequence[Container],
    journal: Journal,
    *,
    retries: Mapping[str, tuple[int, str]],
    deadline: float | None,
    now: float,
    restarts: bool = True,
) -> Action:
    """The next thing to do for an app whose start is over.

    Args:
        containers: of its replicas; all inspected once a restart was begun.
        restarts: whether restarts may be made: what has been done is on record, and can be recorded.
    """
    if app is None or (app.settled and journal.outcome is not None):
        return Leave()
    reason = _reason_to_stop(app, journal)
    if reason is not None:
        return _stop(containers, *reason)
    if pending_restart(containers, journal):
        return _go_on(containers, journal)
    failed = sorted((each for each in app.replicas if each.state == "failed"), key=_ended_at)
    if failed:
        if restarts and failed[0].id not in journal.by_hand and may_restart(failed[0].role, retries, journal):
            return _restart(failed[0].role, retries[failed[0].role][1], containers)
        return _stop(containers, "hand" if failed[0].id in journal.by_hand else "peer")
    if deadline is not None and now >= deadline and app.live:
        return _stop(containers, "timeout")
    unstarted = tuple(each.id for each in containers if not each.was_started)
    if unstarted:
        return Start(unstarted)
    return Wait(deadline) if app.live else End()


def _reason_to_stop(app: AppView, journal: Journal) -> tuple[str, str] | None:
    if journal.stop is not None:
        return journal.stop.why, journal.stop.message
    if journal.cancelled_by is not None:
        return "cancel", cancel_message(journal.cancelled_by, interrupt=journal.interrupted)
    return ("lost", app.message) if app.state == "lost" else None


def cancel_message(by: str, *, interrupt: bool = False) -> str:
    word = "interrupted" if interrupt else "cancelled"
    return f"{word} by {by}" if by else word


def _stop(containers: Sequence[Container], why: str, message: str = "") -> Stop | End:
    live = [each for each in containers if each.live]
    if not live and why in ("peer", "hand", "lost", "cancel"):
        return End()
    return Stop(unended(containers), why, message) if live else End()


def unended(containers: Sequence[Container]) -> tuple[str, ...]:
    """What runs, and what will not be started any more."""
    return tuple(each.id for each in containers if not each.ended)


def _restart(role: str, policy: str, containers: Sequence[Container]) -> Restart:
    among = tuple(each for each in containers if policy == "APPLICATION" or where(each)[0] == role)
    return Restart(role, policy, among)


def _go_on(containers: Sequence[Container], journal: Journal) -> Restart:
    last = journal.restarts[-1]
    return Restart(
        last.role, last.policy, tuple(c for c in containers if not_restarted(c, journal)), again=True
    )


def _ended_at(replica: ReplicaView) -> float:
    return replica.ended_at or 0.0
