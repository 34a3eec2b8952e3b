"""Cancel or withdraw apps from any process: ask all of them, wait for all together, kill leftovers.

A client asks by a file in the folder of the app, and wakes the app's holder.
"""

from __future__ import annotations

import os
import time

from launcher import paths
from launcher.errors import ReservedError, SchedulerError
from launcher.paths import actor
from launcher.schedulers import pids
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import appview, kernel, rundir
from launcher.schedulers.local.claim import discard_ownerless, hold_ownerless
from launcher.schedulers.local.filewatch import Pause, together
from launcher.schedulers.record import read_json
from launcher.state.records import PENDING, WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from launcher.errors import LauncherError
    from launcher.schedulers.api import OnWait
    from launcher.schedulers.local.appview import AppView
    from launcher.schedulers.local.filewatch import Course


NOTE_S = 2.0
"""How long, in seconds, a client waits before it reports what it waits for."""

_OWNER_S = 30.0  # how long to wait for a client that is just submitting the app
_PROGRESS_S = 10.0  # a supervisor that records nothing for so long after the grace period is killed
_OUT_OF_SIGHT_S = 10.0  # how long to wait for the lock of a supervisor that is not visible here
_LOOK_S = 0.05


def cancel(
    app_ids: Iterable[str],
    grace_s: float | None = None,
    *,
    interrupt: bool = False,
    on_wait: OnWait | None = None,
) -> Iterator[tuple[str, LauncherError | None]]:
    """Stop apps; yields each when none of its processes is left. An ended app keeps its outcome.

    Any number of clients may do this at once; the shortest `grace_s` of them counts. A suspended supervisor
    is continued; one that does not end by itself after the grace period is killed with its replicas.

    Args:
        app_ids: the apps, in the order in which they are asked to end.
        interrupt: the client was attached to the apps; they are recorded as interrupted.
        on_wait: called once with the app id and the reason for waiting, if the client has to wait.

    Yields each app id, with a SchedulerError when the supervisor cannot be signalled: it belongs to another
    user, or to another pid namespace.
    """
    left = _Leftovers()
    stops = {app_id: _Stop(app_id, on_wait) for app_id in app_ids}
    yield from together({each: stop.cancel(grace_s, interrupt, left) for each, stop in stops.items()})


def withdraw(
    app_ids: Iterable[str], on_wait: OnWait | None = None
) -> Iterator[tuple[str, bool | LauncherError]]:
    """End waiting apps as `skipped: withdrawn`; see `cancel`.

    Yields each app id with True when no process of it has run or ever will; with False when it does not wait,
    or is about to start; with a SchedulerError when the supervisor cannot be signalled.
    """
    yield from together({app_id: _Stop(app_id, on_wait).withdraw() for app_id in app_ids})


