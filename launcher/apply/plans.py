"""Make a plan of what is, and apply one: observe, decide, check, carry out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from launcher import git
from launcher.actor import actor
from launcher.apply.approval import check_approved, check_plan
from launcher.apply.arguments import check_is_plan, check_launches
from launcher.apply.checked import bound, dry_run
from launcher.apply.engines import Engines
from launcher.apply.events import Events, OnEvent, Outcome, Result
from launcher.apply.execute import execute
from launcher.apply.follow import OnLog, OnProgress, follow
from launcher.apply.inputs import check_secrets, check_workspaces
from launcher.apply.observe import observe
from launcher.apply.overtaken import in_spite_of_others
from launcher.apply.settle import settle
from launcher.errors import LockTimeoutError
from launcher.plan.model import Plan
from launcher.plan.orphans import Scope
from launcher.plan.recheck import located, recheck
from launcher.plan.reconcile import reconcile
from launcher.plan.step import Step
from launcher.schedulers.appstore import open_store
from launcher.specs.launch import JobKey, Launch
from launcher.state.lock import apply_lock
from launcher.state.store import Store

LOCK_TIMEOUT_S = 60.0
_OWNER_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the caller chose beside the job files; see `launcher.plan.reconcile`."""

    rerun: tuple[str, ...] = ()
    retry_failed: bool = False
    prune: bool = False
    take_over: bool = False
    scopes: tuple[Scope, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """Who listens while an apply works and while it waits. All of it is optional."""

    on_event: OnEvent | None = None
    on_log: OnLog | None = None
    on_progress: OnProgress | None = None


def make_plan(launches: Sequence[Launch], *, choices: Choices = Choices()) -> Plan:
    """What applying `launches` would start, stop and leave, and why. Writes nothing, takes no lock.

    Args:
        choices: what a user may decide: which failed work runs again, what is approved.

    Raises SchedulerError when a scheduler refuses a request, with what it says of each job; StateError when
    LAUNCHER_HOME cannot be read; WrongArgumentError, a TypeError, for anything but launches.
    """
    check_launches("make_plan", launches)
    with (
        open_store(readonly=True) as store,
        Engines(readonly=True, take_over=choices.take_over) as engines,
    ):
        return _plan(launches, choices, store, engines)


def apply_launches(
    launches: Sequence[Launch],
    *,
    choices: Choices = Choices(),
    approve: Callable[[Plan], None] | None = None,
    allow_destructive: bool = False,
    wait: bool = False,
    watching: Watching = Watching(),
    lock_timeout_s: float | None = LOCK_TIMEOUT_S,
) -> Result:
    """Make it true that the latest attempt of every job is a successful run of its document, or on its way.

    Args:
        approve: handed the plan, under the lock, before the first write; raises to stop there.
        allow_destructive: live attempts may be stopped, also where the job does not say so.
        wait: follow every declared job until it has ended.

    Raises BlockedError when a step needs approval or a policy forbids it, LockTimeoutError.
    """
    check_launches("apply_launches", launches)
    events = Events(watching.on_event)
    with (
        open_store() as store,
        Engines(take_over=choices.take_over, on_progress=events.progress, on_wait=events.waits) as engines,
    ):
        with _locked([launch.key for launch in launches], lock_timeout_s, events):
            settle(store, engines, {launch.scheduler: None for launch in launches})

            def look() -> Plan:
                return _plan(launches, choices, store, engines)

            plan = _patiently(look, events, timeout_s=lock_timeout_s)
            if approve is not None:
                approve(plan)
            check_approved(plan, allow_destructive=allow_destructive)
            check_secrets(plan)
            outcomes = _carried_out(plan, plan, look, engines, store, events, timeout_s=lock_timeout_s)
        return _followed(Result(outcomes=outcomes), wait, watching, store, engines, events)


def apply_plan(
    plan: Plan,
    *,
    root: str | None = None,
    approve: Callable[[Plan], None] | None = None,
    wait: bool = False,
    watching: Watching = Watching(),
    lock_timeout_s: float | None = LOCK_TIMEOUT_S,
) -> Result:
    """Carry out a plan as it was made, saved or not. It is approved by being passed.

    Everything is checked before the first write: age, engines, repository, and for every job that its
    latest attempt is still the one that the plan was made for. After a kill, the same plan goes on where it
    was.

    Args:
        root: the checkout with a saved plan's job files; else the one that holds the current directory.
        approve: handed what is left of the plan, under the lock, before the first write; raises to stop.

    Raises StaleError with what was expected and found, BlockedError, LockTimeoutError.
    """
    check_is_plan("apply_plan", plan)
    plan = _at_home(plan, root)
    keys = list(dict.fromkeys(step.key for step in plan.steps))
    schedulers = dict.fromkeys(
        [step.launch.scheduler for step in plan.steps if step.launch is not None]
        + [guard.scheduler for step in plan.steps for guard in step.stops]
    )
    events = Events(watching.on_event)
    with (
        open_store() as store,
        Engines(
            take_over=plan.selection.take_over, on_progress=events.progress, on_wait=events.waits
        ) as engines,
    ):

        def left() -> Plan:
            snapshot = observe(store, engines, keys, schedulers)
            # Only what was saved has an age; what was made a moment ago in this process has none.
            checked = recheck(plan, snapshot, now=time.time() if plan.plan_id else 0)
            if refusal := checked.refusal():
                raise refusal
            return bound(checked.plan, engines)

        with _locked(keys, lock_timeout_s, events):
            settle(store, engines, schedulers)
            todo = _patiently(left, events, timeout_s=lock_timeout_s)
            if approve is not None:
                approve(todo)
            check_approved(todo, allow_destructive=True)
            check_workspaces(todo)
            check_secrets(todo)
            outcomes = _carried_out(plan, todo, left, engines, store, events, timeout_s=lock_timeout_s)
        return _followed(Result(outcomes=outcomes), wait, watching, store, engines, events)


def _carried_out(
    plan: Plan,
    todo: Plan,
    look: Callable[[], Plan],
    engines: Engines,
    store: Store,
    events: Events,
    *,
    timeout_s: float | None,
) -> tuple[Outcome, ...]:
    """Carry out `todo`, what is left of `plan`; `look` makes it again where another client was first."""

    def carry_out(steps: Sequence[Step]) -> tuple[Outcome, ...]:
        about = _provenance(plan, todo)
        return execute(steps, provenance=about, engines=engines, store=store, events=events)

    return in_spite_of_others(
        todo, carry_out, lambda: _patiently(look, events, timeout_s=timeout_s), timeout_s=timeout_s
    )


def _at_home(plan: Plan, root: str | None) -> Plan:
    """A saved plan bound to the checkout at `root`; one made in this process is bound already."""
    if not any(step.launch is not None and not step.launch.root for step in plan.steps):
        return plan
    folder = os.path.abspath(root or ".")
    repository = git.repository(folder)
    if repository is not None:
        folder = repository.root
    origin = repository.origin if repository is not None else None
    return located(plan, root=folder, origin=origin or folder)


def _followed(
    result: Result, wait: bool, watching: Watching, store: Store, engines: Engines, events: Events
) -> Result:
    if not wait:
        return result
    outcomes = follow(
        result.outcomes,
        engines=engines,
        store=store,
        events=events,
        on_log=watching.on_log,
        on_progress=watching.on_progress,
    )
    return Result(outcomes=outcomes, waited=True)


def _plan(launches: Sequence[Launch], choices: Choices, store: Store, engines: Engines) -> Plan:
    keys = list(dict.fromkeys(launch.key for launch in launches))
    schedulers = dict.fromkeys(launch.scheduler for launch in launches)
    plan = reconcile(
        launches,
        observe(store, engines, keys, schedulers),
        rerun=choices.rerun,
        retry_failed=choices.retry_failed,
        prune=choices.prune,
        take_over=choices.take_over,
        scopes=choices.scopes,
    )
    return dry_run(plan, engines)


def _patiently(look: Callable[[], Plan], events: Events, *, timeout_s: float | None) -> Plan:
    """A plan that waits for nobody: while somebody else submits one of the jobs, look again."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    told: set[JobKey] = set()
    while True:
        plan = look()
        check_plan(plan)
        busy = [step for step in plan.steps if step.waits_for]
        if not busy:
            return plan
        if deadline is not None and time.monotonic() > deadline:
            raise LockTimeoutError(f"{busy[0].key} is being submitted by {busy[0].waits_for}")
        for step in busy:
            if step.key not in told:
                events.tell("waiting", step.key, owner=step.waits_for)
                told.add(step.key)
        time.sleep(_OWNER_POLL_S)  # an engine has no event for "the owner of a reservation has died"


@contextmanager
def _locked(keys: Collection[JobKey], timeout_s: float | None, events: Events) -> Iterator[None]:
    """The locks of every project and target that `keys` belong to, taken in one order by everybody."""
    first = {(key.project, key.target): key for key in reversed(list(keys))}
    with ExitStack() as stack:
        for (project, target), key in sorted(first.items()):

            def tell(owner: str, key: JobKey = key) -> None:
                events.tell("waiting", key, owner=owner)

            stack.enter_context(apply_lock(project, target, timeout_s=timeout_s, on_wait=tell))
        yield


def _provenance(plan: Plan, todo: Plan) -> Mapping[str, Mapping[str, Any]]:
    """Origin → what new attempts remember of where they come from: the plan, though only a part was to do."""
    roots = {step.launch.origin: step.launch.root for step in todo.steps if step.starts and step.launch}
    about = {"actor": actor(), "plan_digest": plan.plan_digest, "plan_id": plan.plan_id}
    return {origin: {**about, "commit": commit_of(root)} for origin, root in roots.items()}


def commit_of(root: str) -> str:
    repository = git.repository(root)
    return repository.commit() if repository is not None else ""
