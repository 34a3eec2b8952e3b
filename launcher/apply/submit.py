"""Submit one launch to its scheduler, in stages that survive a kill; what is stopped and removed for it."""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from launcher import git, paths
from launcher.apply.dry_run import check_held
from launcher.apply.engines import Engines, record_end
from launcher.apply.events import EventName, Events
from launcher.ci_environment import run_url
from launcher.dataclass import dataclass, field, replace
from launcher.errors import LauncherError, SchedulerError, StaleError, StateError
from launcher.plan.effects import start_of
from launcher.plan.model import Plan
from launcher.plan.step import Guard, Step, in_order, keys_after
from launcher.schedulers.staged import Reservation
from launcher.specs.attempt import ENDED_STATES, HOLDER, Attempt, StoodOn
from launcher.specs.launch import InputRef, JobKey, Launch
from launcher.specs.notify import Destination
from launcher.state import outbox
from launcher.state.records import AppRecord
from launcher.state.store import Store

if TYPE_CHECKING:
    from launcher.apply.turns import Turn
    from launcher.workspace.inputs import InputReader


_FRESH_S = 0.5
"""How long jobs that start one after another share one look at their input files."""


class InputCheck:
    """Compares the input files of a job just before it starts, after images were pulled and turns awaited.

    Jobs that start within a moment share one reading of the files.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._reader: InputReader | None = None
        self._made_at = 0.0

    def check(self, ref: InputRef) -> None:
        """Raise StaleError, which names the files, when a file differs from the planned one."""
        from launcher.workspace.inputs import InputReader, changed_since

        with self._lock:
            if self._reader is None or monotonic() - self._made_at > _FRESH_S:
                self._reader, self._made_at = InputReader(), monotonic()
            changed = changed_since(ref, reader=self._reader)
        if changed:
            raise StaleError(f"its input files are not what was planned: {changed}", hint="apply again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The engines, the ledger and the reports of an apply, and its look at input files. Threads share it.

    Attributes:
        notify: receivers of the outcomes of all attempts, beside those that their projects name.
    """

    engines: Engines
    store: Store
    events: Events
    notify: Sequence[Destination] = ()
    inputs: InputCheck = field(default_factory=InputCheck)

    def clear(self, step: Step) -> None:
        """Remove unfinished submissions, except that of the same number, which the reservation removes."""
        for leftover in step.leftovers:
            if leftover.app_id != step.app_id:
                scheduler = self.engines.get(leftover.scheduler)
                if not scheduler.withdraw(leftover.app_id):
                    scheduler.cancel(leftover.app_id)

    def stop(self, old: Guard, step: Step) -> None:
        """Stop a live attempt, wait until none of its processes is left, and record its outcome."""
        about: dict[str, Any] = {"attempt": old.attempt, "app_id": old.app_id}
        self.events.introduce(step.key, **about)
        self.events.emit("stopping", step.key, **about)
        scheduler = self.engines.get(old.scheduler)
        scheduler.cancel(old.app_id)
        ended = scheduler.attempt(old.app_id)
        if ended is not None:
            self.store.record(ended)
        else:
            self.store.end(AppRecord(old.scheduler, "", old.app_id, state="cancelled", ended_at=time()))
        self.events.emit("stopped", step.key, **about)

    def pending(self, step: Step) -> tuple[StoodOn, ...]:
        """The attempts among the step's needs that have not succeeded yet.

        Raises SchedulerError for an attempt that the scheduler cannot wait for.
        """

        def has_succeeded(need: StoodOn) -> bool:
            entry = self.store.app(need.app_id)
            if entry is not None and entry.state == "succeeded":
                return True
            attempt = self.engines.get(need.scheduler).attempt(need.app_id)
            return attempt is not None and attempt.state == "succeeded"

        found = tuple(each for each in step.needs if not has_succeeded(each))
        if found:  # else the plan's check holds
            check_held(step, found, self.engines)
        return found

    def make_way(self, steps: Sequence[Step]) -> list[Step]:
        """Withdraw waiting attempts, and stop running ones whose needs are stopped, the last ones first.

        Returns the steps without the stops that are done. Raises StaleError when a waiting attempt has
        started, and the errors of schedulers.
        """
        touched = {step.key for step in steps if step.stops or step.withdraws}
        done: dict[JobKey, Step] = {}
        ordered = in_order(steps)
        for step in ordered:  # the stop of a need affects every step behind it
            if any(key in touched for key in keys_after(step)):
                touched.add(step.key)
        self._withdraw(reversed(ordered))
        for step in reversed(ordered):
            if step.starts and any(key in touched for key in keys_after(step)):
                for old in step.stops:
                    self.stop(old, step)
                done[step.key] = replace(step, stops=())
        return [done.get(step.key, step) if step.starts else step for step in steps]

    def _withdraw(self, steps: Iterable[Step]) -> None:
        """Carry out the withdrawals of the steps, in this order and together for each scheduler."""
        waiting = {old.app_id: (old, step) for step in steps for old in step.withdraws}
        for name in {old.scheduler: None for old, _ in waiting.values()}:
            scheduler = self.engines.get(name)
            ids = [old.app_id for old, _ in waiting.values() if old.scheduler == name]
            errors = []
            for app_id, withdrawn in scheduler.withdraw_all(ids):
                try:
                    if isinstance(withdrawn, LauncherError):
                        raise withdrawn
                    old, step = waiting[app_id]
                    found = scheduler.attempt(app_id)
                    if found is not None:
                        self.store.record(found)
                    if withdrawn:
                        about: dict[str, Any] = {"app_id": app_id, "attempt": old.attempt}
                        self.events.emit("attempt_skipped", step.key, **about, message="withdrawn")
                    elif found is not None and found.state != "skipped":
                        message = f"{step.key}: expected {old}, found {found.state}"
                        raise StaleError(message, hint="plan again")
                except LauncherError as error:
                    errors.append(error)
            if errors:
                raise errors[0]

    def record_starts(self, started: Sequence[Attempt]) -> Mapping[JobKey, tuple[str, ...]]:
        """Record the accepted attempts; returns warnings when that fails, since the attempts go on anyway."""
        try:
            self.store.record_all(started)
        except StateError as error:
            what = {"waiting": "it waits", "queued": "it is in line"}
            return {each.key: (unrecorded(what.get(each.state, "it runs"), error),) for each in started}
        for each in started:
            self.events.emit(
                "recorded", each.key, attempt=each.number, app_id=each.app_id, handle=each.handle
            )
        return {}

    def what_became(self, step: Step) -> str:
        """Describe the present states of a step's attempts at their engines."""
        words = []
        try:
            if step.launch is not None and step.starts:
                made = self.engines.get(step.launch.scheduler).attempt(step.app_id)
                words.append(_left(made, step.app_id, "was taken back"))
            for old in step.stops:
                words.append(
                    _left(self.engines.get(old.scheduler).attempt(old.app_id), old.app_id, "was stopped")
                )
        except LauncherError as error:
            words.append(f"cannot find out what is left: {error}")
        return "; ".join(words)