class _Stop:
    """The stop of one app.

    Its course asks for the end before its first pause, and then wakes the process that holds the app: when
    the end of one app is seen by another one that needs it, that one was asked, too.
    """

    def __init__(self, app_id: str, on_wait: OnWait | None) -> None:
        self._app_id = app_id
        self._app_dir = paths.local_app(app_id)
        self._on_wait = on_wait or (lambda app_id, why: None)
        self._woken: tuple[int, int, str] | None = None  # the process that holds the app
        self._is_noted = False

    def _view(self) -> AppView | None:
        return appview.read_state(self._app_dir)

    def cancel(self, grace_s: float | None, interrupt: bool, left: _Leftovers) -> Course[None]:
        view = self._view()
        if view is None or (view.has_ended and not view.abandoned):
            return
        if not view.abandoned:
            # Write the cancel file first, then look for the supervisor. A starting supervisor does this in
            # reverse order, so that the two cannot miss each other.
            if _write_intent(self._app_dir, grace_s, interrupt):
                yield Pause(0.0)
                yield from self._until(lambda seen: seen.has_ended)
            view = self._view()
            if view is not None and not view.abandoned and (view.started_at or not view.has_ended):
                yield from left.kill(self._app_dir, view)
        if view is not None and view.abandoned:
            appview.record_end(self._app_id, view)
        elif view is not None and view.state in PENDING and not view.lock_held:
            discard_ownerless(self._app_dir)

    def withdraw(self) -> Course[bool]:
        view = self._view()
        if view is None or view.state not in WAITING:
            return False
        if not view.lock_held:
            _decide_for_dead(self._app_dir)
        else:
            try:
                if rundir.decide(self._app_dir, rundir.WITHDRAWN) != rundir.WITHDRAWN:
                    return False
            except FileNotFoundError:
                return False
            yield Pause(0.0)
            yield from self._until(lambda seen: seen.state not in WAITING)
        view = self._view()
        if view is None or view.state != "skipped":
            return False
        appview.record_end(self._app_id, view, durable=True)
        return True

    def _until(self, is_over: Callable[[AppView], bool]) -> Course[None]:
        """Wake the process that holds the app, and wait until the app is over or released.

        Raises SchedulerError.
        """
        since = time.monotonic()
        is_asked = False
        while (seen := self._view()) is not None and not is_over(seen) and seen.lock_held:
            if not is_asked:
                self._wake(seen)
                is_asked = True
            elif seen.supervisor is not None:
                yield from self._until_exit(seen)
            elif seen.holder is not None:
                yield from self._until_it_answers(seen.holder, since)
            elif time.monotonic() > since + _OWNER_S:
                lock = AppFolder(self._app_dir).lock
                raise SchedulerError(
                    f"cannot stop {self._app_id}: its record names no process, and one holds its lock",
                    hint=f"it ends at its next step; `fuser -v {lock}` names the process",
                )
            else:
                yield Pause(0.5, path=rundir.events(self._app_dir))

    def _wake(self, view: AppView) -> int | None:
        """Wake the process that holds the app, so that it looks at requests; each such process once.

        Returns its pid; None when it is not visible from here, or has exited. Raises SchedulerError.
        """
        process = view.supervisor or view.holder
        if process is None:  # a client is just submitting the app
            return None
        pid = appview.visible_pid(*process)
        if pid is None or self._woken == process:
            return pid
        if not self._signal(pid, process[1], kernel.SIGTERM if view.supervisor else kernel.SIGUSR1):
            return None
        self._signal(pid, process[1], kernel.SIGCONT)  # a suspended process handles no other signal
        self._woken = process
        return pid

    def _signal(self, pid: int, start: int, signum: int) -> bool:
        """Signal exactly this process; False when it has exited."""
        try:
            return pids.send(pid, start, signum)
        except PermissionError as error:
            raise SchedulerError(
                f"cannot stop {self._app_id}: its supervisor (pid {pid}) belongs to another user",
                hint="cancel it as that user",
            ) from error

    def _until_it_answers(self, holder: tuple[int, int, str], since: float) -> Course[None]:
        """Wait for the next event of an app that is held together with others. Raises SchedulerError."""
        pid = appview.visible_pid(*holder)
        if pid is None:
            yield from self._until_unlocked(holder[0])
            return
        waited = time.monotonic() - since
        if waited > NOTE_S and not self._is_noted:
            self._is_noted = True
            self._on_wait(self._app_id, f"the process that holds it (pid {pid}) is busy or suspended")
        if waited > _OWNER_S:
            raise SchedulerError(
                f"cannot stop {self._app_id}: the process that holds it (pid {pid}) does not answer",
                hint=f"`kill -9 {pid}` frees all apps that it holds, none of which runs; then cancel again",
            )
        yield Pause(0.5, path=rundir.events(self._app_dir))

    def _until_exit(self, view: AppView) -> Course[None]:
        """Wait until the supervisor of a locked app has exited; kill it if need be. Raises SchedulerError."""
        assert view.supervisor is not None
        pid, start = self._wake(view), view.supervisor[1]
        if pid is None:
            yield from self._until_unlocked(view.supervisor[0])
            return
        if (yield Pause(NOTE_S, process=(pid, start))):
            return
        grace_s = self._grace_s()
        suspended = f"its supervisor (pid {pid}) is suspended; " if _is_suspended(pid) else ""
        self._on_wait(self._app_id, f"{suspended}its processes have {grace_s:g} s to end")
        if (yield from self._ends(pid, start, grace_s - NOTE_S)):
            return
        self._on_wait(self._app_id, f"its supervisor (pid {pid}) does not answer and is killed")
        if not self._signal(pid, start, kernel.SIGKILL):
            return
        if not (yield Pause(appview.PATIENCE_S, process=(pid, start))):
            raise SchedulerError(
                f"cannot stop {self._app_id}: its supervisor (pid {pid}) does not even end by SIGKILL",
                hint="it hangs in the kernel, or is frozen by its cgroup; cancel again when it goes on",
            )

    def _ends(self, pid: int, start: int, grace_s: float) -> Course[bool]:
        """Wait for the end of the supervisor; False when its time is up and it makes no progress."""
        if (yield Pause(max(0.0, grace_s), process=(pid, start))):
            return True
        before = -1
        while not _is_suspended(pid) and (size := _size_of_record(self._app_dir)) != before:
            if (yield Pause(_PROGRESS_S, process=(pid, start))):
                return True
            before = size
        return False

    def _until_unlocked(self, pid: int) -> Course[None]:
        """Wait until a process that /proc does not show has freed the lock."""
        began = time.monotonic()
        noted = False
        while AppFolder(self._app_dir).is_locked():
            waited = time.monotonic() - began
            if waited > _OUT_OF_SIGHT_S:
                raise SchedulerError(
                    f"cannot stop {self._app_id}: its supervisor (pid {pid}) runs where this process cannot"
                    " signal it, in another container or pid namespace",
                    hint="cancel it from there, or stop that container",
                )
            if waited > NOTE_S and not noted:
                noted = True
                self._on_wait(self._app_id, f"its supervisor (pid {pid}) is not to be seen from here")
            yield Pause(_LOOK_S)

    def _grace_s(self) -> float:
        """The grace period that the supervisor grants its replicas: a client's, else the app's."""
        asked = rundir.cancellation(self._app_dir) or {}
        if "grace_s" in asked:
            return float(asked["grace_s"])
        request = read_json(self._app_dir, "request.json") or {}
        return float(request.get("grace_s") or 0.0)


