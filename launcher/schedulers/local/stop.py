"""Cancel or withdraw an app from any process: write a file, signal the supervisor, check what is left."""

from __future__ import annotations

import os
import time

from launcher import paths
from launcher.errors import ReservedError, SchedulerError
from launcher.schedulers import pids
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import appview, kernel, rundir
from launcher.schedulers.local.claim import discard_ownerless, hold_ownerless
from launcher.state.home import actor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.api import OnWait
    from launcher.schedulers.local.appview import AppView


NOTE_S = 2.0
"""How long, in seconds, a client waits before it reports what it waits for."""

_OWNER_S = 30.0  # how long to wait for a client that is just submitting the app
_PROGRESS_S = 10.0  # a supervisor that records nothing for so long after the grace period is killed
_OUT_OF_SIGHT_S = 10.0  # for the lock of a supervisor that is not visible here
_LOOK_S = 0.05


def cancel(
    state_dir: str,
    app_id: str,
    grace_s: float | None = None,
    *,
    interrupt: bool = False,
    on_wait: OnWait | None = None,
) -> None:
    """Stop the app; returns when none of its processes is left. An ended app keeps its outcome.

    Any number of clients may do this at once; the shortest `grace_s` of them counts. A suspended supervisor
    is continued; one that does not end by itself after the grace period is killed with its replicas.

    Args:
        interrupt: the client was attached to the app; it is recorded as interrupted.
        on_wait: called once with the app id and the reason for waiting, if the client has to wait.

    Raises SchedulerError when the supervisor cannot be signalled: it is another user's, or in another pid
    namespace.
    """
    app_dir = rundir.app_dir(state_dir, app_id)
    view = appview.read_state(app_dir)
    if view is None or (view.has_ended and not view.abandoned):
        return
    if not view.abandoned:
        view = _stop(app_dir, grace_s, interrupt, on_wait)
    if view is not None and view.abandoned:
        from launcher.schedulers.local.apprecord import record_end

        record_end(state_dir, app_id, view)
    elif view is not None and view.state in ("reserved", "created") and not view.lock_held:
        discard_ownerless(state_dir, app_dir)


def _stop(app_dir: str, grace_s: float | None, interrupt: bool, on_wait: OnWait | None) -> AppView | None:
    """Ask the supervisor to stop, wait for its end, and kill any remaining process of the app."""
    # Write the cancel file first, then look for the supervisor. A starting supervisor does this in reverse
    # order, so that they cannot miss each other.
    if not _write_intent(app_dir, grace_s, interrupt):
        return appview.read_state(app_dir)
    from launcher.schedulers.local.filewatch import wait_for_change

    deadline = time.monotonic() + _OWNER_S
    seen = appview.read_state(app_dir)
    while seen is not None and not seen.has_ended and seen.lock_held:
        if seen.supervisor is not None:
            end_supervisor(app_dir, seen, on_wait)
        elif time.monotonic() > deadline:
            break
        else:
            wait_for_change(rundir.events(app_dir), 0.5)
        seen = appview.read_state(app_dir)
    if seen is not None and not seen.abandoned:
        appview.kill_leftovers(app_dir, seen)
    return seen


def end_supervisor(app_dir: str, view: AppView, on_wait: OnWait | None = None) -> None:
    """Wait until the supervisor of a locked app has exited, and kill it if need be. Raises SchedulerError."""
    assert view.supervisor is not None
    on_wait = on_wait or _silently
    start = view.supervisor[1]
    app_id = os.path.basename(app_dir)
    pid = appview.supervisor_pid(view)
    if pid is None:
        _wait_for_lock(app_dir, view.supervisor[0], on_wait)
        return
    if not _signal(app_id, pid, start, kernel.SIGTERM):
        return
    _signal(app_id, pid, start, kernel.SIGCONT)  # a suspended process does not handle SIGTERM
    if pids.wait_for_exit(pid, start, NOTE_S):
        return
    grace_s = _grace_s(app_dir)
    suspended = f"its supervisor (pid {pid}) is suspended; " if _is_suspended(pid) else ""
    on_wait(app_id, f"{suspended}its processes have {grace_s:g} s to end")
    if _ends(app_dir, pid, start, grace_s - NOTE_S):
        return
    on_wait(app_id, f"its supervisor (pid {pid}) does not answer and is killed")
    if _signal(app_id, pid, start, kernel.SIGKILL) and not pids.wait_for_exit(pid, start, appview.PATIENCE_S):
        raise SchedulerError(
            f"cannot stop {app_id}: its supervisor (pid {pid}) does not even end by SIGKILL",
            hint="it hangs in the kernel, or is frozen by its cgroup; cancel again when it goes on",
        )


