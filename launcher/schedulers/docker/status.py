"""Derive the state of an app from its containers and its journal. Pure.

`launcher.holding` judges both: the journal's events, and events that the containers show and the journal
lacks. Without a journal (its folder was removed, or is on another machine) the containers are enough: marks
in their names show what exit codes do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from launcher.dataclass import dataclass, field, replace
from launcher.holding.events import IN_LINE, OUT_OF_MEMORY, pause_s, waits_for_jobs
from launcher.holding.replica import ENDED, RUNNING, Replica
from launcher.holding.state import ENDED_STATES
from launcher.holding.use import Use
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.facts import (
    REMOVED,
    UNNAMED,
    containers_to_events,
    end_of,
    has_begun,
    open_app,
    unended,
)
from launcher.schedulers.docker.journal import HeldApp, Journal, Outcome
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.names import is_replica, is_reservation, queued_name, where
from launcher.specs.attempt import AttemptState

GONE = "its reservation was removed"
"""The message of an attempt that ended because its container was removed while it waited."""
RESTARTED = "waits to be restarted"
_WAITS = {"paused": "paused", "restarting": RESTARTED}
_NEVER = 0.0  # readers decide nothing by the clock


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerReplica:
    """One replica.

    Attributes:
        state: pending, running, succeeded, failed, cancelled or lost.
        id: the id of its container; "" when the container was removed.
        num_restarts: restarts of this replica alone.
        waits: why a replica is idle: paused, between two runs, or waiting for another role; "" otherwise.
        message: why it has failed, was stopped or was lost; "" where the app's message says so.
        lost: why its end is unknown, see `facts.py`; "" for any other replica.
        use: the use of its last run; None where that is unknown.
    """

    role: str
    k: int
    state: str = "pending"
    id: str = ""
    exit_code: int | None = None
    num_restarts: int = 0
    hostname: str = ""
    ports: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    waits: str = ""
    message: str = ""
    lost: str = ""
    use: Use | None = None

    @property
    def label(self) -> str:
        return f"{self.role}/{self.k}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerAppView:
    """The state of one app.

    Attributes:
        unstarted: number of replicas never started, in an app with started ones. Replicas that wait for
            another role do not count: the app's watcher starts them.
        inputs_changed: its input files that changed while it waited or ran, as text; "" for none.
        output_digest, images, used: see `Attempt`.
        drift: a change that another program made to its containers; "" for none.
        final: the outcome is final; no watcher is needed.
        live: ids of running containers.
        started: whether a container of the app was started at least once.
        done: every replica, those of services aside, has succeeded, so the services are stopped.
        is_unrecorded: whether a run ended without a request of launcher, and its end is not recorded.
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
    output_digest: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, Use] = field(default_factory=dict)
    final: bool = False
    started: bool = False
    done: bool = False
    is_unrecorded: bool = False
    live: tuple[str, ...] = ()
    replicas: tuple[DockerReplica, ...] = ()

    @property
    def code(self) -> int | None:
        """The exit code, under the name that records use."""
        return self.exit_code

    @property
    def ended(self) -> bool:
        return self.state in ENDED_STATES

    @property
    def hangs_on_restart(self) -> bool:
        """Whether a restart of the engine, if there was one, decides the app's state."""
        return self.is_unrecorded or (self.state == "created" and self.started_at is not None)

    @property
    def needs_watcher(self) -> bool:
        """Whether the app needs a watcher."""
        return self.started and not self.final