class _Leftovers:
    """The processes of apps without a supervisor. Apps that end at the same time share one look at /proc."""

    def __init__(self) -> None:
        self._looked_at = -1.0
        self._living: set[tuple[int, int]] = set()  # pid and start time of each process
        self._scratch: set[bytes] = set()  # scratch folders in the environments of these processes

    def kill(self, app_dir: str, view: AppView) -> Course[None]:
        """Kill every leftover process of an app."""
        since = time.monotonic()
        yield Pause(0.0)
        if self._looked_at < since:
            self._look()
        runs = {each.run for each in view.replicas if each.run is not None}
        if os.fsencode(rundir.scratch(app_dir)) in self._scratch or not self._living.isdisjoint(runs):
            appview.kill_leftovers(app_dir, view)

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        everybody = list(pids.processes())
        self._living = {(each.pid, each.start) for each in everybody}
        name = b"LAUNCHER_SCRATCH="
        found = (entry for each in everybody for entry in pids.environment(each.pid).split(b"\0"))
        self._scratch = {entry[len(name) :] for entry in found if entry.startswith(name)}


def _size_of_record(app_dir: str) -> int:
    try:
        return os.stat(rundir.events(app_dir)).st_size
    except OSError:
        return 0


def _is_suspended(pid: int) -> bool:
    found = pids.process(pid)
    return found is not None and found.state in "Tt"


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


def _decide_for_dead(app_dir: str) -> None:
    """Withdraw an app whose supervisor has died, perhaps just before it started the app."""
    try:
        with hold_ownerless(app_dir):
            view = appview.read_state(app_dir, ours=True)
            if view is not None and view.state in WAITING:
                if rundir.decision(app_dir):
                    os.unlink(rundir.decision_file(app_dir))
                rundir.decide(app_dir, rundir.WITHDRAWN)
    except (ReservedError, FileNotFoundError):
        pass  # another client submits the app again, or has removed it
