"""The client's side of a watcher: spawn it, report the progress of the submission, wait for its end.

Messages are JSON objects, one a line, from client to watcher only; the watcher does not answer: clients read
the app's record and ask the engine.
"""

from __future__ import annotations

import json
import os
import sys

from launcher import paths
from launcher.errors import SchedulerError
from launcher.schedulers.docker import record
from launcher.schedulers.docker.labels import SHARE, Labels
from launcher.schedulers.docker.record import HeldError, RecordLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket
    from typing import Any

    from launcher.schedulers.docker.client.engine import Engine
    from launcher.schedulers.docker.client.objects import Container
    from launcher.schedulers.owner import Owner
    from launcher.specs.attempt import AttemptState
    from launcher.turns.table import Place

LOCK_FD = 3
BELLS_FD = 4
"""The first descriptor of the bells of the app's place, one for each of its tables; see `share.py`."""
_POLL_S = 0.005
_AGAIN_S = 0.25  # Linux 6.18 at times does not report the end of a process with several threads
_ABOVE = 10  # the least number of our copies of descriptors: the watcher has fixed numbers below it
_NO_SIGPIPE = 0x4000 if sys.platform == "linux" else 0  # MSG_NOSIGNAL
_MAIN = (
    f"import sys; sys.path.insert(0, {paths.IMPORT_ROOT!r});"
    " from launcher.schedulers.docker.watching.watcher import main; main()"
)
# Variables that finding the engine and this interpreter needs; the user's own do not reach the watcher.
_PASSED_ENV = ("HOME", "PATH", "LANG", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH", "LAUNCHER_HOME")
_PASSED_ENV_PREFIXES = ("DOCKER_", "LC_", "XDG_")


class WatcherClient:
    """A watcher that this process spawned, and our end of its control socket.

    When the socket closes (also by the end of this process), the watcher removes the app before `go`, and
    starts the rest of it between `go` and `started`; a detached app that it holds goes on to wait. After that
    it cancels an attached app; a detached one runs on.
    """

    def __init__(self, app_dir: str, pid: int, control: socket) -> None:
        self.app_dir = app_dir
        self.pid = pid
        self._control: socket | None = control
        self._ended = False

    @property
    def owner(self) -> Owner:
        """The watcher's process."""
        from dataclasses import replace

        from launcher.schedulers import pids
        from launcher.schedulers.owner import this_process

        return replace(this_process(), pid=self.pid, start=pids.start_time(self.pid) or 0)

    def __del__(self) -> None:
        self.close()

    @classmethod
    def spawn(
        cls,
        lock: RecordLock,
        app_id: str,
        *,
        attached: bool = False,
        resumed: bool = False,
        place: Place | None = None,
    ) -> WatcherClient:
        """Start a watcher. It shares the lock: the caller releases its own copy when the app was started.

        Args:
            resumed: the app was started before; no further message follows.
            place: among those that share the machine. It passes to the watcher.
        """
        from socket import socketpair

        if not sys.executable:
            raise SchedulerError("cannot start a watcher: this Python does not know its own executable")
        ours, theirs = socketpair()
        try:
            pid = _spawn(lock, theirs.fileno(), place.bells if place is not None else ())
        except OSError as error:
            ours.close()
            raise SchedulerError(
                f"cannot start a watcher: {error.strerror or error}",
                hint=paths.remedy(error, "the machine may be out of processes, files or memory"),
            ) from error
        finally:
            theirs.close()
        made = cls(lock.app_dir, pid, ours)
        order = {"app_id": app_id, "attached": attached, "resumed": resumed, "path": sys.path}
        if place is not None:
            from launcher.schedulers.docker import share

            order["place"] = share.to_json(place)
            place.release()
        made._send(order)
        return made

    def go(self, declared: dict[str, Any] | None = None) -> None:
        """Record that the app is about to be started: from here on its start is completed, not undone.

        Recorded by the client, since the watcher may be busy with its imports while the containers run.
        """
        record.begin(self.app_dir, declared, "starting")
        self._send({"op": "go"})

    def hold(self, message: dict[str, Any]) -> AttemptState | None:
        """Hand over an app that waits, see `Hold`; returns its state when the watcher has recorded that.

        It is running where its turn has come meanwhile. None when the watcher has died instead.
        """
        from time import sleep

        self._send({"op": "wait", **message})
        has_ended = False
        while (journal := record.journal(self.app_dir)) is None:
            if has_ended:
                return None
            has_ended = self._has_ended()
            sleep(_POLL_S)
        return journal.held[0] if journal.held is not None else "running"

    def started(self) -> bool:
        """Report that every replica was started. False when the watcher has died meanwhile."""
        return self._send({"op": "started"})

    def abort(self, timeout_s: float = 60.0) -> bool:
        """Make the watcher remove all of the app, started or not, and wait until it has."""
        self._send({"op": "abort"})
        return self.close(timeout_s)

    def close(self, timeout_s: float = 0.0) -> bool:
        """Close the connection and wait up to `timeout_s` for its end; False when it is still alive."""
        if self._control is not None:
            self._send({"op": "close"})
            self._control.close()
            self._control = None
        if not timeout_s:
            return self._has_ended()
        from time import monotonic, sleep

        # Not for the lock: this process holds it too until it releases it.
        deadline = monotonic() + timeout_s
        while not self._has_ended():
            if monotonic() > deadline:
                return False
            sleep(_POLL_S)
        return True

    def leave(self) -> None:
        """Close the connection; an attached app is not cancelled by that."""
        self._send({"op": "leave"})
        self.close()

    def _has_ended(self) -> bool:
        if not self._ended:
            try:
                self._ended = os.waitpid(self.pid, os.WNOHANG)[0] != 0
            except (ChildProcessError, TypeError):  # waited for before, or the interpreter is shutting down
                self._ended = True
        return self._ended

    def _send(self, message: dict[str, Any]) -> bool:
        if self._control is None:
            return False
        try:
            # Without the flag a host program that restored SIGPIPE would die with its watcher.
            self._control.sendall(json.dumps(message).encode() + b"\n", _NO_SIGPIPE)
        except OSError:
            return False
        return True


def wait_for_exit(app_dir: str, timeout_s: float) -> bool:
    """Wait until no process here holds the app's lock; False when one still does after `timeout_s`."""
    import time

    deadline = time.monotonic() + timeout_s
    while record.is_locked(app_dir):
        left = deadline - time.monotonic()
        holder = record.holder(app_dir)
        if left <= 0:
            return False
        seen = holder is not None and holder.is_here and holder.wait_for_exit(min(left, _AGAIN_S))
        if not seen or record.is_locked(app_dir):
            time.sleep(0.005)  # the lock goes with the process, or another process has taken it
    return True


def ensure_watched(engine: Engine, app_id: str, *, take_over: bool = False) -> bool:
    """Spawn a watcher for an app that needs one and has none. Returns whether one was spawned.

    Only on the machine that started the app, unless `take_over`: only there can a live watcher be detected.
    """
    from launcher.schedulers.docker.apps import inspect_app

    if record.is_locked(record.folder(app_id)):
        return False
    seen, found = inspect_app(engine, app_id)
    if seen is None or not seen.needs_watcher or not _is_ours(found[0], app_id, take_over=take_over):
        return False
    try:
        lock = record.claim(record.folder(app_id))
    except HeldError:
        return False
    try:
        seen, found = inspect_app(engine, app_id)  # the last holder of the lock may have finished
        if seen is None or not seen.needs_watcher:
            return False
        if record.journal(lock.app_dir) is None:
            record.append(lock.app_dir, "adopted")
        place = place_again(engine, found[0]) if found else None
        WatcherClient.spawn(lock, app_id, resumed=True, place=place).close()
        return True
    finally:
        lock.release()


def _is_ours(container: Container, app_id: str, *, take_over: bool) -> bool:
    owner = Labels(container.labels).owner
    if owner is None or record.exists(record.folder(app_id)):
        return True
    if not owner.is_here:
        return take_over or owner.host == os.uname().nodename  # the machine was rebooted since
    return not owner.home or not record.is_locked(record.folder_below(owner.home, app_id))


def place_again(engine: Engine, container: Container) -> Place | None:
    """See `share.take_again`."""
    if SHARE not in container.labels:
        return None
    from launcher.schedulers.docker import share

    return share.take_again(container.labels, engine.host)


def _spawn(lock: RecordLock, control: int, bells: Sequence[int]) -> int:
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    copies = [fcntl(fd, F_DUPFD_CLOEXEC, _ABOVE) for fd in (control, lock.fd, *bells)]
    log = record.watcher_log(lock.app_dir)
    actions = [
        (os.POSIX_SPAWN_DUP2, copies[0], 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, copies[1], LOCK_FD),
        *((os.POSIX_SPAWN_DUP2, copy, BELLS_FD + number) for number, copy in enumerate(copies[2:])),
    ]
    argv = [sys.executable, "-I", "-X", f"utf8={sys.flags.utf8_mode}", "-c", _MAIN, lock.app_dir]
    passed = (name for name in os.environ if name in _PASSED_ENV or name.startswith(_PASSED_ENV_PREFIXES))
    env = {name: os.environ[name] for name in passed}
    try:
        return os.posix_spawn(sys.executable, argv, env, file_actions=actions, setsid=True)
    finally:
        for fd in copies:
            os.close(fd)