def view(
    containers: Iterable[Container],
    journal: Journal | None = None,
    *,
    expected_replicas: Iterable[tuple[str, int]] = (),
    labels: Labels | None = None,
    engine_started_at: float | None = None,
) -> DockerAppView | None:
    """The state of the app with these containers (all of one app id) and this journal; None for no app.

    Args:
        containers: as listed; those that do not run should be inspected for their times and the OOM mark.
        journal: None where there is no record here. Without a container, an app exists only if its journal
            has a start, an exit or an outcome.
        expected_replicas: every (role, replica) it should have, where known, to name the removed replicas.
        labels: the labels in its record, for an app without containers.
        engine_started_at: None where it does not matter, or is unknown; see `facts.py`.
    """
    # A container that is being removed counts as gone: neither its start nor its exit code is known.
    found = tuple(each for each in containers if each.state != "removing" or not is_replica(each))
    recorded, parts = journal or Journal(), tuple(each for each in found if is_replica(each))
    if not found and recorded.is_before_start:
        gone = DockerAppView(state="cancelled", message=GONE, ended_at=recorded.app.last_at or None)
        return gone if recorded.held else None
    labels = Labels((parts or found)[0].labels) if found else labels or Labels({})
    app = open_app(labels, parts, recorded, tuple(expected_replicas))
    has_started = has_begun(parts, app, engine_started_at, is_complete=len(parts) == len(found))
    if not has_started and app.outcome is None and app.stop is None and found:
        is_reserved = len(parts) < len(found) or 0 < len(parts) < labels.expected
        return _unstarted(app, found, parts, recorded, "reserved" if is_reserved else "created")
    outcome, is_held = app.outcome, journal is not None and app.may_restart
    if journal is None:
        app.take({"e": "adopted"})
    is_unrecorded = _take_containers(app, parts, engine_started_at)
    _conclude(app, parts, is_held=is_held)
    fields = _shown_app(app, parts, outcome)
    is_over = fields["state"] in ENDED_STATES
    final = outcome is not None or (is_over and fields["state"] != "lost" and not is_held)
    fields |= {"final": final, "started": has_started or outcome is not None}
    return DockerAppView(**fields, is_unrecorded=is_unrecorded)


def _take_containers(app: HeldApp, containers: Sequence[Container], engine_started_at: float | None) -> bool:
    """Take the events that the journal lacks; returns whether one is an end without a request."""
    inspected = {each.id for each in containers if each.inspected}
    is_unrecorded = False
    judge = partial(end_of, app=app, engine_started_at=engine_started_at)
    for event in containers_to_events(app, containers, judge, engine_started_at):
        is_unrecorded |= event["e"] == "exit" and event.get("id") in inspected and not event.get("stopped")
        app.take(event)
    return is_unrecorded


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
    return "waiting", waits_for_jobs([each.job for each in labels.waits_for])


def _unstarted(
    app: HeldApp,
    found: Sequence[Container],
    parts: Sequence[Container],
    journal: Journal,
    otherwise: AttemptState,
) -> DockerAppView:
    """The view of an app without any started container."""
    state, message = _held(found, journal) or (otherwise, "")
    there = {where(each): each for each in parts}
    return DockerAppView(
        state=state,
        message=message,
        replicas=tuple(
            _replica(each, there.get((each.role.name, each.k)), "pending") for each in _named(app)
        ),
        started_at=app.started_at,
        inputs_changed=app.inputs_changed,
    )


def _named(app: HeldApp) -> list[Replica]:
    return [each for each in app.replicas if each.role.name != UNNAMED]


def _conclude(app: HeldApp, containers: Sequence[Container], *, is_held: bool) -> None:
    """Take the decisions that the app's watcher is about to make, except restarts.

    Args:
        is_held: this record has a watcher, or gets one: the app ends only when the watcher has stopped all.
    """
    if not any(each.live for each in containers):
        app.take({"e": "quiet"})
    while (decision := app.decide(_NEVER)) is not None and decision["e"] != "restart":
        if is_held and app.stop is not None and unended(app, containers):
            return
        app.take(decision)


def _shown_app(app: HeldApp, containers: Sequence[Container], outcome: Outcome | None) -> dict[str, Any]:
    """The fields of the view of an app that has begun. `outcome`: the recorded outcome."""
    there = {where(each): each for each in containers}
    replicas = tuple(_shown(app, each, there.get((each.role.name, each.k))) for each in _named(app))
    starts = [at for at in (app.started_at, *(each.started_at for each in replicas)) if at]
    ended_at = max((each.ended_at for each in replicas if each.ended_at is not None), default=None)
    fields: dict[str, Any] = {
        "state": "running",
        "replicas": replicas,
        "live": tuple(each.id for each in containers if each.live),
        "num_restarts": app.num_restarts,
        "started_at": min(starts, default=None),
        "drift": _drift(app),
        "done": app.is_done,
        "inputs_changed": app.inputs_changed,
        "output_digest": app.output_digest,
        "images": {where(each)[0]: each.image_id for each in containers if each.image_id},
        "used": app.used,
    }
    if outcome is not None:
        again = [each.label for each in replicas if each.state == "running"]
        fields |= outcome._asdict()
        fields["drift"] = f"{again[0]} was started by hand" if again else outcome.drift
        fields["inputs_changed"] = app.inputs_changed or outcome.inputs_changed
    elif app.stop is not None and app.stop["state"] == "lost":  # also while other replicas run
        fields.update(state="lost", message=app.stop["message"], ended_at=ended_at)
    elif app.has_ended:
        fields.update(state=app.state, message=app.message, exit_code=app.code, ended_at=ended_at)
    else:
        fields["unstarted"] = sum(_is_left(each, there) for each in app.replicas)
    return fields


