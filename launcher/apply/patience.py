"""Waiting for other clients: for the locks that they hold, and for jobs that they are submitting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from launcher.apply.approval import check_plan
from launcher.apply.events import Events
from launcher.errors import LockTimeoutError
from launcher.plan.model import Plan
from launcher.specs.launch import JobKey
from launcher.state.lock import apply_lock

_OWNER_POLL_S = 0.1


@contextmanager
def locked(keys: Sequence[JobKey], timeout_s: float | None, events: Events) -> Iterator[None]:
    """Hold the locks of every project and target that `keys` belong to. Every client takes them in one order.

    Raises LockTimeoutError.
    """
    first = {(key.project, key.target): key for key in reversed(keys)}
    with ExitStack() as stack:
        for (project, target), key in sorted(first.items()):

            def announce(owner: str, key: JobKey = key) -> None:
                events.tell("waiting", key, owner=owner)

            stack.enter_context(apply_lock(project, target, timeout_s=timeout_s, on_wait=announce))
        yield


def patient(look: Callable[[], Plan], events: Events, *, timeout_s: float | None) -> Plan:
    """A plan in which no job waits for another client: while one is submitting a job, look again.

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
                events.tell("waiting", step.key, owner=step.waits_for)
                announced.add(step.key)
        time.sleep(_OWNER_POLL_S)  # an engine has no event for "the owner of a reservation has died"
