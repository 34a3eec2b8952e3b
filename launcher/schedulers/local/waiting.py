"""Waiting for the end of a local app. Apart from `follow`, so that a wait loads no reader of logs."""

from __future__ import annotations

import time

from launcher.schedulers import pids
from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.local.appview import AppView

_SETTLE_S = 0.001
_UNOWNED_S = 0.5  # before there is a supervisor: the client may die without touching a file


def wait_for_end(app_dir: str, timeout_s: float | None = None) -> AppView | None:
    """What the record says when the app has ended, nobody looks after it, or `timeout_s` has passed.

    Woken by the end of the supervisor, not by the last line of its record: that comes a little earlier, but
    to give an inotify descriptor back takes the kernel some 20 ms, at the end of a process as well. And so
    nothing of the app is left when this returns, its supervisor included.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (view := rundir.read_state(app_dir)) is not None and view.lock_held:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            break
        if view.supervisor is None:
            _wait_for_supervisor(app_dir, _UNOWNED_S if left is None else min(_UNOWNED_S, left))
        elif pids.is_running(*view.supervisor[:2]):
            pids.wait_for_exit(*view.supervisor[:2], left)
        else:
            time.sleep(_SETTLE_S)  # it has just gone, and the lock goes with it
    return view


def _wait_for_supervisor(app_dir: str, timeout_s: float) -> None:
    from launcher.schedulers.local.filewatch import FileWatch

    try:
        watch = FileWatch([rundir.events(app_dir)])
    except FileNotFoundError:
        return
    watch.wait(timeout_s)
    watch.close()
