"""What is left of local apps that have ended, and its removal."""

from __future__ import annotations

from launcher.errors import SchedulerError
from launcher.schedulers import pids
from launcher.schedulers.local import rundir
from launcher.schedulers.local.claim import discard_ended
from launcher.schedulers.local.index import Index
from launcher.schedulers.local.observe import ENDED, bury, present_rows
from launcher.schedulers.staged import Finished

_PATIENCE_S = 5.0  # of a supervisor that has recorded the end and is not gone yet


def finished(state_dir: str, backend: str) -> list[Finished]:
    """The apps of one scheduler that have ended, the newest first. Writes nothing."""
    return [
        Finished(row.scheduler, row.session, row.app_id, row.name, row.ended_at or row.created_at)
        for row in present_rows(state_dir, scheduler=backend)
        if row.state in ENDED
    ]


def remove(state_dir: str, app_id: str) -> None:
    """Remove folder and row of an app that has ended. Raises SchedulerError when it has not."""
    app_dir = rundir.app_dir(state_dir, app_id)
    view = rundir.read_state(app_dir)
    if view is not None and view.state not in ENDED:
        raise SchedulerError(f"{app_id} has not ended: {view.state}", hint=f"launcher cancel {app_id}")
    if view is None:
        with Index.open(state_dir) as index:
            index.remove_void(app_id, app_dir)
        return
    bury(state_dir, app_id, view)  # of a lost one, its processes
    if view.supervisor and view.lock_held:
        pid, start, _ = view.supervisor
        pids.wait_for_exit(pid, start, _PATIENCE_S)
    discard_ended(state_dir, app_dir)
