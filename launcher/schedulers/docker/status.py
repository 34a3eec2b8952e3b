"""Derive the state of an app from its containers and its journal. Pure.

The engine decides about live containers, the journal about ended ones. Without a journal (its folder was
removed, or is on another machine) the containers are enough: their names are marked with what exit codes do
not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.errors import cause_of
from launcher.schedulers.docker.journal import IN_LINE, Journal, waiting_for
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.names import queued_name
from launcher.schedulers.docker.progress import Progress, progress
from launcher.schedulers.docker.replicas import (
    AT_END,
    CANCELLED,
    RESTARTED,
    TIMED_OUT,
    DockerReplica,
    is_replica,
    is_reservation,
    mark_of,
    replicas,
    waits_for_restart,
    where,
)
from launcher.schedulers.last_line import exited
from launcher.schedulers.order import pause_s
from launcher.specs.attempt import AttemptState

_POLICIES = ("APPLICATION", "ROLE", "REPLICA")
_LOST = "its containers were removed"
GONE = "its reservation was removed"
"""Why an attempt has ended whose container was removed while it waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerAppView:
    """The state of one app.

    Attributes:
        unstarted: number of replicas never started, of an app with others that were. Those that wait for
            another role are none: the app's watcher starts them.
        inputs_changed: its input files that changed while it waited or ran, as text; "" for none.
        drift: a change that another program made to its containers; "" for none.
        final: the outcome is final; no watcher is needed.
        live: ids of containers that run.
        started: a container of it was started at least once.
        done: every replica of the roles that are no services has succeeded, so the services are stopped.
    """

    state: AttemptState
    message: str = ""
    exit_code: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    num_restarts: int = 0
    unstarted: int = 0
    drift: str = ""
    inputs_changed: str = ""
    final: bool = False
    started: bool = False
    done: bool = False
    live: tuple[str, ...] = ()
    replicas: tuple[DockerReplica, ...] = ()

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "cancelled", "skipped", "lost")

    @property
    def needs_watcher(self) -> bool:
        """Whether the app needs a watcher."""
        return self.started and not self.final


@dataclass(frozen=True, slots=True)
class _Facts:
    """The input of the functions below."""

    replicas: tuple[DockerReplica, ...]
    containers: tuple[Container, ...]
    journal: Journal
    expected: int
    retries: Mapping[str, tuple[int, str, int]]
    restarts_possible: bool
    progress: Progress | None
    begun: bool  # a replica was started, also one whose container is gone

    def of(self, state: str) -> list[DockerReplica]:
        found = [each for each in self.replicas if each.state == state]
        return sorted(found, key=lambda each: each.ended_at or 0.0)


def view(
    containers: Iterable[Container],
    journal: Journal | None = None,
    *,
    expected_replicas: Iterable[tuple[str, int]] = (),
) -> DockerAppView | None:
    """The state of the app with these containers (all of one app id) and this journal; None for no app.

    Args:
        containers: as listed; those that do not run should be inspected for their times and the OOM mark.
        journal: None where there is no record here. Without a container, an app exists only if its journal
            has a start, an exit or an outcome.
        expected_replicas: every (role, replica) it should have, where known: names the removed ones.
    """
    # A container that is being removed counts as gone: neither its start nor its exit code is known.
    found = tuple(each for each in containers if each.state != "removing" or not is_replica(each))
    recorded, expected = journal or Journal(), tuple(expected_replicas)
    parts = tuple(each for each in found if is_replica(each))
    if not found and recorded.going_at is None and not recorded.exits and recorded.outcome is None:
        if recorded.waits_for is None:
            return None
        return DockerAppView(state="cancelled", message=GONE, ended_at=recorded.last_at)
    number = max((Labels(each.labels).expected for each in parts), default=len(expected or recorded.exits))
    roles = progress(parts, recorded)
    # Those that wait for others may be all that is left: the order to start comes after the last is created.
    is_rest = roles is not None and len(parts) == len(found) and recorded.going_at is not None
    facts = _Facts(
        replicas=replicas(parts, recorded, expected),
        containers=parts,
        journal=recorded,
        expected=number,
        retries=Labels((parts or found)[0].labels).retries if found else {},
        restarts_possible=journal is not None and not journal.adopted,
        progress=roles,
        begun=any(each.was_started for each in parts)
        or bool(recorded.exits)
        or (is_rest and len(parts) < number),
    )
    if (held := _held(found, recorded)) and not facts.begun and recorded.outcome is None:
        state, message = held
        return DockerAppView(state=state, message=message, replicas=facts.replicas)
    return _view(facts, reserved=len(parts) < len(found) or 0 < len(parts) < facts.expected)


def _held(containers: Iterable[Container], journal: Journal) -> tuple[AttemptState, str] | None:
    """State and message of an accepted attempt before its start; None for any other."""
    markers = [each for each in containers if not is_replica(each)]
    if not markers or any(is_reservation(each) for each in markers):
        return None
    if journal.held is not None:
        return journal.held
    labels = Labels(markers[0].labels)
    if markers[0].name == queued_name(labels.app_id):
        return "queued", IN_LINE
    return "waiting", waiting_for([each.job for each in labels.waits_for])


