"""List and remove local apps that have ended."""

from __future__ import annotations

import os
import time

from launcher.errors import SchedulerError
from launcher.holding.state import ENDED_STATES
from launcher.schedulers import pids
from launcher.schedulers.appstore import open_store
from launcher.schedulers.local import rundir
from launcher.schedulers.local.claim import claimant, discard_ended
from launcher.schedulers.local.observe import present, record_end
from launcher.state.records import AppRecord

_READ_WITHIN_S = 60.0
_PATIENCE_S = 5.0  # for a supervisor that has recorded the end to exit


def finished(state_dir: str, backend: str) -> list[AppRecord]:
    """The apps of one scheduler that have ended, the newest first. Writes nothing."""
    found = [app for app in present(state_dir, backend) if app.has_ended]
    for app in found:
        app.ended_at = app.ended_at or app.created_at
        app.in_use = _is_in_use(state_dir, app)
    return found


def _is_in_use(state_dir: str, row: AppRecord) -> bool:
    """Whether an app without a job has just ended while its client is still there to read the outcome.

    Such an app is not in the ledger: the client can only read its folder.
    """
    if row.job is not None or row.ended_at is None or row.ended_at < time.time() - _READ_WITHIN_S:
        return False
    pid = claimant(rundir.app_dir(state_dir, row.app_id))
    return pid not in (None, os.getpid()) and pids.start_time(pid or 0) is not None


def remove(state_dir: str, app_id: str) -> None:
    """Remove folder and row of an app that has ended. Raises SchedulerError when it has not."""
    app_dir = rundir.app_dir(state_dir, app_id)
    view = rundir.read_state(app_dir)
    if view is not None and view.state not in ENDED_STATES:
        raise SchedulerError(f"{app_id} has not ended: {view.state}", hint=f"launcher cancel {app_id}")
    if view is None:
        with open_store(durable=False) as store:
            store.remove_void(app_id, app_dir)
        return
    record_end(state_dir, app_id, view)  # kills the processes of a lost app
    if view.supervisor and view.lock_held:
        pid, start, _ = view.supervisor
        pids.wait_for_exit(pid, start, _PATIENCE_S)
    discard_ended(state_dir, app_dir)
