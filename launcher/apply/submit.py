"""Submit launches to their scheduler, in stages that survive a kill; stop and remove attempts for them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from launcher import git, paths
from launcher.apply.approval import InputCheck
from launcher.apply.dry_run import check_held
from launcher.apply.engines import Engines, record_end
from launcher.apply.events import EventName, Events
from launcher.ci_environment import run_url
from launcher.dataclass import dataclass, field, replace
from launcher.errors import LauncherError, SchedulerError, StateError
from launcher.plan.effects import start_of
from launcher.plan.model import Plan
from launcher.plan.step import Guard, Step
from launcher.schedulers.many import in_threads
from launcher.schedulers.staged import Member, Reservation, StagedScheduler
from launcher.specs.attempt import ENDED_STATES, HOLDER, Attempt, StoodOn
from launcher.specs.launch import InputRef, JobKey, Launch
from launcher.specs.notify import Destination
from launcher.state import outbox
from launcher.state.records import AppRecord
from launcher.state.store import Store

if TYPE_CHECKING:
    from launcher.apply.turns import Turn
    from launcher.schedulers.staged import Batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The engines, the ledger, the reports and the check of input files of an apply. Threads share it.

    Attributes:
        notify: receivers of the outcomes of all attempts, beside those that their projects name.
    """

    engines: Engines
    store: Store
    events: Events
    notify: Sequence[Destination] = ()
    inputs: InputCheck = field(default_factory=InputCheck)

    def clear(self, step: Step) -> None:
        """Remove unfinished submissions. The reservation removes one of its own number by itself."""
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

    def has_succeeded(self, need: StoodOn) -> bool:
        """Return whether an attempt has succeeded, by the ledger or by its engine."""
        entry = self.store.app(need.app_id)
        if entry is not None and entry.state == "succeeded":
            return True
        attempt = self.engines.get(need.scheduler).attempt(need.app_id)
        return attempt is not None and attempt.state == "succeeded"


class Submission:
    """One step on its way from the plan to an accepted attempt.

    Args:
        attempt: the attempt to make, without the address of its output folder.
        turn: the turn of its app; None for an app that takes none.
    """

    reservation: Reservation  # once the app id is taken

    def __init__(self, step: Step, attempt: Attempt, at: Workplace, turn: Turn | None = None) -> None:
        assert step.bound is not None, "what a plan starts is bound before it is carried out"
        self.step, self.bound = step, step.bound
        self._at, self.turn = at, turn
        self._waits_for: tuple[StoodOn, ...] = ()
        self._receivers = (*step.bound.launch.notify, *at.notify)
        self.scheduler = at.engines.get(step.bound.launch.scheduler)
        output = self.scheduler.output_folders.address(attempt, step.bound.launch.app)
        self.attempt = replace(attempt, output=output)
        self._about: dict[str, Any] = {
            "attempt": step.number,
            "app_id": step.app_id,
            "handle": self.attempt.handle,
        }

    @property
    def key(self) -> JobKey:
        return self.step.key

    @property
    def app_id(self) -> str:
        return self.attempt.app_id

    def announce(self, *, as_planned: bool) -> None:
        """Clear the way for the reservation, and record the end of the attempt before.

        It waits for the attempts among its needs that have not succeeded, now or, `as_planned`, in the plan.
        Raises SchedulerError for an attempt that the scheduler cannot wait for.
        """
        needs, after = self.step.needs, self.step.after
        self._waits_for = tuple(
            each for each in needs if (each.job in after if as_planned else not self._at.has_succeeded(each))
        )
        if self._waits_for:  # otherwise the check of the plan is valid
            check_held(self.step, self._waits_for, self._at.engines)
        self._at.clear(self.step)
        guard = self.step.guard
        entry = self._at.store.attempt(guard.app_id) if guard.state in ENDED_STATES else None
        if entry is not None and entry.is_live:  # it has ended after this apply recorded all ends
            record_end(self._at.store, self._at.engines, entry)
        self._at.events.introduce(self.step.key, **self._about)
        self.emit("reserving")

    def took(self) -> None:
        """Note in the reservation which step it serves."""
        reservation = self.reservation
        reservation.waits_for = self._waits_for
        if self.turn is not None:
            reservation.turn, reservation.follow = self.turn.ask, self.turn.follow
        reservation.inputs = _input_ref(self.step, self.bound.launch)
        if self.bound.runs_in_place:
            reservation.workspace = self.bound.workspace
        self.emit("reserved")

    def keep_files(self) -> None:
        """Check the input files, and store the lists of them and of the workspace, which name the changed
        files later. Raises StaleError."""
        if self.reservation.inputs is not None:
            self._at.inputs.check(self.reservation.inputs)
        if self.bound.launch.inputs_digest:
            from launcher.workspace import inputs

            inputs.keep(self.bound.launch.inputs_digest)
        if self.bound.workspace is None:
            return
        from launcher.workspace.manifest import keep

        for part in self.bound.workspace.parts:
            keep(part.digest)

    def stop_old(self) -> None:
        """Stop the attempts that the created one replaces, and containers that a user has started again."""
        for old in self.step.stops:
            self._at.stop(old, self.step)
        for last in self.step.drifted:
            self._at.engines.get(last.scheduler).cancel(last.app_id)

    def note_receivers(self) -> None:
        """Note the receivers of the outcome; without receivers, remove the note that a killed client left.

        A client that finishes the submission later writes the note again.
        """
        if self._receivers or os.path.isdir(paths.outbox()):
            outbox.add(self.app_id, self._receivers, self.bound.launch.root)

    def accepted(self) -> Attempt:
        """Return the attempt in the state in which its scheduler accepted it."""
        reservation = self.reservation
        if self._waits_for:
            jobs = [each.job for each in self._waits_for]
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
    """Return the reference of the attempt's input files. A half-started attempt keeps its first one."""
    ref = launch.input_ref if launch.inputs_digest else None
    resumed = step.latest if step.kind == "resume" else None
    if ref is None or resumed is None or resumed.app_id != step.app_id or not resumed.inputs:
        return ref
    return ref._replace(digest=resumed.inputs)