def _ends(app_dir: str, pid: int, start: int, grace_s: float) -> bool:
    """Wait for the supervisor; False when its time is up and it makes no progress."""
    if pids.wait_for_exit(pid, start, max(0.0, grace_s)):
        return True
    while not _is_suspended(pid):
        before = _size_of_record(app_dir)
        if pids.wait_for_exit(pid, start, _PROGRESS_S):
            return True
        if _size_of_record(app_dir) == before:
            return False
    return False


def _size_of_record(app_dir: str) -> int:
    try:
        return os.stat(rundir.events(app_dir)).st_size
    except OSError:
        return 0


def _wait_for_lock(app_dir: str, pid: int, on_wait: OnWait) -> None:
    """Wait until the lock is free that a process holds which /proc does not show."""
    app_id = os.path.basename(app_dir)
    began = time.monotonic()
    noted = False
    while AppFolder(app_dir).is_locked():
        waited = time.monotonic() - began
        if waited > _OUT_OF_SIGHT_S:
            raise SchedulerError(
                f"cannot stop {app_id}: its supervisor (pid {pid}) runs where this process cannot signal it,"
                " in another container or pid namespace",
                hint="cancel it from there, or stop that container",
            )
        if waited > NOTE_S and not noted:
            noted = True
            on_wait(app_id, f"its supervisor (pid {pid}) is not to be seen from here")
        time.sleep(_LOOK_S)


def _signal(app_id: str, pid: int, start: int, signum: int) -> bool:
    """Signal exactly this process; False when it has exited."""
    try:
        return pids.send(pid, start, signum)
    except PermissionError as error:
        raise SchedulerError(
            f"cannot stop {app_id}: its supervisor (pid {pid}) belongs to another user",
            hint="cancel it as that user",
        ) from error


def _is_suspended(pid: int) -> bool:
    found = pids.process(pid)
    return found is not None and found.state in "Tt"


def _grace_s(app_dir: str) -> float:
    """The grace period that the supervisor grants its replicas: a client's, else the app's."""
    asked = rundir.cancellation(app_dir) or {}
    if "grace_s" in asked:
        return float(asked["grace_s"])
    request = appview.read_request(app_dir) or {}
    return float(request.get("grace_s") or 0.0)


def _silently(app_id: str, what: str) -> None:
    pass


def _write_intent(app_dir: str, grace_s: float | None, interrupt: bool) -> bool:
    """Write the cancel file with the name of the user. False when the folder was removed meanwhile."""
    path = rundir.cancel(app_dir)
    who = f"{rundir.INTERRUPT if interrupt else ''}{actor()}"
    text = f"{who}\n" + ("" if grace_s is None else f"{rundir.GRACE}{grace_s:f}\n")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise paths.unusable(error, path) from error
    try:
        os.write(fd, text.encode())
    except OSError:  # the disk is full; the existence of the file suffices
        pass
    finally:
        os.close(fd)
    return True


def withdraw(state_dir: str, app_id: str, on_wait: OnWait | None = None) -> bool:
    """End a waiting app as `skipped: withdrawn`; False when it does not wait, or is about to start.

    True when nothing of it has run or ever will, and its supervisor has ended. Raises SchedulerError when the
    supervisor cannot be signalled.
    """
    from launcher.schedulers.local.apprecord import record_end

    app_dir = rundir.app_dir(state_dir, app_id)
    view = appview.read_state(app_dir)
    if view is not None and view.state in rundir.WAITING and not view.lock_held:
        _decide_for_dead(app_dir)
        view = appview.read_state(app_dir)
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
        view = appview.read_state(app_dir)
    if view is None or view.state != "skipped":
        return False
    record_end(state_dir, app_id, view, durable=True)
    return True


def _decide_for_dead(app_dir: str) -> None:
    """Withdraw an app without a supervisor, which may have died when it was about to start it."""
    try:
        with hold_ownerless(app_dir):
            view = appview.read_state(app_dir, ours=True)
            if view is not None and view.state in rundir.WAITING:
                rundir.undecide(app_dir)
                rundir.decide(app_dir, rundir.WITHDRAWN)
    except (ReservedError, FileNotFoundError):
        pass  # another client submits it again, or has removed it
