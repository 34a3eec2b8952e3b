"""The public functions: make a plan of job files, apply job files, apply a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from launcher.apply.arguments import check_is_plan, check_launches
from launcher.apply.engines import Engines
from launcher.apply.events import Result
from launcher.apply.follow import UNWATCHED, Watching
from launcher.apply.look import NO_CHOICES, Choices, at_home, keys_of, plan_launches, plan_rest
from launcher.apply.under_lock import Consent, Goal, apply
from launcher.errors import UsageError
from launcher.plan.model import Plan
from launcher.plan.select import select
from launcher.schedulers.appstore import open_store
from launcher.schedulers.ids import random_id
from launcher.specs.launch import Launch
from launcher.state.store import Store

if TYPE_CHECKING:
    from launcher.turns.ask import Limit

LOCK_TIMEOUT_S = 60.0


def make_plan(
    launches: Sequence[Launch], *, choices: Choices = NO_CHOICES, parallel: int | None = None
) -> Plan:
    """Plan what applying `launches` would start, stop and leave, and why. Writes nothing, takes no lock.

    Args:
        choices: the user's choices: which failed work runs again, what is approved.
        parallel: as in `apply_launches`.

    Raises SchedulerError when a scheduler refuses a request, with its reason for each job; StateError when
    LAUNCHER_HOME cannot be read; WrongArgumentError, a TypeError, for anything but launches.
    """
    check_launches("make_plan", launches)
    with (
        open_store(readonly=True) as store,
        Engines(readonly=True, take_over=choices.take_over) as engines,
    ):
        return plan_launches(launches, choices, store, engines, _limits(parallel))


def apply_launches(
    launches: Sequence[Launch],
    *,
    choices: Choices = NO_CHOICES,
    approve: Callable[[Plan], None] | None = None,
    allow_destructive: bool = False,
    wait: bool = False,
    parallel: int | None = None,
    watching: Watching = UNWATCHED,
    lock_timeout_s: float | None = LOCK_TIMEOUT_S,
) -> Result:
    """Apply job files: start the jobs whose latest attempt is no running or successful run of the document.

    Args:
        approve: called with the plan, under the lock, before the first write; raises to stop.
        allow_destructive: live attempts may be stopped, also where the job does not say so.
        wait: follow every declared job until it has ended.
        parallel: how many of the jobs that it starts run at once; None for as many as there is room for.

    Raises BlockedError when a step needs approval or a policy forbids it, LockTimeoutError.
    """
    check_launches("apply_launches", launches)

    def look(store: Store, engines: Engines) -> Plan:
        return plan_launches(launches, choices, store, engines, limits)

    limits = _limits(parallel)
    chosen, _ = select(launches, choices.select)
    goal = Goal(
        keys=[launch.key for launch in chosen],
        schedulers=list(dict.fromkeys(launch.scheduler for launch in chosen)),
        look=look,
        take_over=choices.take_over,
        limits=limits,
    )
    consent = Consent(approve, allow_destructive)
    return apply(goal, consent, wait=wait, watching=watching, lock_timeout_s=lock_timeout_s)


def apply_plan(
    plan: Plan,
    *,
    root: str | None = None,
    approve: Callable[[Plan], None] | None = None,
    wait: bool = False,
    parallel: int | None = None,
    watching: Watching = UNWATCHED,
    lock_timeout_s: float | None = LOCK_TIMEOUT_S,
) -> Result:
    """Carry out a plan as it was made, saved or not. It is approved by being passed.

    Everything is checked before the first write: age, engines, repository, and for every job that its
    latest attempt is still the one that the plan was made for. After a kill, the same plan
    continues.

    Args:
        root: the checkout with a saved plan's job files; else the one that holds the current directory.
        approve: called with the rest of the plan, under the lock, before the first write; raises to stop.
        parallel: as in `apply_launches`.

    Raises StaleError with the expected and the found attempt, BlockedError, LockTimeoutError.
    """
    check_is_plan("apply_plan", plan)
    plan = at_home(plan, root)
    keys = list(dict.fromkeys(step.key for step in plan.steps))
    observed = list(dict.fromkeys([*keys, *keys_of(step.launch for step in plan.steps if step.launch)]))
    starting = [step.launch.scheduler for step in plan.steps if step.launch is not None]
    stopping = [guard.scheduler for step in plan.steps for guard in (*step.stops, *step.withdraws)]
    schedulers = list(dict.fromkeys(starting + stopping))

    def look(store: Store, engines: Engines) -> Plan:
        return plan_rest(plan, observed, schedulers, store, engines)

    goal = Goal(keys, schedulers, look, plan.selection.take_over, plan, _limits(parallel))
    consent = Consent(approve, allow_destructive=True)
    return apply(goal, consent, wait=wait, watching=watching, lock_timeout_s=lock_timeout_s)


def _limits(parallel: int | None) -> tuple[Limit, ...]:
    """That of the group of all jobs that one apply starts."""
    if parallel is None:
        return ()
    if isinstance(parallel, bool) or not isinstance(parallel, int) or parallel < 1:
        raise UsageError(f"`parallel` is {parallel!r}", hint="at least one job runs at once")
    from launcher.turns.ask import Limit

    return (Limit(f"apply {random_id()}", apps=parallel, label="this apply"),)
