"""Cancelling an app, from whatever process: an intent file, a signal, and a look at what is left."""

from __future__ import annotations

import os
import time

from launcher import paths
from launcher.actor import actor
from launcher.schedulers import pids
from launcher.schedulers.local import kernel, process, rundir
from launcher.schedulers.local.claim import discard_ownerless
from launcher.schedulers.local.outcome import INTERRUPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.local.appview import AppView

_OWNER_S = 30.0  # how long to wait for a client that is just submitting the app


def cancel(state_dir: str, app_id: str, grace_s: float | None = None, *, interrupt: bool = False) -> None:
    """Stop the app; returns when none of its processes is left. What has ended stays as it ended.

    Any number of clients may do this at once; the shortest `grace_s` of them counts.

    Args:
        interrupt: whoever wants it was attached to it; it is recorded as interrupted.
    """
    app_dir = rundir.app_dir(state_dir, app_id)
    view = rundir.read_state(app_dir)
    if view is None or view.state in ("succeeded", "failed", "cancelled"):
        return
    if view.state != "lost":
        view = _stop(app_dir, view, grace_s, interrupt)
    if view is not None and view.state == "lost":
        from launcher.schedulers.local.observe import bury

        bury(state_dir, app_id, view)
    elif view is not None and view.state in ("reserved", "created") and not view.lock_held:
        discard_ownerless(state_dir, app_dir)


def _stop(app_dir: str, view: AppView, grace_s: float | None, interrupt: bool) -> AppView | None:
    """Ask the supervisor to stop, wait for its end, and kill what it may have missed."""
    # First the intent, then a look for the supervisor. It does the two in the other order when it starts,
    # so that one of us always sees the other.
    if not _write_intent(app_dir, grace_s, interrupt):
        return rundir.read_state(app_dir)
    deadline = time.monotonic() + _OWNER_S
    seen: AppView | None = view
    while seen is not None and seen.state in ("reserved", "created", "running") and seen.lock_held:
        if seen.supervisor is not None:
            pid, start, _ = seen.supervisor
            if pids.send(pid, start, kernel.SIGTERM):
                pids.wait_for_exit(pid, start)
        elif time.monotonic() > deadline:
            break
        else:
            _wait_for_record(app_dir)
        seen = rundir.read_state(app_dir)
    if seen is not None and seen.state != "lost":
        process.kill_leftovers(app_dir, seen)
    return seen


def _write_intent(app_dir: str, grace_s: float | None, interrupt: bool) -> bool:
    """Say who wants the app stopped. False when its folder was removed meanwhile."""
    path = rundir.cancel(app_dir)
    who = f"{INTERRUPT if interrupt else ''}{actor()}"
    text = f"{who}\n" + ("" if grace_s is None else f"{rundir.GRACE}{grace_s:f}\n")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise paths.unusable(error, path) from error
    try:
        os.write(fd, text.encode())
    except OSError:  # the disk is full; that the file exists says enough
        pass
    finally:
        os.close(fd)
    return True


def _wait_for_record(app_dir: str) -> None:
    """Until the supervisor has written something, or half a second has passed."""
    from launcher.schedulers.local.filewatch import FileWatch

    watch = FileWatch()
    try:
        watch.add(rundir.events(app_dir))
        watch.wait(0.5)
    except FileNotFoundError:
        return
    finally:
        watch.close()
