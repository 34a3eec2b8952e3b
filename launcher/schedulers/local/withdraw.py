"""Withdraw an app that waits for others, from any process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.errors import ReservedError
from launcher.schedulers.local import rundir
from launcher.schedulers.local.claim import hold_ownerless
from launcher.schedulers.local.observe import record_end
from launcher.schedulers.local.stop import end_supervisor

if TYPE_CHECKING:
    from launcher.schedulers.api import OnWait


def withdraw(state_dir: str, app_id: str, on_wait: OnWait | None = None) -> bool:
    """End a waiting app as `skipped: withdrawn`; False when it does not wait, or is about to start.

    True when nothing of it has run or ever will, and its supervisor has ended. Raises SchedulerError when the
    supervisor cannot be signalled.
    """
    app_dir = rundir.app_dir(state_dir, app_id)
    view = rundir.read_state(app_dir)
    if view is not None and view.state in rundir.WAITING and not view.lock_held:
        _decide_for_dead(app_dir)
        view = rundir.read_state(app_dir)
    elif view is not None and view.state in rundir.WAITING:
        try:
            if rundir.decide(app_dir, rundir.WITHDRAWN) != rundir.WITHDRAWN:
                return False
        except FileNotFoundError:
            return False
    else:
        return False
    while view is not None and view.state in rundir.WAITING and view.lock_held:
        end_supervisor(app_dir, view, on_wait)
        view = rundir.read_state(app_dir)
    if view is None or view.state != "skipped":
        return False
    record_end(state_dir, app_id, view, durable=True)
    return True


def _decide_for_dead(app_dir: str) -> None:
    """Withdraw an app without a supervisor, which may have died when it was about to start it."""
    try:
        with hold_ownerless(app_dir):
            view = rundir.read_state(app_dir, ours=True)
            if view is not None and view.state in rundir.WAITING:
                rundir.undecide(app_dir)
                rundir.decide(app_dir, rundir.WITHDRAWN)
    except (ReservedError, FileNotFoundError):
        pass  # another client submits it again, or has removed it
