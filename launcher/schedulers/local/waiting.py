"""Wait for the end of a local app. Separate from `follow`, so that a wait imports no reader of logs."""

from __future__ import annotations

import time

from launcher.schedulers import pids
from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.local.appview import AppView

_POLL_S = 0.001
_UNOWNED_S = 0.5  # before there is a supervisor: the client may die without touching a file


def wait_for_end(app_dir: str, timeout_s: float | None = None) -> AppView | None:
    """Return the state once the app has ended, has no supervisor, or `timeout_s` has passed.

    Waits for the exit of the supervisor, not for the last event: the event comes a little earlier, but the
    kernel takes some 20 ms to free an inotify descriptor, also at the exit of a process. Thus the supervisor
    has exited too when this returns.
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
            time.sleep(_POLL_S)  # it has just exited; its lock is about to be released
    return view


def _wait_for_supervisor(app_dir: str, timeout_s: float) -> None:
    from launcher.schedulers.local.filewatch import FileWatch

    try:
        watch = FileWatch([rundir.events(app_dir)])
    except FileNotFoundError:
        return
    watch.wait(timeout_s)
    watch.close()
