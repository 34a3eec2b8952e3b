"""Submit one launch to its scheduler, in stages that survive a kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import time
from typing import Any

from launcher.apply.engines import Engines
from launcher.apply.events import Events
from launcher.apply.inputs import keep_workspaces
from launcher.errors import SchedulerError, StateError
from launcher.plan.step import Guard, Step
from launcher.schedulers.staged import Reservation
from launcher.specs.attempt import Attempt
from launcher.specs.binding import BoundLaunch
from launcher.specs.needs import StoodOn
from launcher.state.records import AppRecord
from launcher.state.store import Store


def submit(
    step: Step,
    *,
    provenance: Mapping[str, Any],
    engines: Engines,
    store: Store,
    events: Events,
    waits_for: Sequence[StoodOn] = (),
) -> Attempt:
    """Reserve, create, stop the old attempts, record, start. `record_start` records the state after that.

    The new attempt is created before the old ones are stopped: when creation fails, they are untouched.
    When a later stage fails, everything that this attempt made is removed.

    Args:
        provenance: the fields of the attempt that say where it comes from (actor, commit, plan …).
        waits_for: the attempts among the step's needs that have not succeeded yet.
    """
    assert step.bound is not None, "what a plan starts is bound before it is carried out"
    launch = step.bound.launch
    scheduler = engines.get(launch.scheduler)
    attempt = Attempt(
        key=step.key,
        number=step.number,
        app_id=step.app_id,
        scheduler=launch.scheduler,
        digest=step.digest,
        document=step.document,
        metadata=launch.app.metadata,
        origin=launch.origin,
        path=launch.file,
        action=step.kind,
        created_at=time(),
        trigger_digest=launch.trigger_digest,
        edition=step.edition,
        needs=step.needs,
        **provenance,
    )
    about = {"attempt": step.number, "app_id": step.app_id, "handle": attempt.handle}
    clear(step, engines)
    events.introduce(step.key, **about)
    events.emit("reserving", step.key, **about)
    reservation = scheduler.reserve(attempt)
    reservation.waits_for = tuple(waits_for)
    try:
        events.emit("reserved", step.key, **about)
        _create(step.bound, engines, reservation, events, about)
        for old in step.stops:
            stop(old, step, engines=engines, store=store, events=events)
        # Recorded before it runs, so that clients find it by name even when this process dies now.
        store.record(replace(attempt, state="created"))
        events.emit("starting", step.key, **about)
        scheduler.start(reservation)
    except BaseException:
        scheduler.abort(reservation)
        with suppress(SchedulerError):  # the engine cannot be asked; the error below says why
            left = scheduler.attempt(step.app_id)
            if left is None:
                store.forget(step.app_id)
            elif left.is_live:
                store.record(left)  # interrupted after the start had begun: the app keeps running
        raise
    keep_workspaces(step.bound)
    if waits_for:
        jobs = [each.job for each in waits_for]
        events.emit("attempt_waiting", step.key, **about, needs=jobs)
        return replace(attempt, state="waiting", message=f"waits for {', '.join(jobs)}")
    events.emit("started", step.key, **about)
    return replace(attempt, state="running", started_at=time())


def record_start(started: Attempt, *, store: Store, events: Events) -> tuple[str, ...]:
    """Record that it runs or waits; returns warnings when that fails, as it does so anyway."""
    about = {"attempt": started.number, "app_id": started.app_id, "handle": started.handle}
    try:
        store.record(started)
    except StateError as error:
        return (unrecorded("it waits" if started.state == "waiting" else "it runs", error),)
    events.emit("recorded", started.key, **about)
    return ()


def unrecorded(what: str, error: StateError) -> str:
    """The warning that the ledger could not record a fact of an app."""
    return f"{what}, and its row in the ledger is incomplete until a later command can write it: {error}"


def _create(
    bound: BoundLaunch, engines: Engines, reservation: Reservation, events: Events, about: Mapping[str, Any]
) -> None:
    """Build the workspace and create the checked app. The scheduler derives the request again from the same
    app and options, for the app id and the session of the reservation."""
    scheduler, app = engines.get(bound.launch.scheduler), bound.app
    workspace = engines.workspace(bound)
    if workspace is not None:
        app = scheduler.build_workspace(app, bound.cfg, workspace, app_id=reservation.app_id)
    events.emit("creating", reservation.attempt.key, **about)
    scheduler.create(reservation, app, bound.cfg)
    events.emit("created", reservation.attempt.key, **about)


def clear(step: Step, engines: Engines) -> None:
    """Remove unfinished submissions, except the one of the same number: reserving removes that."""
    for leftover in step.leftovers:
        if leftover.app_id != step.app_id:
            scheduler = engines.get(leftover.scheduler)
            if not scheduler.withdraw(leftover.app_id):
                scheduler.cancel(leftover.app_id)


def stop(old: Guard, step: Step, *, engines: Engines, store: Store, events: Events) -> None:
    """Stop a live attempt, wait until none of its processes is left, and record its outcome."""
    about = {"attempt": old.attempt, "app_id": old.app_id}
    events.introduce(step.key, **about)
    events.emit("stopping", step.key, **about)
    scheduler = engines.get(old.scheduler)
    scheduler.cancel(old.app_id)
    ended = scheduler.attempt(old.app_id)
    if ended is not None:
        store.record(ended)
    else:
        store.end(AppRecord(old.scheduler, "", old.app_id, state="cancelled", ended_at=time()))
    events.emit("stopped", step.key, **about)
