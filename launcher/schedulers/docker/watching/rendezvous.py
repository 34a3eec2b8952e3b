"""The sockets at which clients find a shared watcher, below the state folder: one for each kind of watcher.

::

    $LAUNCHER_HOME/docker/watchers/
        lock            held while a watcher is started, and while one ends
        <name>          the socket of a watcher; the name is a hash of everything that its apps have in common

One watcher serves one state folder, endpoint with its credentials, engine id, user, boot of the machine,
interpreter, and version of this package: a client that differs in any of these computes another name.

- A client connects, and sends its order with the descriptors of its app. The watcher answers once it has the
  app. While there is no socket, or nothing listens to it, the client takes the lock, looks once more, makes
  the socket, and starts a watcher that inherits it: others may connect before it has loaded its modules.
- A watcher without apps takes the lock, and sees whether a client has connected. If not, it removes the
  socket and ends; the connection of a client that was a moment late breaks before any answer, and that client
  begins again. Until then the client has sent nothing but the order, and has kept its descriptors.
- When a watcher does not answer in time, the client leaves it alone (`forget` on the connection withdraws the
  order), and starts a watcher for its app alone. So does a client where no socket can be made.
- A killed watcher leaves a socket to which nothing listens. The next client replaces it, and removes such
  sockets of other names.
- The lock of an app names its holder, as ever, and the socket: a client that waits for the end of the watch
  connects there, and the connection ends with the watch (`await_end`). Other clients poll the lock.

A path may be too long for the address of a socket: it is given relative to an open descriptor of the folder.
"""

from __future__ import annotations

import json
import os
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket

from launcher import paths
from launcher.filelock import try_lock
from launcher.schedulers import pids
from launcher.schedulers.docker import records_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from socket import socket as Socket
    from typing import Any

    from launcher.schedulers.docker.client.engine import Engine

_LOCK = "lock"
_QUEUE = 4096  # connected clients that may wait; the system's limit may be lower
ANSWER_S = 20.0
"""How long a watcher may take to answer a client: it may be loading its modules on a busy machine."""

