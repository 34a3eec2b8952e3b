"""Submit one launch to its scheduler, in stages that survive a kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import time
from typing import TYPE_CHECKING, Any

from launcher.apply.engines import Engines
from launcher.apply.events import EventName, Events
from launcher.apply.inputs import InputCheck, keep_files
from launcher.errors import SchedulerError, StateError
from launcher.plan.step import Guard, Step
from launcher.schedulers.staged import Reservation
from launcher.specs.attempt import Attempt
from launcher.specs.launch import InputRef, Launch
from launcher.specs.needs import StoodOn
from launcher.state.records import AppRecord
from launcher.state.store import Store

if TYPE_CHECKING:
    from launcher.apply.turns import Turn


class Submission:
    """One step on its way from the plan to an accepted attempt.

    Args:
        provenance: the fields of the attempt that say where it comes from (actor, commit, plan …).
    """

    def __init__(
        self,
        step: Step,
        provenance: Mapping[str, Any],
        *,
        engines: Engines,
        store: Store,
        events: Events,
        inputs: InputCheck,
    ) -> None:
        assert step.bound is not None, "what a plan starts is bound before it is carried out"
        self._step, self._bound = step, step.bound
        self._engines, self._store, self._events = engines, store, events
        self._inputs = inputs
        self._scheduler = engines.get(step.bound.launch.scheduler)
        attempt = _attempt(step, step.bound.launch, provenance)
        self._attempt = replace(attempt, output=self._scheduler.output_of(attempt, step.bound.launch.app))
        self._about: dict[str, Any] = {
            "attempt": step.number,
            "app_id": step.app_id,
            "handle": self._attempt.handle,
        }

    def submit(self, waits_for: Sequence[StoodOn] = (), turn: Turn | None = None) -> Attempt:
        """Reserve, create, stop the old attempts, record, start. `record_start` records the state after that.

        The new attempt is created before the old ones are stopped: when creation fails, they are untouched.
        When a later stage fails, everything that this attempt made is removed.

        Args:
            waits_for: the attempts among the step's needs that have not succeeded yet.
        """
        clear(self._step, self._engines)
        self._events.introduce(self._step.key, **self._about)
        self._emit("reserving")
        reservation = self._scheduler.reserve(self._attempt)
        reservation.waits_for = tuple(waits_for)
        reservation.inputs = _input_ref(self._step, self._bound.launch)
        if turn is not None:
            reservation.turn, reservation.follow = turn.ask, turn.follow
        try:
            self._emit("reserved")
            self._create(reservation)
            if reservation.inputs is not None:
                self._inputs.check(reservation.inputs)
            keep_files(self._bound)  # before it starts: its holder names the files that changed
            for old in self._step.stops:
                stop(old, self._step, engines=self._engines, store=self._store, events=self._events)
            if turn is not None:
                turn.follow()
            # Recorded before it runs, so that clients find it by name even when this process dies now.
            self._store.record(replace(self._attempt, state="created"))
            self._emit("starting")
            self._scheduler.start(reservation)
        except BaseException:
            self._take_back(reservation)
            raise
        return self._accepted(reservation)

    def _create(self, reservation: Reservation) -> None:
        """Build the workspace and create the checked app. The scheduler derives the request again from the
        same app and options, for the app id and the session of the reservation."""
        scheduler, bound, app = self._scheduler, self._bound, self._bound.app
        workspace = self._engines.workspace(bound)
        if workspace is not None:
            app = scheduler.build_workspace(app, bound.cfg, workspace, app_id=reservation.app_id)
        self._emit("creating")
        scheduler.create(reservation, app, bound.cfg)
        self._emit("created")

    def _take_back(self, reservation: Reservation) -> None:
        self._scheduler.abort(reservation)
        with suppress(SchedulerError):  # the engine cannot be asked; the error of the submission says why
            left = self._scheduler.attempt(self._step.app_id)
            if left is None:
                self._store.forget(self._step.app_id)
            elif left.is_live:
                self._store.record(left)  # interrupted after the start had begun: the app keeps running

    def _accepted(self, reservation: Reservation) -> Attempt:
        """The attempt in the state that its scheduler accepted it in."""
        if reservation.waits_for:
            jobs = [each.job for each in reservation.waits_for]
            self._emit("attempt_waiting", needs=jobs)
            return replace(self._attempt, state="waiting", message=f"waits for {', '.join(jobs)}")
        if reservation.accepted == "queued":
            ask = reservation.turn
            share = {} if ask is None else {"cpu": ask.cpu, "memory_mb": ask.memory_mb, "gpus": ask.gpus}
            self._emit("attempt_queued", message=reservation.queued_for, **share)
            return replace(self._attempt, state="queued", message=reservation.queued_for)
        self._emit("started")
        return replace(self._attempt, state="running", started_at=time())

    def _emit(self, name: EventName, **facts: Any) -> None:
        self._events.emit(name, self._step.key, **self._about, **facts)


def _input_ref(step: Step, launch: Launch) -> InputRef | None:
    """The input files of the attempt. A half-started one keeps those that its first replicas ran with."""
    ref = launch.input_ref
    resumed = step.latest if step.kind == "resume" else None
    if ref is None or resumed is None or resumed.app_id != step.app_id or not resumed.inputs:
        return ref
    return ref._replace(digest=resumed.inputs)


def _attempt(step: Step, launch: Launch, provenance: Mapping[str, Any]) -> Attempt:
    order_only = {need.job for need in launch.needs if not need.rerun}
    return Attempt(
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
        inputs=ref.digest if (ref := _input_ref(step, launch)) is not None else "",
        edition=step.edition,
        needs=step.needs,
        order_only=tuple(each.job for each in step.needs if each.job in order_only),
        **provenance,
    )


def record_start(started: Attempt, *, store: Store, events: Events) -> tuple[str, ...]:
    """Record that it runs, waits or is in line; returns warnings when that fails, as it does so anyway."""
    about: dict[str, Any] = {"attempt": started.number, "app_id": started.app_id, "handle": started.handle}
    try:
        store.record(started)
    except StateError as error:
        what = {"waiting": "it waits", "queued": "it is in line"}.get(started.state, "it runs")
        return (unrecorded(what, error),)
    events.emit("recorded", started.key, **about)
    return ()


def unrecorded(what: str, error: StateError) -> str:
    """The warning that the ledger could not record a fact of an app."""
    return f"{what}, and its row in the ledger is incomplete until a later command can write it: {error}"


def clear(step: Step, engines: Engines) -> None:
    """Remove unfinished submissions, except the one of the same number: reserving removes that."""
    for leftover in step.leftovers:
        if leftover.app_id != step.app_id:
            scheduler = engines.get(leftover.scheduler)
            if not scheduler.withdraw(leftover.app_id):
                scheduler.cancel(leftover.app_id)


def stop(old: Guard, step: Step, *, engines: Engines, store: Store, events: Events) -> None:
    """Stop a live attempt, wait until none of its processes is left, and record its outcome."""
    about: dict[str, Any] = {"attempt": old.attempt, "app_id": old.app_id}
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