class Submission:
    """One step on its way from the plan to an accepted attempt.

    Args:
        provenance: the fields of the attempt that name its origin (actor, commit, plan …).
    """

    def __init__(self, step: Step, provenance: Mapping[str, Any], at: Workplace) -> None:
        assert step.bound is not None, "what a plan starts is bound before it is carried out"
        self.step, self.bound = step, step.bound
        self._at = at
        self._receivers = (*step.bound.launch.notify, *at.notify)
        self.scheduler = at.engines.get(step.bound.launch.scheduler)
        attempt = _attempt(step, step.bound.launch, provenance)
        output = self.scheduler.output_folders.address(attempt, step.bound.launch.app)
        self.attempt = replace(attempt, output=output)
        self._about: dict[str, Any] = {
            "attempt": step.number,
            "app_id": step.app_id,
            "handle": self.attempt.handle,
        }

    def submit(self, waits_for: Sequence[StoodOn] = (), turn: Turn | None = None) -> Attempt:
        """Reserve, create, stop the old attempts, record, start. Then `Workplace.record_starts` records it.

        The new attempt is created before the old ones are stopped: when creation fails, they are untouched.
        When a later stage fails, everything that this attempt made is removed.

        Args:
            waits_for: the attempts among the step's needs that have not succeeded yet.
        """
        self.announce()
        reservation = self.scheduler.reserve(self.attempt)
        reservation.waits_for = tuple(waits_for)
        if turn is not None:
            reservation.turn, reservation.follow = turn.ask, turn.follow
        try:
            self.took(reservation)
            self._create(reservation)
            self.make_way(reservation)
            if turn is not None:
                turn.follow()
            # Recorded before it runs, so that clients find it by name even when this process dies now.
            self._at.store.record(replace(self.attempt, state="created"))
            self.note_receivers()
            self.emit("starting")
            self.scheduler.start(reservation)
        except BaseException:
            self._take_back(reservation)
            raise
        return self.accepted(reservation)

    @property
    def key(self) -> JobKey:
        return self.step.key

    @property
    def app_id(self) -> str:
        return self.attempt.app_id

    @property
    def planned_needs(self) -> tuple[StoodOn, ...]:
        """The attempts among its needs that had not succeeded when the plan was made.

        Raises SchedulerError for an attempt that the scheduler cannot wait for.
        """
        found = tuple(each for each in self.step.needs if each.job in self.step.after)
        check_held(self.step, found, self._at.engines)
        return found

    @property
    def planned_request(self) -> Any:
        """The request of the dry run; None without one."""
        return self.bound.info.request if self.bound.info is not None else None

    def announce(self) -> None:
        """Clear the way for the reservation, and record the end of the attempt before."""
        self._at.clear(self.step)
        guard = self.step.guard
        entry = self._at.store.attempt(guard.app_id) if guard.state in ENDED_STATES else None
        if entry is not None and entry.is_live:  # it has ended since this apply recorded all ends
            record_end(self._at.store, self._at.engines, entry)
        self._at.events.introduce(self.step.key, **self._about)
        self.emit("reserving")

    def took(self, reservation: Reservation) -> None:
        reservation.inputs = _input_ref(self.step, self.bound.launch)
        self.emit("reserved")

    def make_way(self, reservation: Reservation) -> None:
        """Check the input files, and stop the attempts that the created one replaces."""
        if reservation.inputs is not None:
            self._at.inputs.check(reservation.inputs)
        self._keep_files()
        for old in self.step.stops:
            self._at.stop(old, self.step)

    def _keep_files(self) -> None:
        """Store the lists of input files and of the workspace, which name the changed files later."""
        if self.bound.launch.inputs_digest:
            from launcher.workspace import inputs

            inputs.keep(self.bound.launch.inputs_digest)
        if self.bound.workspace is None:
            return
        from launcher.workspace.manifest import keep

        for part in self.bound.workspace.parts:
            keep(part.digest)

    def note_receivers(self) -> None:
        """Note the receivers of the outcome; without any, remove the note of a client that was killed.

        A client that finishes the submission later does so again.
        """
        if self._receivers or os.path.isdir(paths.outbox()):
            outbox.add(self.app_id, self._receivers, self.bound.launch.root)

    def _create(self, reservation: Reservation) -> None:
        """Build the workspace and create the checked app, by the request of the dry run if there was one."""
        scheduler, bound, app = self.scheduler, self.bound, self.bound.app
        workspace = self._at.engines.workspace(bound)
        if workspace is None:
            reservation.request = self.planned_request
        else:
            app = scheduler.build_workspace(app, bound.cfg, workspace, app_id=reservation.app_id)
        self.emit("creating")
        scheduler.create(reservation, app, bound.cfg)
        self.emit("created")

    def _take_back(self, reservation: Reservation) -> None:
        self.scheduler.abort(reservation)
        with suppress(SchedulerError):  # the engine cannot be asked; the error of the submission says why
            left = self.scheduler.attempt(self.step.app_id)
            if left is None:
                self._at.store.forget(self.step.app_id)
                outbox.remove(self.app_id)
            elif left.is_live:
                self._at.store.record(left)  # interrupted after the start had begun: the app keeps running

    def accepted(self, reservation: Reservation) -> Attempt:
        """The attempt in the state that its scheduler accepted it in."""
        if reservation.waits_for:
            jobs = [each.job for each in reservation.waits_for]
            self.emit("attempt_waiting", needs=jobs)
            waits = f"waits for {', '.join(jobs)}"
            return replace(self.attempt, state="waiting", owner=HOLDER, message=waits)
        if reservation.accepted == "queued":
            ask = reservation.turn
            share = {} if ask is None else {"cpu": ask.cpu, "memory_mb": ask.memory_mb, "gpus": ask.gpus}
            self.emit("attempt_queued", message=reservation.queued_for, **share)
            return replace(self.attempt, state="queued", owner=HOLDER, message=reservation.queued_for)
        self.emit("started")
        return replace(self.attempt, state="running", started_at=time())

    def emit(self, name: EventName, **facts: Any) -> None:
        self._at.events.emit(name, self.step.key, **self._about, **facts)