# Variables, beside those of Docker, that decide how a process reaches an engine and logs in to it.
_ENVIRONMENT = ("HOME", "LD_LIBRARY_PATH", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")


def folder() -> str:
    return os.path.join(records_root(), "watchers")


def name_of(engine: Engine, program: str) -> str:
    """The name of the watcher for apps of this engine; "" where each app has its own watcher.

    Args:
        program: the text that the interpreter runs.
    """
    from launcher.schedulers.docker.client.configuration import endpoint

    if sys.platform != "linux":
        return ""
    where = endpoint()
    if where.host != engine.host or where.host.startswith("ssh://"):
        return ""
    from hashlib import sha256

    environ = {name: os.environ.get(name) for name in os.environ if name.startswith("DOCKER_")}
    facts = {
        "endpoint": [where.host, {key: _stamped(value) for key, value in where.tls.items()}],
        "environment": {**environ, **{name: os.environ.get(name) for name in _ENVIRONMENT}},
        "engine": engine.engine_id(),
        "machine": [os.uname().nodename, pids.boot_id(), os.geteuid()],
        "python": [sys.executable, sys.version, sys.flags.utf8_mode],
        "program": [program, *map(_stamp, _sources())],
    }
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _stamped(value: Any) -> Any:
    """A value of TLS options, with the state of each file that it names."""
    if isinstance(value, str):
        return _stamp(value)
    return [_stamp(each) for each in value] if isinstance(value, (tuple, list)) else value


def _stamp(path: str) -> list[Any]:
    try:
        found = os.stat(path)
    except OSError:
        return [path]
    return [path, found.st_mtime_ns, found.st_size, found.st_ino]


def _sources() -> list[str]:
    """The source files of a watcher: a change of one makes a new version."""
    here = os.path.dirname(os.path.abspath(__file__))
    holding = os.path.join(here, *[os.pardir] * 3, "holding")
    return sorted(
        os.path.join(each, name)
        for each in (here, os.path.dirname(here), holding)
        for name in os.listdir(each)
        if name.endswith(".py")
    )


def connect(name: str, *, timeout_s: float = ANSWER_S, below: str = "") -> socket | None:
    """Connect to a watcher; None where no watcher listens.

    Args:
        below: the folder of its socket, where that is not `folder()`.
    """
    made = socket(AF_UNIX, SOCK_STREAM)
    try:
        made.settimeout(timeout_s)
        with _Folder(below or folder()) as there:
            made.connect(there.address(name))
        made.settimeout(None)
    except OSError:
        made.close()
        return None
    return made


def reach(name: str, start: Callable[[int | None, str], tuple[socket, int]]) -> tuple[socket, int]:
    """A connection to the watcher of this name, and its pid if this call has started it, else 0.

    Args:
        start: starts a watcher with a socket to listen to, if any, and a name.

    Raises StateError, SchedulerError.
    """
    found = connect(name)
    if found is not None:
        return found, 0
    paths.ensure(folder())
    try:
        with Locked() as locked:
            found = connect(name)
            if found is not None:
                return found, 0
            listener = locked.listen(name)
            try:
                return start(listener.fileno(), name)
            finally:
                listener.close()
    except OSError:  # this file system takes no socket
        return start(None, "")


class _Folder:
    """The folder, open. Its files have short addresses."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> _Folder:
        self.fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def address(self, name: str) -> str:
        return f"/proc/self/fd/{self.fd}/{name}"


class Locked:
    """Holds the lock of the folder, which must exist, within `with`. Raises OSError.

    Args:
        before_waiting: called when another process has the lock.
    """

    def __init__(self, before_waiting: Callable[[], object] = int) -> None:
        self._before_waiting = before_waiting

    def __enter__(self) -> Locked:
        import fcntl

        path = os.path.join(folder(), _LOCK)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not try_lock(self._fd):
                self._before_waiting()
                fcntl.flock(self._fd, fcntl.LOCK_EX)
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def listen(self, name: str) -> socket:
        """Make the socket, or replace one to which nothing listens. Raises OSError."""
        made = socket(AF_UNIX, SOCK_STREAM)
        try:
            with _Folder(folder()) as there:
                _unlink(name, there.fd)
                _remove_dead(there)
                made.bind(there.address(name))
                os.chmod(name, 0o600, dir_fd=there.fd)
            made.listen(_QUEUE)
        except BaseException:
            made.close()
            raise
        return made


class Listening:
    """The watcher's side of its socket, at which clients hand over their apps."""

    def __init__(self, listener: Socket, name: str) -> None:
        listener.setblocking(False)
        self.listener = listener
        self.name = name
        self._made = _stamp(os.path.join(folder(), name))

    def accept(self) -> Iterator[Socket]:
        """The clients that have connected."""
        while True:
            try:
                yield self.listener.accept()[0]
            except OSError:
                return

    def retire(self, before_waiting: Callable[[], object] = int) -> list[Socket]:
        """Remove the socket, so that the next client starts another watcher, unless a client has connected.

        Returns the connected clients.
        """
        late: list[Socket] = []
        try:
            with Locked(before_waiting):
                late += self.accept()
                path = os.path.join(folder(), self.name)
                if not late and _stamp(path) == self._made:
                    os.unlink(path)
        except OSError:  # the state folder was removed: no client finds this watcher
            late += self.accept()
        if not late:
            self.listener.close()
        return late


def _remove_dead(there: _Folder) -> None:
    """Remove the sockets of killed watchers."""
    for name in os.listdir(there.fd):
        if name != _LOCK:
            probe = socket(AF_UNIX, SOCK_STREAM)
            try:
                probe.setblocking(False)
                probe.connect(there.address(name))
            except ConnectionRefusedError:
                _unlink(name, there.fd)
            except OSError:  # its queue is full
                continue
            finally:
                probe.close()


def _unlink(name: str, fd: int) -> None:
    try:
        os.unlink(name, dir_fd=fd)
    except FileNotFoundError:
        return


def await_end(app_dir: str, name: str, timeout_s: float) -> bool:
    """Wait until the watcher with this socket no longer holds the app.

    False when it still holds the app after `timeout_s`, or cannot be asked.
    """
    below = os.path.join(os.path.dirname(os.path.dirname(app_dir)), "watchers")
    asked = connect(name, timeout_s=max(timeout_s, 0.001), below=below)
    if asked is None:
        return False
    try:
        asked.settimeout(max(timeout_s, 0.001))
        asked.sendall(json.dumps({"op": "await", "app_id": os.path.basename(app_dir)}).encode() + b"\n")
        return not asked.recv(1)
    except ConnectionError:
        return True
    except OSError:
        return False
    finally:
        asked.close()