def _view(facts: _Facts, *, reserved: bool) -> DockerAppView:
    started = facts.begun
    facts = _in_order(facts) if facts.progress is not None and started else facts
    common = DockerAppView(
        state="reserved" if reserved else "created",
        replicas=facts.replicas,
        started=started,
        live=tuple(each.id for each in facts.containers if each.live),
        num_restarts=sum(each.policy != "REPLICA" for each in facts.journal.restarts)
        + sum(each.num_restarts for each in facts.replicas),
        started_at=_started_at(facts),
        unstarted=sum(_is_left(each, facts) for each in facts.replicas) if started else 0,
        done=facts.progress is not None and facts.progress.order.is_done(),
        inputs_changed=facts.journal.inputs_changed,
    )
    if facts.journal.outcome is not None:
        return _recorded(common, facts)
    if not started:
        if facts.containers and facts.journal.going_at is not None and facts.journal.stop is not None:
            return _ended(common, facts)  # none of it could be started
        if facts.containers or reserved:
            return common
        what = _missing(facts) or _LOST
        return replace(common, state="lost", message=what, drift=what)
    missing = _missing(facts)
    if missing:
        return replace(common, state="lost", message=missing, drift=missing, ended_at=_ended_at(facts))
    if (why := _why_lost(facts)) and not common.done:
        return replace(common, state="lost", message=why, ended_at=_ended_at(facts))
    if common.live or _goes_on(facts, common.unstarted):
        return replace(common, state="running", drift=_by_hand(facts))
    return _ended(common, facts)


def _why_lost(facts: _Facts) -> str:
    """Why the app is lost of which a replica is; "" where it was to be stopped before for another reason."""
    stop = facts.journal.stop
    if facts.journal.cancelled_by is not None or (stop is not None and stop.why != "lost"):
        return ""
    return next((each.lost for each in facts.of("lost") if each.lost), "")


def _in_order(facts: _Facts) -> _Facts:
    """With the replicas that wait for another role as such, while the app may still start them."""
    progress, journal = facts.progress, facts.journal
    assert progress is not None
    if journal.stop is not None or journal.outcome is not None or progress.order.is_done():
        return facts
    held = {
        each.id: progress.waits_for(where(each)[0]) for each in facts.containers if progress.is_held(each)
    }
    changed = (
        replace(each, state="pending", waits=held[each.id])
        if each.id in held and each.state in ("pending", "running")
        else each
        for each in facts.replicas
    )
    return replace(facts, replicas=tuple(changed))


def _is_left(replica: DockerReplica, facts: _Facts) -> bool:
    """Whether an interrupted submission has left a replica unstarted."""
    return replica.state == "pending" and not (facts.progress and facts.progress.depends(replica.role))


def _recorded(common: DockerAppView, facts: _Facts) -> DockerAppView:
    outcome = facts.journal.outcome
    assert outcome is not None
    again = [each.label for each in facts.replicas if each.state == "running"]
    return replace(
        common,
        state=outcome.state,
        message=outcome.message,
        exit_code=outcome.code,
        drift=f"{again[0]} was started by hand" if again else outcome.drift,
        inputs_changed=common.inputs_changed or outcome.inputs_changed,
        ended_at=outcome.at,
        unstarted=0,
        started=True,
        final=True,
    )


def _goes_on(facts: _Facts, unstarted: int) -> bool:
    """Whether the app goes on although no container runs: the rest of its start, or a restart, follows."""
    if any(waits_for_restart(each, facts.journal) for each in facts.containers):
        return True  # also in a stop: it begins by recording that these are not restarted
    if facts.journal.stop is not None or facts.journal.cancelled_by is not None:
        return False
    if facts.progress is not None and facts.progress.order.is_done():
        return False
    failed = facts.of("failed")
    if not failed:
        return unstarted > 0 or bool(facts.of("pending"))
    if facts.restarts_possible and facts.progress is not None and facts.of("pending"):
        return True  # the watcher is about to stop those that wait, which records why
    return (
        facts.restarts_possible
        and not any(each.stopped_externally for each in failed)
        and may_restart(failed[0], facts.retries, facts.journal, probed=is_probed(failed[0], facts.progress))
    )


def _ended(common: DockerAppView, facts: _Facts) -> DockerAppView:
    state, message, code = _outcome(facts)
    return replace(
        common,
        state=state,
        message=message,
        exit_code=code,
        ended_at=_ended_at(facts),
        unstarted=0,
        drift=_by_hand(facts),
        final=not facts.restarts_possible,
    )


