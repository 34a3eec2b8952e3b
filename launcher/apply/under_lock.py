"""One apply: under the locks of its jobs it plans, asks for approval, checks and carries out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time
from typing import TYPE_CHECKING, NamedTuple

from launcher.apply.approval import check_approved
from launcher.apply.ends import record_ends
from launcher.apply.engines import Engines
from launcher.apply.events import Events, Outcome, Result
from launcher.apply.execute import execute
from launcher.apply.follow import Watching, follow
from launcher.apply.inputs import check_inputs, check_secrets, check_workspaces
from launcher.apply.other_clients import hold_locks, plan_when_free, retry_overtaken
from launcher.plan.model import Plan
from launcher.plan.step import Step
from launcher.schedulers.appstore import open_store
from launcher.specs.launch import JobKey
from launcher.state.store import Store

if TYPE_CHECKING:
    from launcher.turns.ask import Limit


class Goal(NamedTuple):
    """The goal of an apply.

    Attributes:
        keys: the jobs.
        schedulers: the names of the schedulers involved.
        look: returns the present plan, with its launches bound.
        take_over: attempts that other machines are submitting count as left behind.
        plan: the plan to apply as it was made; None when job files are applied.
        limits: of the group of all jobs that it starts.
    """

    keys: Sequence[JobKey]
    schedulers: Sequence[str]
    look: Callable[[Store, Engines], Plan]
    take_over: bool
    plan: Plan | None = None
    limits: Sequence[Limit] = ()


class Consent(NamedTuple):
    """The limits of an apply: `approve` raises to stop it before its first write."""

    approve: Callable[[Plan], None] | None
    allow_destructive: bool


def apply(
    goal: Goal, consent: Consent, *, wait: bool, watching: Watching, lock_timeout_s: float | None
) -> Result:
    """Apply from the locks to the outcomes. `launcher.apply.plans` has the arguments and what is raised."""
    events = Events(watching.on_event)
    with (
        open_store() as store,
        Engines(take_over=goal.take_over, on_progress=events.progress, on_wait=events.waits) as engines,
    ):
        with hold_locks(goal.keys, lock_timeout_s, events):
            outcomes = _carry_out(goal, consent, store, engines, events, lock_timeout_s)
        if not wait:
            return Result(outcomes=outcomes)
        ended = follow(outcomes, engines=engines, store=store, events=events, watching=watching)
        return Result(outcomes=ended, waited=True)


def _carry_out(
    goal: Goal, consent: Consent, store: Store, engines: Engines, events: Events, timeout_s: float | None
) -> tuple[Outcome, ...]:
    store.back_up(time())
    record_ends(store, engines, goal.schedulers)

    def look() -> Plan:
        return plan_when_free(lambda: goal.look(store, engines), events, timeout_s=timeout_s)

    todo = look()
    _check(todo, goal, consent)

    def carry_out(steps: Sequence[Step]) -> tuple[Outcome, ...]:
        plan = goal.plan or todo
        return execute(steps, plan=plan, engines=engines, store=store, events=events, limits=goal.limits)

    return retry_overtaken(todo, carry_out, look, timeout_s=timeout_s)


def _check(todo: Plan, goal: Goal, consent: Consent) -> None:
    """Raise the error that forbids the plan, before anything is written."""
    if consent.approve is not None:
        consent.approve(todo)
    check_approved(todo, allow_destructive=consent.allow_destructive)
    if goal.plan is not None:
        check_workspaces(todo)  # workspaces of job files were hashed when the files were compiled
    check_inputs(todo)
    check_secrets(todo)
