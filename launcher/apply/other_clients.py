"""Wait for other clients: for their locks, the jobs they are submitting, the attempts they reserved first.

An apply holds a lock in its own state folder. Clients with other state folders on the same engine meet where
an attempt's number is reserved: the engine gives it to one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from launcher.apply.approval import check_plan
from launcher.apply.events import Events, Outcome
from launcher.errors import LockTimeoutError
from launcher.plan.model import Plan
from launcher.plan.step import Step
from launcher.specs.launch import JobKey
from launcher.state.lock import apply_lock

_OWNER_POLL_S = 0.1
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


@contextmanager
def hold_locks(keys: Sequence[JobKey], timeout_s: float | None, events: Events) -> Iterator[None]:
    """Hold the locks of every project and target of `keys`. All clients take them in the same order.

    Raises LockTimeoutError.
    """
    first = {(key.project, key.target): key for key in reversed(keys)}
    with ExitStack() as stack:
        for (project, target), key in sorted(first.items()):

            def announce(owner: str, key: JobKey = key) -> None:
                events.emit("waiting", key, owner=owner)

            stack.enter_context(apply_lock(project, target, timeout_s=timeout_s, on_wait=announce))
        yield


def plan_when_free(look: Callable[[], Plan], events: Events, *, timeout_s: float | None) -> Plan:
    """Make the plan, again and again while another client is submitting one of its jobs.

    Raises LauncherError for a plan with problems, LockTimeoutError.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    announced: set[JobKey] = set()
    while True:
        plan = look()
        check_plan(plan)
        busy = [step for step in plan.steps if step.waits_for]
        if not busy:
            return plan
        if deadline is not None and time.monotonic() > deadline:
            raise LockTimeoutError(f"{busy[0].key} is being submitted by {busy[0].waits_for}")
        for step in busy:
            if step.key not in announced:
                events.emit("waiting", step.key, owner=step.waits_for)
                announced.add(step.key)
        time.sleep(_OWNER_POLL_S)  # engines have no event for the death of a reservation's owner


def retry_overtaken(
    plan: Plan,
    carry_out: Callable[[Sequence[Step]], tuple[Outcome, ...]],
    look: Callable[[], Plan],
    *,
    timeout_s: float | None,
) -> tuple[Outcome, ...]:
    """Carry out a plan, and plan again the jobs whose attempt another client reserved first.

    Returns the outcome of each step.

    Args:
        look: makes the same plan again, after waiting for clients that are submitting one of its jobs.
        timeout_s: how long to try; then a job that was overtaken keeps its error. None for no limit.

    A step that would now do more than was approved is not carried out: its outcome is an error.
    """
    steps, outcomes = list(plan.steps), list(carry_out(plan.steps))
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    pause = _PAUSE_S
    while open_ := [index for index, outcome in enumerate(outcomes) if outcome.overtaken]:
        if deadline is not None and time.monotonic() > deadline:
            break
        time.sleep(pause)  # engines have no event for the progress of another client
        pause = min(2 * pause, _LONGEST_PAUSE_S)
        now = {step.key: step for step in look().steps if step.launch is not None}
        todo = {index: now[steps[index].key] for index in open_ if steps[index].key in now}
        going = {index: step for index, step in todo.items() if is_approved(step, steps[index])}
        for index in set(open_) - set(going):
            outcomes[index] = _moved(outcomes[index], todo.get(index))
        done = carry_out(list(going.values()))
        for index, outcome in zip(going, done, strict=True):
            outcomes[index] = outcome
    return tuple(outcomes)


def is_approved(step: Step, before: Step) -> bool:
    """Whether a step starts and stops nothing beyond the approved step."""
    approved = {stop.app_id for stop in before.stops}
    stops_more = any(stop.app_id not in approved for stop in step.stops)
    starts_more = step.starts and not (before.starts and step.digest == before.digest)
    return step.blocked is None and not (step.has_effects and (stops_more or starts_more))


def _moved(outcome: Outcome, step: Step | None) -> Outcome:
    what = "it is not to be applied any more" if step is None else f"now the plan is to {step.kind} it"
    return replace(
        outcome,
        overtaken=False,
        error=f"another client applied the job meanwhile: {what}",
        hint="plan again: launcher plan",
    )
