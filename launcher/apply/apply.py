"""Apply job files or a plan under the locks of its jobs: plan, ask for approval, check, carry out, follow.

An apply holds a lock in its own state folder for each project and target, which names it to other applies.
The lock prevents no double start: clients, also those with other state folders on the same engine, meet where
an attempt's number is reserved, and the engine gives it to one of them.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from launcher import paths
from launcher.apply.approval import check_approved, check_inputs, check_plan, check_secrets, check_workspaces
from launcher.apply.dry_run import bind_plan
from launcher.apply.engines import Engines, opened, record_ends
from launcher.apply.events import UNWATCHED, Events, Outcome, Result, Watching
from launcher.apply.execute import execute
from launcher.apply.follow import follow
from launcher.apply.plans import (
    approved_part,
    at_home,
    check_is_plan,
    chosen_launches,
    limits_of_apply,
    plan_launches,
    plan_rest,
)
from launcher.apply.submit import Workplace
from launcher.dataclass import dataclass, replace
from launcher.errors import LockTimeoutError
from launcher.hashes import sha256
from launcher.paths import actor
from launcher.plan.model import Plan
from launcher.plan.reconcile import NO_CHOICES, Choices
from launcher.plan.step import Step
from launcher.specs.launch import JobKey, Launch
from launcher.specs.notify import Destination
from launcher.state import outbox
from launcher.state.store import Store

if TYPE_CHECKING:
    from launcher.plan.effects import Approval
    from launcher.turns.line import Limit

LOCK_TIMEOUT_S = 60.0
_OWNER_POLL_S = 0.1
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_LONGEST_NAME = 200  # bytes, of the 255 that file systems allow
_LONG_WAIT_S = 1.0
"""After a longer wait for other clients, the workspaces that replicas run in are hashed once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of an apply, and its limits.

    Attributes:
        keys: the jobs.
        schedulers: the names of the schedulers involved.
        look: makes the present plan.
        approve: raises to stop the apply before its first write.
        allow_destructive: live attempts may be stopped, also where the job does not say so.
        take_over: attempts that other machines are submitting count as left behind.
        plan: the plan to apply as it was made; None when job files are applied.
        holds_alone: a job that is protected, or can never start here, is held and does not block the others.
        limits: the limits of the group of all jobs that it starts.
        notify: receivers of the outcomes of its attempts, beside those that the projects name.
        timeout_s: how long to wait for other clients; None for no limit.
    """

    keys: Sequence[JobKey]
    schedulers: Sequence[str]
    look: Callable[[Store, Engines], Plan]
    approve: Callable[[Plan], None] | None
    allow_destructive: bool
    take_over: bool
    plan: Plan | None = None
    holds_alone: bool = False
    limits: Sequence[Limit] = ()
    notify: Sequence[Destination] = ()
    timeout_s: float | None


def apply_launches(
    launches: Sequence[Launch],
    *,
    choices: Choices = NO_CHOICES,
    approve: Callable[[Plan], None] | None = None,
    approvals: Sequence[Approval] | None = None,
    allow_destructive: bool = False,
    wait: bool = False,
    parallel: int | None = None,
    notify: Sequence[Destination] = (),
    watching: Watching = UNWATCHED,
    lock_timeout_s: float | None = LOCK_TIMEOUT_S,
) -> Result:
    """Apply job files: start each job whose latest attempt neither runs its document nor succeeded with it.

    Args:
        approve: called with the plan, under the lock, before the first write; raises to stop.
        approvals: only starts and stops that they hold are carried out (`launcher.plan.approved`); the plan
            that `approve` gets names the others in `unapproved`. None allows all.
        allow_destructive: live attempts may be stopped, also where the job does not say so.
        wait: follow every declared job until it has ended.
        parallel: how many of the started jobs run at once; None for as many as there is room for.
        notify: receivers of the outcomes of its attempts, beside those that the projects name.

    Raises BlockedError when a step needs approval or a policy forbids it, LockTimeoutError.
    """
    chosen = chosen_launches("apply_launches", launches, choices)
    limits = limits_of_apply(parallel)

    def look(store: Store, engines: Engines) -> Plan:
        plan = plan_launches(launches, choices, store, engines, limits)[0]
        return plan if approvals is None else approved_part(plan, approvals, store, engines)

    goal = Goal(
        keys=[launch.key for launch in chosen],
        schedulers=list(dict.fromkeys(launch.scheduler for launch in chosen)),
        look=look,
        approve=approve,
        allow_destructive=allow_destructive or approvals is not None,
        take_over=choices.take_over,
        holds_alone=approvals is not None,
        limits=limits,
        notify=notify,
        timeout_s=lock_timeout_s,
    )
    return _apply(goal, wait, watching)


def apply_plan(
    plan: Plan,
    *,
    root: str | None = None,
    approve: Callable[[Plan], None] | None = None,
    wait: bool = False,
    parallel: int | None = None,
    notify: Sequence[Destination] = (),
    watching: Watching = UNWATCHED,
    lock_timeout_s: float | None = LOCK_TIMEOUT_S,
) -> Result:
    """Carry out a plan as it was made, saved or not. The call itself is the approval.

    Everything is checked before the first write: age, engines, repository, and for every job that its latest
    attempt is still the one that the plan was made for. After a kill, the same plan continues.

    Args:
        root: the checkout with a saved plan's job files; None for the checkout of the current directory.
        approve: called with the rest of the plan, under the lock, before the first write; raises to stop.
        parallel, notify: as in `apply_launches`.

    Raises StaleError with the expected and the found attempt, BlockedError, LockTimeoutError.
    """
    check_is_plan("apply_plan", plan)
    plan = at_home(plan, root)
    keys = list(dict.fromkeys(step.key for step in plan.steps))
    starting = [step.launch.scheduler for step in plan.steps if step.launch is not None]
    stopping = [guard.scheduler for step in plan.steps for guard in (*step.stops, *step.withdraws)]
    schedulers = list(dict.fromkeys(starting + stopping))

    def look(store: Store, engines: Engines) -> Plan:
        return plan_rest(plan, schedulers, store, engines)

    goal = Goal(
        keys=keys,
        schedulers=schedulers,
        look=look,
        approve=approve,
        allow_destructive=True,
        take_over=plan.selection.take_over,
        plan=plan,
        limits=limits_of_apply(parallel),
        notify=notify,
        timeout_s=lock_timeout_s,
    )
    return _apply(goal, wait, watching)


def _apply(goal: Goal, wait: bool, watching: Watching) -> Result:
    events, begun = Events(watching.on_event), time.monotonic()
    take_over = goal.take_over
    with opened(take_over=take_over, on_progress=events.progress, on_wait=events.waits) as (store, engines):
        at = Workplace(engines=engines, store=store, events=events, notify=goal.notify)
        with _hold_locks(goal, events):
            store.back_up(time.time())
            record_ends(store, engines, goal.schedulers)
            todo = _plan_when_free(goal, at)
            if goal.approve is not None:
                goal.approve(todo)
            check_approved(todo, allow_destructive=goal.allow_destructive, holds_alone=goal.holds_alone)
            if goal.plan is not None or time.monotonic() - begun > _LONG_WAIT_S:
                check_workspaces(todo, in_place=goal.plan is None)
            check_inputs(todo)
            check_secrets(todo, goal.notify)
            outcomes = _carry_out(todo, goal, at)
        if os.path.isdir(paths.outbox()):
            outbox.wake(anew=[each.app_id for each in outcomes if each.app_id])
        if not wait:
            return Result(outcomes=outcomes)
        ended = follow(outcomes, engines=engines, store=store, events=events, watching=watching)
        return Result(outcomes=ended, waited=True)


@contextmanager
def _hold_locks(goal: Goal, events: Events) -> Iterator[None]:
    """Hold the locks of every project and target of the goal. All clients take them in the same order.

    Raises LockTimeoutError.
    """
    first = {(key.project, key.target): key for key in reversed(goal.keys)}
    with ExitStack() as stack:
        for (project, target), key in sorted(first.items()):

            def announce(owner: str, key: JobKey = key) -> None:
                events.emit("waiting", key, owner=owner)

            stack.enter_context(apply_lock(project, target, timeout_s=goal.timeout_s, on_wait=announce))
        yield


def _plan_when_free(goal: Goal, at: Workplace) -> Plan:
    """Make the plan and bind its launches. Repeats while another client is submitting one of its jobs.

    Raises LauncherError for a plan with problems, LockTimeoutError.
    """
    deadline = None if goal.timeout_s is None else time.monotonic() + goal.timeout_s
    announced: set[JobKey] = set()
    while True:
        plan = goal.look(at.store, at.engines)
        check_plan(plan)
        busy = [step for step in plan.steps if step.waits_for]
        if not busy:
            return bind_plan(plan, at.engines)
        if deadline is not None and time.monotonic() > deadline:
            raise LockTimeoutError(f"{busy[0].key} is being submitted by {busy[0].waits_for}")
        for step in busy:
            if step.key not in announced:
                at.events.emit("waiting", step.key, owner=step.waits_for)
                announced.add(step.key)
        time.sleep(_OWNER_POLL_S)  # engines have no event for the death of a reservation's owner


def _carry_out(todo: Plan, goal: Goal, at: Workplace) -> tuple[Outcome, ...]:
    """Carry out a plan. Jobs whose attempt another client reserved first are planned again.

    Returns the outcome of each step. A step that would now do more than was approved is not carried out: its
    outcome is an error.
    """

    def carry_out(steps: Sequence[Step]) -> tuple[Outcome, ...]:
        plan = goal.plan or todo
        return execute(steps, plan=plan, at=at, limits=goal.limits)

    steps, outcomes = list(todo.steps), list(carry_out(todo.steps))
    deadline = None if goal.timeout_s is None else time.monotonic() + goal.timeout_s
    pause = _PAUSE_S
    while open_ := [index for index, outcome in enumerate(outcomes) if outcome.overtaken]:
        if deadline is not None and time.monotonic() > deadline:
            break
        time.sleep(pause)  # engines have no event for the progress of another client
        pause = min(2 * pause, _LONGEST_PAUSE_S)
        again = _plan_when_free(goal, at)
        now = {step.key: step for step in again.steps if step.launch is not None}
        left = {index: now[steps[index].key] for index in open_ if steps[index].key in now}
        going = {index: step for index, step in left.items() if _is_approved(step, steps[index])}
        for index in set(open_) - set(going):
            step = left.get(index)
            what = (
                "it is not to be applied any more" if step is None else f"now the plan is to {step.kind} it"
            )
            error = f"another client applied the job meanwhile: {what}"
            hint = "plan again: launcher plan"
            outcomes[index] = replace(outcomes[index], overtaken=False, error=error, hint=hint)
        for index, outcome in zip(going, carry_out(list(going.values())), strict=True):
            outcomes[index] = outcome
    return tuple(outcomes)


def _is_approved(step: Step, before: Step) -> bool:
    """Whether a step starts and stops nothing beyond the approved step."""
    approved = {stop.app_id for stop in before.stops}
    stops_more = any(stop.app_id not in approved for stop in step.stops)
    starts_more = step.starts and not (before.starts and step.digest == before.digest)
    return step.blocked is None and not (step.has_effects and (stops_more or starts_more))


# -- the lock of a project and target -----------------------------------------------------------------------


@contextmanager
def apply_lock(
    project: str, target: str, *, timeout_s: float | None = 60.0, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the lock of a project and target for the body of a `with`.

    The kernel releases it when the process dies. Waiting causes no wakeups, and Ctrl-C ends it.

    Args:
        timeout_s: how long to wait for the holder; 0 for not at all, None for ever.
        on_wait: called once before waiting, with the holder ("user@host, pid 17, since 2025-03-01 12:00:05").

    Raises LockTimeoutError; StateError when LAUNCHER_HOME cannot be written.
    """
    path = os.path.join(paths.ensure(paths.locks()), lock_name(project, target))
    fd = _take(path, timeout_s, on_wait)
    try:
        owner = {"by": actor(), "pid": os.getpid(), "since": time.time()}
        # On a full disk the lock is held anyway, and the ledger will report the error.
        with suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(owner).encode(), 0)
        yield
    finally:
        # Unlock before closing: a child that was forked meanwhile still has the file open.
        os.ftruncate(fd, 0)
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def lock_name(project: str, target: str) -> str:
    """The name of the lock's file: `project.target`, with all but letters, digits, `-` and `_` escaped."""
    name = f"{_escaped(project)}.{_escaped(target)}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}~{sha256(name.encode()).hexdigest()[:16]}"