def _drift(app: HeldApp) -> str:
    """The change that another program made to the containers; "" for none."""
    for each in app.replicas:
        if each.lost and (each.role.name, each.k) in app.removed:
            return each.lost
    if app.stop is not None and app.stop["why"] == "hand":
        return str(app.stop["message"])
    by_hand = [each.name for each in app.replicas if each.state == ENDED and each.by_hand]
    return f"{by_hand[0]} was stopped by hand" if by_hand else ""


def _is_left(replica: Replica, there: Mapping[tuple[str, int], Container]) -> bool:
    """Whether an interrupted submission has left a replica unstarted."""
    container = there.get((replica.role.name, replica.k))
    never_ran = container is not None and not container.was_started and replica.state != ENDED
    return never_ran and not replica.role.depends_on


def _shown(app: HeldApp, replica: Replica, container: Container | None) -> DockerReplica:
    """A replica of an app that was started."""
    state, message = app.shown(replica)
    if replica.state == ENDED:
        if replica.lost and (replica.role.name, replica.k) in app.removed:
            message = REMOVED
        elif state == "failed" and replica.oom:
            message = message or "killed: " + OUT_OF_MEMORY
        elif state == "cancelled":
            message = message or app.stop_reason or app.message
        return _replica(replica, container, state, message)
    if container is None:
        return _replica(replica, None, "lost", REMOVED)
    if container.live:
        waits = RESTARTED if replica.state != RUNNING and not container.inspected else ""
        return _replica(replica, container, "running", waits=_WAITS.get(container.state, waits))
    if app.has_ended or app.stop is not None:
        return _replica(replica, container, "cancelled", message or app.stop_reason)
    if message:
        return _replica(replica, container, "pending", waits=message)
    if replica.restarts > 0:
        return _replica(replica, container, "running", waits=RESTARTED)
    return _replica(replica, container, "pending")


def _replica(
    replica: Replica, container: Container | None, state: str, message: str = "", *, waits: str = ""
) -> DockerReplica:
    has_ended = replica.state == ENDED
    return DockerReplica(
        role=replica.role.name,
        k=replica.k,
        state=state,
        id=container.id if container else "",
        exit_code=replica.code if has_ended else None,
        num_restarts=replica.retries,
        hostname=(container.hostname or container.name) if container else "",
        ports=container.ports if container else {},
        started_at=container.started_at if container else replica.started_at or None,
        ended_at=(replica.ended_at or None) if has_ended else None,
        waits=waits,
        message=message,
        lost=replica.lost if has_ended else "",
        use=replica.use,
    )


def has_retries(app: DockerAppView, retries: Mapping[str, tuple[int, str, int]]) -> bool:
    """Whether a watcher may restart a failed app that was not restarted too often."""
    failed = (each.role for each in app.replicas if each.state == "failed")
    return app.state == "failed" and any(retries.get(role, (0, "", 0))[0] > 0 for role in failed)


def longest_pause_s(app: DockerAppView, retries: Mapping[str, tuple[int, str, int]]) -> int:
    """The longest pause in s before a restart of a failed app; 0 for none."""
    rules = [retries.get(each.role, (0, "", 0)) for each in app.replicas if each.state == "failed"]
    pauses = (pause_s(delay_s, most) for most, _, delay_s in rules if most > 0)
    return max(pauses, default=0) if app.state == "failed" else 0


def paused(app: DockerAppView) -> DockerAppView:
    """The view of a failed app while its failed replicas wait to be restarted."""
    waiting = tuple(
        replace(each, state="running", exit_code=None, ended_at=None, waits=RESTARTED, message="")
        if each.state == "failed"
        else each
        for each in app.replicas
    )
    return replace(
        app, state="running", message="", exit_code=None, ended_at=None, final=False, replicas=waiting
    )