def _input_ref(step: Step, launch: Launch) -> InputRef | None:
    """The input files of the attempt. A half-started attempt keeps the files of its first replicas."""
    ref = launch.input_ref if launch.inputs_digest else None
    resumed = step.latest if step.kind == "resume" else None
    if ref is None or resumed is None or resumed.app_id != step.app_id or not resumed.inputs:
        return ref
    return ref._replace(digest=resumed.inputs)


_LONGEST_REASON = 300  # labels of engines hold it


def _attempt(step: Step, launch: Launch, provenance: Mapping[str, Any]) -> Attempt:
    order_only = {need.job for need in launch.needs if not need.rerun}
    start = start_of(launch, step.digest)
    return Attempt(
        key=step.key,
        number=step.number,
        app_id=step.app_id,
        scheduler=launch.scheduler,
        digest=step.digest,
        document=dict(step.document),
        metadata=launch.app.metadata,
        origin=launch.origin,
        path=launch.file,
        matrix=launch.matrix,
        action=step.kind,
        # A resumed attempt keeps the reason of the plan that began it.
        reason=(step.kind == "resume" and step.latest and step.latest.reason)
        or step.why_in_brief[:_LONGEST_REASON],
        created_at=time(),
        trigger_digest=launch.trigger_digest,
        inputs=ref.digest if (ref := _input_ref(step, launch)) is not None else "",
        edition=step.edition,
        needs=step.needs,
        order_only=tuple(each.job for each in step.needs if each.job in order_only),
        effect=start.digest,
        review=start.review,
        receivers="\n".join(start.notify),
        approval=step.approval or str(provenance["plan_id"]),
        pull_request=step.pull_request,
        **provenance,
    )


def provenance(plan: Plan, steps: Sequence[Step]) -> Mapping[str, Mapping[str, Any]]:
    """Origin → the provenance fields of new attempts."""
    roots = {step.launch.origin: step.launch.root for step in steps if step.starts and step.launch}
    if not roots:
        return {}
    about = {
        "actor": paths.actor(),
        "plan_digest": plan.plan_digest,
        "plan_id": plan.plan_id,
        "home": paths.make_token(),
        "run_url": run_url(os.environ),
    }
    return {origin: {**about, "commit": git.commit_of(root)} for origin, root in roots.items()}


def unrecorded(what: str, error: StateError) -> str:
    """The warning that the ledger could not record a fact of an app."""
    return f"{what}, and its row in the ledger is incomplete until a later command can write it: {error}"


def _left(attempt: Attempt | None, app_id: str, gone: str) -> str:
    if attempt is None:
        return f"{app_id} {gone}"
    if attempt.is_live:
        return f"{app_id} goes on (`launcher cancel {app_id}` stops it)"
    return f"{app_id} has ended: {attempt.state}"