def _escaped(name: str) -> str:
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "-_") else f"%{ord(char):x}%" for char in name
    )


def _take(path: str, timeout_s: float | None, on_wait: Callable[[str], None] | None) -> int:
    """A descriptor of the locked file."""
    fd = -1
    try:
        # Close-on-exec, as Python opens files: a supervisor that inherited it would hold the lock for ever.
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    except BlockingIOError:
        pass
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise paths.unusable(error, path) from error
    try:
        if timeout_s != 0 and on_wait is not None:
            on_wait(_owner(path))
    except BaseException:
        os.close(fd)
        raise
    if timeout_s == 0:
        os.close(fd)
    elif _Waiter(fd).wait(timeout_s):
        return fd
    waited = f"; waited {timeout_s:g} s for it" if timeout_s else ""
    raise LockTimeoutError(
        f"another apply is at work: {_owner(path)}{waited}", hint="try again when it is done, or wait longer"
    )


class _Waiter:
    """A thread that blocks in flock: the only way to wait for a lock, with a time limit, without polling.

    When the caller gives up, the thread closes the file as soon as it gets the lock.
    """

    def __init__(self, fd: int) -> None:
        import threading

        self._fd = fd
        self._got = threading.Event()
        self._deciding = threading.Lock()
        self._given_up = False
        self._thread = threading.Thread(target=self._block, name="launcher-lock", daemon=True)

    def wait(self, timeout_s: float | None) -> bool:
        """True when the descriptor is locked. On False or an exception the thread owns the descriptor."""
        try:
            self._thread.start()
            return self._got.wait(timeout_s) or not self._give_up()
        except BaseException:
            if not self._give_up():
                os.close(self._fd)
            raise

    def _give_up(self) -> bool:
        """Give up waiting; False when the lock was acquired at the same moment."""
        with self._deciding:
            self._given_up = not self._got.is_set()
            return self._given_up

    def _block(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        with self._deciding:
            if self._given_up:
                os.close(self._fd)
            else:
                self._got.set()


def _owner(path: str) -> str:
    """The holder of the lock, as text for users."""
    try:
        with open(path, "rb") as file:
            owner = json.load(file)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner["since"]))
        return f"{owner['by']}, pid {owner['pid']}, since {since}"
    except (OSError, ValueError, KeyError, TypeError):  # not written yet, or the lock was just released
        return "holder unknown"
