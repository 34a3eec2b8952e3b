"""The client's side of a watcher: find or start it, report the progress of the submission, wait for its end.

Messages are JSON objects, one a line. The watcher answers only the first one, once it has the app; for the
rest, clients read the app's record and ask the engine.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import partial

from launcher import paths
from launcher.schedulers.docker import record
from launcher.schedulers.docker.labels import SHARE, Labels
from launcher.schedulers.docker.record import RecordLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Mapping, Sequence
    from typing import Any

    from launcher.schedulers.docker.client.engine import Engine
    from launcher.schedulers.docker.client.objects import Container
    from launcher.schedulers.docker.client.streams import ExecSocket
    from launcher.specs.attempt import AttemptState
    from launcher.turns.table import Place

CONTROL_FD = 0
LISTENER_FD = 3
_POLL_S = 0.005
_SHORTEST_POLL_S, _LONGEST_POLL_S = 0.002, 0.05
_WRITING = 1  # SHUT_WR
_TRIES = 4  # tries to hand over an app; the last one starts a watcher for this app alone
_MAIN = "launcher.schedulers.docker.watching.watcher"
# Variables that finding the engine and this interpreter needs; the user's own do not reach the watcher.
_PASSED_ENV = ("HOME", "PATH", "LANG", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH", "LAUNCHER_HOME")
_PASSED_ENV_PREFIXES = ("DOCKER_", "LC_", "XDG_")


class WatcherClient:
    """A watcher that watches an app for this process, and this end of the connection.

    The watcher is shared with other apps, see `rendezvous.py`, or was started for this app. When the
    connection closes (also by the end of this process) before `go`, the watcher removes the app; between `go`
    and `started`, it starts the rest of the app; a detached app that it holds goes on waiting. After
    `started` it cancels an attached app; a detached app runs on.

    The first message, the order, has the fields `app_id`, `app_dir`, `at` (the time in epoch seconds),
    `attached`, `resumed` (the app was started before), `path` (where the watcher finds packages), and for an
    app that takes turns its `place`. Descriptors come with it: the app's lock, and the bells of its place.
    """

    def __init__(self, lock: RecordLock, order: Mapping[str, Any], place: Place | None, name: str) -> None:
        self.app_dir = lock.app_dir
        self._lock: RecordLock | None = lock
        self._order = order
        self._place = place
        self._name = name
        self._control: socket | ExecSocket | None = None
        self._child = 0

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
        engine: Engine | None = None,
    ) -> WatcherClient:
        """Have a watcher watch an app. They share the lock; the caller releases its copy after the start.

        Args:
            resumed: the app was started before; no further message follows.
            place: the app's place among the apps that share the machine. It passes to the watcher.
            engine: the app may share its watcher with others on this engine; None for a watcher of its own.
        """
        import time

        order = {"app_id": app_id, "app_dir": lock.app_dir, "at": time.time()}
        order |= {"attached": attached, "resumed": resumed, "path": sys.path}
        name = ""
        if place is not None:
            from launcher.schedulers.docker import share

            order["place"] = share.to_json(place)
        if engine is not None and not attached:
            from launcher.schedulers.docker.watching import rendezvous

            name = rendezvous.name_of(engine, paths.program(_MAIN))
        made = cls(lock, order, place, name)
        made._reach()
        return made

    def _reach(self) -> None:
        """Send the order to the shared watcher, or to a new one."""
        assert self._lock is not None, "an order is sent until a watcher has the app"
        lock, name = self._lock, self._name
        if name:
            from launcher.schedulers.docker.watching import rendezvous

            self._control, self._child = rendezvous.reach(name, partial(_start, lock))
        else:
            self._control, self._child = _start(lock, None, "")
        self._send(self._order, (lock.fd, *(self._place.bells if self._place is not None else ())))
        if self._child:  # a new watcher gets this order first, and does not refuse it
            self._pass_on()

    def confirm(self) -> None:
        """Return once a watcher has the app. A watcher that just ends, or does not answer, is replaced."""
        for left in reversed(range(_TRIES)):
            if self._lock is None or self._is_taken():
                return
            self._send({"op": "forget"})
            if self._control is not None:
                self._control.close()
            self._name = self._name if left > 1 else ""
            self._reach()

    def _is_taken(self) -> bool:
        """Whether the watcher answers that it has the app."""
        from launcher.schedulers.docker.watching.rendezvous import ANSWER_S

        assert self._control is not None, "a closed connection is not asked"
        try:
            answer = answer_on(self._control, ANSWER_S)
        except TimeoutError:  # the watcher is suspended, or the machine is very busy
            self._name = ""
            return False
        if answer is None:
            return False
        self._pass_on()
        return True

    def _pass_on(self) -> None:
        """Close this process's copies of the order's descriptors, except the lock, which is the caller's."""
        self._lock = None
        if self._place is not None:
            self._place.release()

    def go(self, declared: dict[str, Any] | None = None) -> None:
        """Record that the app is about to be started: from now on its start is completed, not undone.

        The client records it, since the watcher may be busy with its imports while the containers run.
        """
        self.confirm()
        record.begin(self.app_dir, declared, "starting")
        self._send({"op": "go"})

    def hold(self, message: dict[str, Any]) -> AttemptState | None:
        """Hand over a waiting app, see `Hold`; returns its state once the watcher has recorded the state.

        The app runs already where its turn has come meanwhile. None when the watcher has died, or has not
        accepted the app.
        """
        from time import sleep

        self.confirm()
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
        """Make the watcher remove the whole app, started or not, and wait until it has."""
        self._send({"op": "abort"})
        return self.close(timeout_s)

    def close(self, timeout_s: float = 0.0) -> bool:
        """Close the connection; returns whether the watcher has acted on that within `timeout_s`."""
        if self._control is None:
            return True
        self._send({"op": "close"})
        self._pass_on()
        with suppress(OSError):
            self._control.shutdown(_WRITING)
        has_ended = self._has_ended(timeout_s)
        self._control.close()
        self._control = None
        return has_ended

    def leave(self) -> None:
        """Close the connection without cancelling an attached app."""
        self._send({"op": "leave"})
        self.close()

    def _has_ended(self, timeout_s: float = 0.0) -> bool:
        """Whether the watcher has closed the connection within that time, or has died."""
        if self._control is None:
            return True
        try:
            self._control.settimeout(timeout_s)
            while self._control.recv(4096):  # the answer to the order
                continue
        except ConnectionError:
            return True
        except OSError:
            self._control.settimeout(None)
            return False
        with suppress(ChildProcessError, TypeError):  # TypeError: the interpreter is shutting down
            os.waitpid(self._child, os.WNOHANG)
        return True

    def _send(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> bool:
        """Send a message, descriptors with its first byte. False when the watcher has gone."""
        if self._control is None:
            return False
        from launcher.schedulers.holder import NO_SIGPIPE, packed

        data = json.dumps(message).encode() + b"\n"
        try:
            if fds:
                ours: Any = self._control  # descriptors go to watchers of this machine alone
                data = data[ours.sendmsg([data], packed(fds), NO_SIGPIPE) :]
            self._control.sendall(data, NO_SIGPIPE)
        except OSError:
            return False
        return True


def answer_on(control: socket | ExecSocket, timeout_s: float) -> dict[str, Any] | None:
    """The next answer of a watcher; None when it has ended, or cannot be run. Raises TimeoutError."""
    data = b""
    try:
        control.settimeout(timeout_s)
        while not data.endswith(b"\n"):
            if not (piece := control.recv(4096)):
                return None
            data += piece
        control.settimeout(None)
        found: dict[str, Any] = json.loads(data)
    except TimeoutError:
        raise
    except (OSError, ValueError):  # ValueError: the engine says why it cannot run the command
        return None
    return found


def _start(lock: RecordLock, listener: int | None, name: str) -> tuple[socket, int]:
    """Start a watcher, with a socket for other clients or None; returns this end of its first connection."""
    from launcher.schedulers.holder import start_holder

    passed = (each for each in os.environ if each in _PASSED_ENV or each.startswith(_PASSED_ENV_PREFIXES))
    pid, ours = start_holder(
        "watcher",
        paths.program(_MAIN),
        control=CONTROL_FD,
        descriptors={} if listener is None else {LISTENER_FD: listener},
        log=record.watcher_log(lock.app_dir),
        env={each: os.environ[each] for each in passed},
        args=(record.apps_dir(), name),
    )
    return ours, pid


def wait_for_exit(app_dir: str, timeout_s: float) -> bool:
    """Wait until no process here holds the app's lock; False when one still does after `timeout_s`."""
    from time import monotonic, sleep

    began = monotonic()
    while record.is_locked(app_dir):
        waited_s = monotonic() - began
        if waited_s >= timeout_s:
            return False
        sleep(min(max(_SHORTEST_POLL_S, waited_s / 8), _LONGEST_POLL_S, timeout_s - waited_s))
    return True


def place_again(engine: Engine, container: Container) -> Place | None:
    """Take the share that a running app held under its last watcher, whatever was dealt out since.

    None for an app that held no share, or where it cannot be taken: the app runs on without it.
    """
    owner = Labels(container.labels).owner
    if not (held := container.labels.get(SHARE)) or owner is None or not owner.is_here:
        return None
    from launcher.schedulers.docker import share

    return share.take_from(held, engine.host)
