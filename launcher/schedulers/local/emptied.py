"""Judge an app whose record says nothing of it: by the ledger, and by the client that claimed its folder.

The client is about to submit the app, or the record was emptied by hand, or did not survive a power cut.
"""

from __future__ import annotations

import os

from launcher.errors import StateError
from launcher.schedulers import pids
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import rundir
from launcher.state.reader import Reader
from launcher.state.records import UNSTARTED, AppRecord

_UNDONE_S = 60.0  # time for a supervisor to undo the submission of a client that has died


def row_of_started(folder: AppFolder) -> AppRecord | None:
    """The row of an app of this state folder that has started according to the ledger; None for another."""
    with Reader.open(readonly=True) as ledger:  # it makes no rows: they would be made of this record, too
        row = ledger.app(folder.app_id)
    return None if row is None or row.state in UNSTARTED else row


def check_held(folder: AppFolder, row: AppRecord | None) -> None:
    """Raise StateError for a locked app that runs according to its row, or that no client is submitting."""
    is_left = not row.has_ended if row is not None else _is_left_by_client(folder)
    if is_left:
        path = rundir.events(folder.path)
        raise StateError(
            f"the record of {folder.app_id} was emptied or damaged, and a process holds the app: {path}",
            hint=f"it is left alone until it ends; `fuser -v {folder.lock}` names the process, to end it",
        )


def _is_left_by_client(folder: AppFolder) -> bool:
    """Whether the client that claimed an app has died, so long ago that its submission would be undone."""
    pid = claimant(folder)
    return pid is not None and pids.start_time(pid) is None and folder.age_s("lock") > _UNDONE_S


def claimant(folder: AppFolder) -> int | None:
    """The pid of the client that claimed the folder; None when the client is unknown or on another host."""
    try:
        words = (folder.text("lock") or "").split(" ")
    except OSError:
        return None
    known = len(words) == 4 and words[1].isdecimal() and words[3] == os.uname().nodename
    return int(words[1]) if known else None
