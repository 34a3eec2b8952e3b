"""Carry out the steps of a plan, without further decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from launcher.apply.engines import Engines, catch_up
from launcher.apply.events import Events, Outcome
from launcher.apply.observe import CheckoutFiles
from launcher.apply.submit import Submission, Workplace, attempt_of, provenance, submit, unrecorded
from launcher.dataclass import replace
from launcher.errors import LauncherError, ReservedError, StaleError, StateError
from launcher.plan.model import Plan
from launcher.plan.step import Step, in_order, keys_after
from launcher.specs.attempt import ENDED_STATES, WAITING_STATES, Attempt
from launcher.specs.inputs import adopted
from launcher.specs.launch import JobKey

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from launcher.apply.batches import Batch
    from launcher.apply.turns import Turn, Turns
    from launcher.turns.line import Limit

WORKERS, WORKERS_OF_LINE = 8, 3
"""How many jobs are submitted at the same time: jobs of any kind, and jobs that all go in line."""
_Result = Callable[[], Outcome]
"""Waits for the submission of a job."""


def execute(
    steps: Sequence[Step], *, plan: Plan, at: Workplace, limits: Sequence[Limit] = ()
) -> tuple[Outcome, ...]:
    """Carry out the steps; returns their outcomes in order. A failed job holds back only jobs that need it.

    A job is submitted once every job that it waits for has been accepted. On an interrupt it finishes the
    steps that other threads have begun, and emits an event for every step with effects before it raises the
    interrupt.

    Args:
        plan: recorded as the origin of new attempts; `steps` may be a part of it. limits: of the whole plan.
    """
    turns, asking = None, [step.launch for step in steps if step.launch is not None and step.starts]
    if asking and (limits or any(launch.asks for launch in asking)):
        from launcher.apply.turns import Turns  # most jobs ask for nothing and need no such import

        turns = Turns(steps, at.engines, limits)
    ready, refused = _make_way(steps, at)
    execution = _Execution(turns, provenance(plan, steps), at, refused)
    batches: Sequence[Batch] = ()
    matrices = [
        step.launch for step in ready if step.starts and step.launch is not None and step.launch.matrix
    ]
    if any(at.engines.get(each.scheduler).batches for each in matrices):
        from launcher.apply.batches import batches_of

        batches = batches_of(ready, plan, at.engines, limits)
    return execution.run(ready, batches)


class _Execution:
    """Carries out steps, several at once, and knows the begun steps and the outcomes."""

    def __init__(
        self,
        turns: Turns | None,
        origins: Mapping[str, Mapping[str, Any]],
        at: Workplace,
        refused: Mapping[JobKey, LauncherError],
    ) -> None:
        self._turns = turns
        self._origins = origins
        self._at = at
        self._refused = refused
        self._files = CheckoutFiles(at.engines)
        self._is_interrupted = False
        self._begun: set[JobKey] = set()
        self._done: dict[JobKey, Outcome] = {}

    def run(self, steps: Sequence[Step], batches: Sequence[Batch] = ()) -> tuple[Outcome, ...]:
        """Return the outcomes of the steps, in their order."""
        busy = [step for step in steps if step.has_effects]
        try:
            if len(busy) <= 1:
                return tuple(map(self._carry_out, steps))
            return self._carry_out_at_once(steps, busy, batches)
        except BaseException as error:
            if not isinstance(error, Exception):
                self._report_interrupt(busy)
            raise

    def _carry_out_at_once(
        self, steps: Sequence[Step], busy: Sequence[Step], batches: Sequence[Batch]
    ) -> tuple[Outcome, ...]:
        """Submit the steps in the order of their turns, each behind its needs."""
        for step in busy:  # only one thread makes schedulers
            if step.launch is not None:
                self._at.engines.get(step.launch.scheduler)
            for need in step.needs:
                self._at.engines.get(need.scheduler)
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(max_workers=self._at_once(busy)) as pool:
            order = self._turns.order(steps) if self._turns is not None else in_order(steps)
            made = self._begin(order, batches, pool)
            try:
                return tuple(made[id(step)]() for step in steps)
            except BaseException:
                self._is_interrupted = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _at_once(self, busy: Sequence[Step]) -> int:
        """Return the number of threads. A line holder accepts jobs so fast that more threads only contend."""
        turns = self._turns
        is_line = turns is not None and all(
            step.launch is not None
            and not (step.stops or self._at.engines.get(step.launch.scheduler).shared_engine)
            and turns.of(step) is not None
            for step in busy
        )
        return min(WORKERS_OF_LINE if is_line else WORKERS, len(busy))

    def _begin(
        self, order: Iterable[Step], batches: Sequence[Batch], pool: ThreadPoolExecutor
    ) -> dict[int, _Result]:
        """Begin the steps in a pool of threads; returns id of each step → its result.

        In this order, a thread waits only for steps that were begun before. A batch begins with its first
        step, since its others wait for the same jobs, or for jobs of the batch.
        """
        of_job: dict[JobKey, _Result] = {}
        made: dict[int, _Result] = {}
        batch_of = {id(step): batch for batch in batches for step in batch.steps}

        def needed(step: Step) -> list[_Result]:
            return [of_job[key] for key in keys_after(step) if key in of_job]

        for step in order:
            if id(step) in made:
                continue
            if batch := batch_of.get(id(step)):
                results = pool.submit(self._carry_out_batch, batch, [*map(needed, batch.steps)]).result
                made |= {id(each): partial(_of, each.key, results) for each in batch.steps}
                of_job |= {each.key: made[id(each)] for each in batch.steps}
                continue
            made[id(step)] = pool.submit(self._carry_out, step, needed(step)).result
            if step.launch is not None:
                of_job[step.key] = made[id(step)]
        return made

    def _outcomes(self, needed: Sequence[_Result]) -> list[Outcome]:
        """Wait for the submission of jobs. Raises CancelledError after an interrupt."""
        found = [result() for result in needed]
        if needed and self._is_interrupted:
            from concurrent.futures import CancelledError

            raise CancelledError
        return found

    def _carry_out(self, step: Step, needed: Sequence[_Result] = ()) -> Outcome:
        """Carry out a step behind those that it needs; its outcome may be an error of its job."""
        turn = self._turns.of(step) if self._turns is not None else None
        try:
            if hindered := self._hindered(step, needed):
                return hindered
            self._begun.add(step.key)
            try:
                if step.starts:
                    made = self._start({step.key: step}, turn=turn)[step.key]
                elif step.kind == "destroy":
                    for old in step.stops:
                        self._at.stop(old, step)
                    made = _outcome(step, self._at.store.latest([step.key]).get(step.key))
                else:
                    made = self._keep(step)
            except LauncherError as error:
                made = self._failed(step, error)
            self._done[step.key] = made
            return made
        finally:
            if turn is not None:
                turn.settled.set()

    def _hindered(self, step: Step, needed: Sequence[_Result]) -> Outcome | None:
        """Return the outcome of a step that may not begin; None when it may.

        Its waiting attempt could not be withdrawn, or its needs could not be submitted.
        """
        if outcome := _without(step, self._outcomes(needed), self._at.events):
            return outcome
        return self._failed(step, self._refused[step.key]) if step.key in self._refused else None

    def _failed(self, step: Step, error: LauncherError) -> Outcome:
        overtaken = isinstance(error, ReservedError)
        if isinstance(error, ReservedError):
            self._at.events.emit("waiting", step.key, owner=error.owner or error.app_id)
        else:
            self._at.events.emit("failed", step.key, message=str(error), hint=error.hint)
        about: dict[str, Any] = {"error": str(error), "code": error.code, "hint": error.hint or ""}
        return Outcome(key=step.key, kind=step.kind, overtaken=overtaken, **about)

    def _carry_out_batch(self, batch: Batch, needed: Sequence[Sequence[_Result]]) -> dict[JobKey, Outcome]:
        """Submit jobs at once, behind those that each of them needs, and return their outcomes."""
        hindered: dict[JobKey, Outcome] = {}
        of_key = {step.key: step for step in batch.steps}
        for step, results in zip(batch.steps, needed, strict=True):
            if outcome := self._hindered(step, results):
                hindered[step.key] = outcome
                del of_key[step.key]
        self._begun |= of_key.keys()
        made = self._start(of_key, batch) if of_key else {}
        self._done |= made
        return hindered | made

    def _start(
        self, of_key: Mapping[JobKey, Step], batch: Batch | None = None, turn: Turn | None = None
    ) -> dict[JobKey, Outcome]:
        """Submit one job, or the jobs of a batch at once."""
        submissions = []
        for step in of_key.values():
            assert step.launch is not None, "what a plan starts has a launch"
            about = {**self._origins[step.launch.origin], "seen": self._files.of(step.launch).record}
            submissions.append(Submission(step, attempt_of(step, step.launch, about), self._at, turn))
        several = () if batch is None else (submissions[0].scheduler.batches, batch.at_once)
        return {
            key: self._failed(of_key[key], each)
            if isinstance(each, LauncherError)
            else _outcome(of_key[key], *each)
            for key, each in submit(submissions, self._at, *several).items()
        }

    def _keep(self, step: Step) -> Outcome:
        """Leave the latest attempt as it is, and return the outcome. The ledger has that attempt by now."""
        self._at.clear(step)
        last, warnings = step.latest, tuple[str, ...]()
        if last is not None and not step.leftovers:
            try:  # its client may have been killed before it could record it
                catch_up(self._at.store, last, self._at.store.attempt(last.app_id))
            except StateError as error:
                warnings = (unrecorded(f"its latest attempt is {last.state}", error),)
        if step.launch is not None and last is not None and last.state in ENDED_STATES:
            # Files of `rerun_on` that the job file names only since the attempt was made are recorded, too.
            watched = adopted(last.trigger_digest, step.launch.trigger_digest)
            if watched != last.trigger_digest:
                self._at.store.watch(last.app_id, watched)
        app_id = step.guard.app_id
        self._at.events.emit("kept" if step.kind == "keep" else "held", step.key, app_id=app_id)
        skipped = self._at.store.by_app_id(app_id) if step.guard.state == "skipped" else None
        return _outcome(step, skipped or step.latest, warnings)

    def _report_interrupt(self, busy: Sequence[Step]) -> None:
        for step in busy:
            if not (step.key in self._done and self._done[step.key].error):
                words = _what_became(step, self._at.engines) if step.key in self._begun else "was not begun"
                self._at.events.emit("interrupted", step.key, message=words)


def _make_way(steps: Sequence[Step], at: Workplace) -> tuple[list[Step], Mapping[JobKey, LauncherError]]:
    """Withdraw waiting attempts, and stop running ones whose needs are stopped, dependants first.

    Returns the steps without the stops that are done, and why some jobs may not be carried out. Raises the
    errors of schedulers that concern all jobs.
    """
    touched = {step.key for step in steps if step.stops or step.withdraws}
    done: dict[JobKey, Step] = {}
    ordered = in_order(steps)
    refused = _withdraw(reversed(ordered), at)
    left_out = set(refused)
    for step in ordered:  # the stop of a need, or its refusal, affects every step behind it
        for affected in (touched, left_out):
            if not affected.isdisjoint(keys_after(step)):
                affected.add(step.key)
    for step in reversed(ordered):
        if step.starts and step.key not in left_out and not touched.isdisjoint(keys_after(step)):
            for old in step.stops:
                at.stop(old, step)
            done[step.key] = replace(step, stops=())
    return [done.get(step.key, step) if step.starts else step for step in steps], refused


def _withdraw(steps: Iterable[Step], at: Workplace) -> Mapping[JobKey, LauncherError]:
    """Carry out the withdrawals of the steps in this order, with one request for each scheduler.

    Returns the errors of jobs whose attempts could not be withdrawn, such as a StaleError for an attempt that
    has started meanwhile.
    """
    waiting = {old.app_id: (old, step) for step in steps for old in step.withdraws}
    refused: dict[JobKey, LauncherError] = {}
    for name in {old.scheduler: None for old, _ in waiting.values()}:
        scheduler = at.engines.get(name)
        ids = [old.app_id for old, _ in waiting.values() if old.scheduler == name]
        for app_id, withdrawn in scheduler.withdraw_all(ids):
            old, step = waiting[app_id]
            try:
                if isinstance(withdrawn, LauncherError):
                    raise withdrawn
                found = scheduler.attempt(app_id)
                if found is not None:
                    at.store.record(found)
                if withdrawn:
                    about: dict[str, Any] = {"app_id": app_id, "attempt": old.attempt}
                    at.events.emit("attempt_skipped", step.key, **about, message="withdrawn")
                elif found is not None and found.state != "skipped":
                    state = "starting" if found.state in WAITING_STATES else found.state
                    raise StaleError(f"{step.key}: expected {old}, found {state}", hint="plan again")
            except LauncherError as error:
                refused[step.key] = error
    return refused


def _what_became(step: Step, engines: Engines) -> str:
    """Describe the present states of a step's attempts at their engines."""
    words = []
    try:
        if step.launch is not None and step.starts:
            made = engines.get(step.launch.scheduler).attempt(step.app_id)
            words.append(_left(made, step.app_id, "was taken back"))
        for old in step.stops:
            words.append(_left(engines.get(old.scheduler).attempt(old.app_id), old.app_id, "was stopped"))
    except LauncherError as error:
        words.append(f"cannot find out what is left: {error}")
    return "; ".join(words)