def _outcome(facts: _Facts) -> tuple[AttemptState, str, int | None]:
    why = _reason(facts)
    stop = facts.journal.stop
    if stop is not None and stop.why == "lost" and stop.message:
        return "lost", stop.message, None
    if why == "end":
        return "succeeded", "", None
    if why == "cancel":
        return "cancelled", (stop.message if stop else "") or _by_hand(facts) or "cancelled", None
    if why == "timeout":
        return "failed", (stop.message if stop else "") or "timed out", None
    failed = facts.of("failed")
    if stop is not None and (stop.why == "start" or (stop.why == "peer" and stop.message)):
        return "failed", stop.message, failed[0].exit_code if failed else None
    if facts.progress is not None and facts.progress.order.is_done() and stop is None:
        return "succeeded", "", None  # how a service ends after that does not count
    if not failed:
        stopped = facts.of("cancelled") or facts.of("lost")  # the engine was faster than the stop
        return ("cancelled", "cancelled", None) if stopped else ("succeeded", "", None)
    first = failed[0]
    if first.stopped_externally:
        return "cancelled", f"{first.label} was stopped by hand", None
    return "failed", _why_failed(first), first.exit_code


def _reason(facts: _Facts) -> str:
    """Why the app was stopped: cancel, timeout, end or "", by the journal or else by the marks of names."""
    if facts.journal.stop is not None:
        why = facts.journal.stop.why
        return {"cancel": "cancel", "parent": "cancel", "timeout": "timeout", "end": "end"}.get(why, "")
    if any(mark_of(each) == AT_END for each in facts.containers):
        return "end"
    if any(mark_of(each) == TIMED_OUT for each in facts.containers):
        return "timeout"
    return "cancel" if any(mark_of(each) == CANCELLED for each in facts.containers) else ""


def _why_failed(replica: DockerReplica) -> str:
    if replica.late:
        return f"{replica.label} was {replica.late}"
    if replica.oom:
        return f"{replica.label} was killed: out of memory"
    if replica.error:
        return f"{replica.label} could not be restarted: {cause_of(replica.error)}"
    return f"{replica.label} {exited(replica.exit_code, replica.said)}"


def _missing(facts: _Facts) -> str:
    """The replicas without a container and without a recorded end, as a message; "" when none is missing."""
    number = facts.expected - len({(each.role, each.k) for each in facts.replicas if not _is_missing(each)})
    if number <= 0:
        return ""
    named = [each.label for each in facts.replicas if _is_missing(each)]
    if len(named) == 1:
        return f"{named[0]} was removed by hand"
    if named:
        return f"{', '.join(named[:3])}{', …' if len(named) > 3 else ''} were removed by hand"
    return "1 container was removed by hand" if number == 1 else f"{number} containers were removed by hand"


def _is_missing(replica: DockerReplica) -> bool:
    return replica.state == "lost" and not replica.lost


def _by_hand(facts: _Facts) -> str:
    found = [each.label for each in facts.replicas if each.stopped_externally]
    return f"{found[0]} was stopped by hand" if found else ""


def _started_at(facts: _Facts) -> float | None:
    times = [each.started_at for each in facts.replicas if each.started_at is not None]
    if facts.journal.going_at is not None and times:
        return min([facts.journal.going_at, *times])
    return min(times, default=facts.journal.going_at)


def _ended_at(facts: _Facts) -> float | None:
    return max((each.ended_at for each in facts.replicas if each.ended_at is not None), default=None)


def may_restart(
    replica: DockerReplica,
    retries: Mapping[str, tuple[int, str, int]],
    journal: Journal,
    *,
    probed: bool = False,
) -> bool:
    """Whether the watcher restarts a replica that has failed, alone or with others.

    REPLICA restarts without a pause are the engine's, but where it was `probed`: only the watcher knows
    then whether it has failed.
    """
    most, policy, delay_s = retries.get(replica.role, (0, "", 0))
    if policy not in _POLICIES:
        return False
    if policy == "REPLICA" and not ((delay_s or probed) and replica.id):
        return False
    return journal.restarts_of(replica.role, policy, replica.id) < most


def is_probed(replica: DockerReplica, progress: Progress | None) -> bool:
    return progress is not None and progress.probe_of(replica.role) is not None


def has_retries(app: DockerAppView, retries: Mapping[str, tuple[int, str, int]]) -> bool:
    """Whether a watcher may restart an app that has failed, if it was not restarted too often."""
    failed = (each.role for each in app.replicas if each.state == "failed")
    return app.state == "failed" and any(retries.get(role, (0, "", 0))[0] > 0 for role in failed)


def longest_pause_s(app: DockerAppView, retries: Mapping[str, tuple[int, str, int]]) -> int:
    """The longest pause before a restart of an app that has failed; 0 for none."""
    rules = [retries.get(each.role, (0, "", 0)) for each in app.replicas if each.state == "failed"]
    pauses = (pause_s(delay_s, most) for most, _, delay_s in rules if most > 0)
    return max(pauses, default=0) if app.state == "failed" else 0


def paused(app: DockerAppView) -> DockerAppView:
    """An app that has failed, as it is while the failed replicas wait to be restarted."""
    waiting = tuple(
        replace(each, state="running", exit_code=None, ended_at=None, waits=RESTARTED)
        if each.state == "failed"
        else each
        for each in app.replicas
    )
    return replace(
        app, state="running", message="", exit_code=None, ended_at=None, final=False, replicas=waiting
    )