_LONGEST_REASON = 300  # labels of engines hold the reason


def attempt_of(step: Step, launch: Launch, provenance: Mapping[str, Any]) -> Attempt:
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
    """Return origin → the provenance fields of new attempts."""
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


# -- the order of writes ---------------------------------------------------------------------------------


class Accepted(NamedTuple):
    """An attempt in the state in which its scheduler accepted it, and why the ledger may lack that state."""

    attempt: Attempt
    warnings: tuple[str, ...]


def submit(
    submissions: Sequence[Submission],
    at: Workplace,
    batches: Batches | None = None,
    at_once: int | None = None,
) -> dict[JobKey, Accepted | LauncherError]:
    """Reserve, create, stop the old attempts, record, start, record the start.

    The new attempts are created before the old ones are stopped: when creation fails, they are untouched.
    When a later stage fails, everything that the attempt made is removed.

    Args:
        batches: carries out each stage for all jobs, which are alike, at once; None for a single job.
        at_once: how many of them may run at once; None for any number.

    Returns for each job its accepted attempt, or its error, which affects no other job unless the scheduler
    refuses all of them.
    """
    order = _Order(submissions, at, batches)
    try:
        order.run(at_once)
    except BaseException as error:
        order.take_back(order.open)
        if not isinstance(error, LauncherError):
            raise
        order.results |= {each.key: error for each in submissions if each.key not in order.results}
    return order.results


class _OneByOne:
    """The stages of `Batches` for single jobs. Their errors are raised."""

    def __init__(self, scheduler: StagedScheduler[Any]) -> None:
        self._scheduler = scheduler

    def reserve(self, attempts: Sequence[Attempt]) -> Sequence[Reservation]:
        return [self._scheduler.reserve(each) for each in attempts]

    def create(self, members: Sequence[Member], at_once: int | None) -> list[None]:
        return [self._scheduler.create(each.reservation, each.app, each.cfg) for each in members]

    def start(self, reservations: Sequence[Reservation]) -> list[None]:
        return [self._scheduler.start(each) for each in reservations]

    def abort(self, reservations: Sequence[Reservation]) -> None:
        for each in reservations:
            self._scheduler.abort(each)