def _left(attempt: Attempt | None, app_id: str, gone: str) -> str:
    if attempt is None:
        return f"{app_id} {gone}"
    if attempt.is_live:
        return f"{app_id} goes on (`launcher cancel {app_id}` stops it)"
    return f"{app_id} has ended: {attempt.state}"


def _of(key: JobKey, outcomes: Callable[[], Mapping[JobKey, Outcome]]) -> Outcome:
    return outcomes()[key]


def _without(step: Step, needed: Sequence[Outcome], events: Events) -> Outcome | None:
    """Return the outcome of a step whose needs could not be submitted; None when all were."""
    missing = [each for each in needed if each.error]
    if not missing or not step.starts:
        return None
    jobs = " and ".join(each.key.job for each in missing)
    error = f"not submitted: it needs {jobs}, which could not be applied"
    codes = {each.code for each in missing}
    code = missing[0].code if len(codes) == 1 else LauncherError.code
    overtaken = all(each.overtaken for each in missing)
    if not overtaken:
        events.emit("failed", step.key, message=error, hint=None)
    return Outcome(key=step.key, kind=step.kind, error=error, code=code, overtaken=overtaken)


def _outcome(step: Step, attempt: Attempt | None, warnings: tuple[str, ...] = ()) -> Outcome:
    disabled = step.kind == "keep" and step.launch is not None and not step.launch.enabled
    why = str(step.reasons[0]) if step.kind == "hold" else ""
    is_unread = bool(why) and step.reasons[0].code == "record_unreadable"
    started = step.launch.app.roles if step.starts and step.launch is not None else None
    retries = started is None or any(role.max_retries for role in started)
    made = Outcome(
        key=step.key,
        kind=step.kind,
        error=why if is_unread else "",
        disabled=disabled,
        held="" if is_unread else why,
        has_retries=retries,
        warnings=warnings,
    )
    return made if attempt is None else made.after(attempt, attempt.message, warnings)
