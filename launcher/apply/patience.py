"""Wait for other clients: for locks that they hold, and for jobs that they are submitting."""

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


def patient(look: Callable[[], Plan], events: Events, *, timeout_s: float | None) -> Plan:
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