class _Order:
    """Submissions to a scheduler on their way.

    Attributes:
        open: the submissions with a reservation and without a result, by app id.
    """

    def __init__(self, submissions: Sequence[Submission], at: Workplace, batches: Batches | None) -> None:
        self._submissions, self._at = submissions, at
        self._scheduler = submissions[0].scheduler
        self._are_alike = batches is not None
        self._stages = batches or _OneByOne(self._scheduler)
        self.open: dict[str, Submission] = {}
        self.results: dict[JobKey, Accepted | LauncherError] = {}

    def run(self, at_once: int | None) -> None:
        self._reserve()
        if self.open:
            self._create(at_once)
        if self.open:
            self._make_way()
        if self.open:
            self._record()
            self._start()

    def _reserve(self) -> None:
        for each in self._submissions:
            try:
                each.announce(as_planned=self._are_alike)
            except LauncherError as error:
                self.results[each.key] = error
        wanted = [each for each in self._submissions if each.key not in self.results]
        found = self._stages.reserve([each.attempt for each in wanted]) if wanted else []
        for each, answer in zip(wanted, found, strict=True):
            if isinstance(answer, LauncherError):
                self.results[each.key] = answer
            else:
                each.reservation, self.open[each.app_id] = answer, each
                each.took()

    def _create(self, at_once: int | None) -> None:
        """Create the apps: from the requests of a dry run if there are any, else from the built workspace."""
        members = []
        for app_id, each in self.open.items():
            made, bound, app = each.reservation, each.bound, each.bound.app
            workspace = self._at.engines.workspace(bound)
            if workspace is None or self._are_alike:
                made.request = bound.info.request if bound.info is not None else None
            else:
                app = self._scheduler.build_workspace(app, bound.cfg, workspace, app_id=app_id)
            members.append(Member(made, app, bound.cfg, workspace))
            each.emit("creating")
        errors = self._stages.create(members, at_once)
        for each in self.open.values():
            each.emit("created")
        self._drop(errors)

    def _make_way(self) -> None:
        """Check the jobs before they start, and stop the attempts that they replace, several at once."""
        refusals: dict[str, LauncherError | None] = {}
        for app_id, each in self.open.items():
            try:
                each.keep_files()
            except LauncherError as error:
                refusals[app_id] = error
        self._drop([refusals.get(app_id) for app_id in self.open])
        stopping = [app_id for app_id, each in self.open.items() if each.step.stops or each.step.drifted]
        if stopping:
            errors = dict(in_threads(lambda app_id: self.open[app_id].stop_old(), stopping))
            self._drop([errors.get(app_id) for app_id in self.open])
        for each in self.open.values():
            if each.turn is not None:
                each.turn.follow()

    def _record(self) -> None:
        """Record the attempts before they run: clients find them by name even if this process dies now."""
        self._at.store.record_all([replace(each.attempt, state="created") for each in self.open.values()])
        for each in self.open.values():
            each.note_receivers()

    def _start(self) -> None:
        for each in self.open.values():
            each.emit("starting")
        self._drop(self._stages.start([each.reservation for each in self.open.values()]))
        started = {each: each.accepted() for each in self.open.values()}
        self.open.clear()
        warnings = self._record_starts(started)
        self.results |= {each.key: Accepted(made, warnings.get(each, ())) for each, made in started.items()}

    def _record_starts(self, started: Mapping[Submission, Attempt]) -> Mapping[Submission, tuple[str, ...]]:
        """Record the accepted attempts. A failure becomes a warning, since the attempts go on anyway."""
        try:
            self._at.store.record_all(started.values())
        except StateError as error:
            what = {"waiting": "it waits", "queued": "it is in line"}
            return {
                each: (unrecorded(what.get(made.state, "it runs"), error),) for each, made in started.items()
            }
        for each in started:
            each.emit("recorded")
        return {}

    def _drop(self, errors: Sequence[LauncherError | None]) -> None:
        """Take back the open jobs whose entry in `errors` is not None. The other jobs go on."""
        failed = {app_id: error for app_id, error in zip(self.open, errors, strict=True) if error}
        self.take_back({app_id: self.open[app_id] for app_id in failed})
        for app_id, error in failed.items():
            self.results[self.open.pop(app_id).key] = error

    def take_back(self, submissions: Mapping[str, Submission]) -> None:
        """Remove the remains of some jobs from the engine and from the store."""
        if not submissions:
            return
        self._stages.abort([each.reservation for each in submissions.values()])
        with suppress(SchedulerError):  # the engine cannot be asked; the error of the submission says why
            found = self._left(submissions)
            for app_id in submissions:
                if app_id not in found:
                    self._at.store.forget(app_id)
                    outbox.remove(app_id)
                elif found[app_id].is_live:
                    self._at.store.record(found[app_id])  # the start had begun, so the attempt keeps running

    def _left(self, submissions: Mapping[str, Submission]) -> Mapping[str, Attempt]:
        """Return app id → the attempt that the engine still has of a submission that was taken back."""
        keys = [each.key for each in submissions.values()]
        found = (
            self._scheduler.observe(keys) if self._are_alike else map(self._scheduler.attempt, submissions)
        )
        return {each.app_id: each for each in found if each is not None}


def unrecorded(what: str, error: StateError) -> str:
    """The warning that the ledger could not record a fact of an app."""
    return f"{what}, and its row in the ledger is incomplete until a later command can write it: {error}"
