"""The addresses at which clients find a shared watcher: one for each state folder and kind of watcher.

They are abstract: the kernel frees an address when the last process that listens there ends, however it ends.

One watcher serves one state folder, endpoint with its credentials, engine id, user, boot of the machine,
interpreter, and version of this package: a client that differs in any of these computes another address.

- A client connects, and sends its order with the descriptors of its app. The watcher answers once it has the
  app. Where nothing listens, the client listens itself, and starts a watcher that inherits the socket: others
  may connect before it has loaded its modules.
- A watcher without apps closes the socket and ends, unless a client has connected. The connection of a client
  that was a moment late breaks before any answer, and that client begins again. Until then the client has
  sent nothing but the order, and has kept its descriptors.
- When a watcher does not answer in time, the client leaves it alone (`forget` on the connection withdraws the
  order), and starts a watcher for its app alone. So does a client that cannot listen.

Any user may listen at an abstract address, or connect to one: a process of another user counts as none.

`Connection` is the watcher's end of a connection. Messages are JSON objects, one a line; descriptors come
with the first of them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from _socket import AF_UNIX, SOCK_STREAM, SOL_SOCKET, socket
from contextlib import suppress
from errno import EADDRINUSE

from launcher.schedulers import pids
from launcher.schedulers.docker import records_root
from launcher.schedulers.holder import CLOEXEC, NO_SIGPIPE, ROOM, unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from socket import socket as Socket
    from typing import Any

    from launcher.schedulers.docker.client.engine import Engine

_TRIES = 20
_AGAIN_S = 0.01
_SO_PEERCRED = 17  # of Linux
_QUEUE = 4096  # connected clients that may wait; the system's limit may be lower
ANSWER_S = 20.0
"""How long a watcher may take to answer a client: it may be loading its modules on a busy machine."""

IN_CONTAINER = "engine"
"""The name of the watcher in a container of the engine; see `watcher.py`."""
_LISTENS_S = 0.02
_READ_S = 10.0  # how long a client may take to read an answer
_PIECE = 1 << 16
_WRITING = 1  # SHUT_WR

# Variables, beside those of Docker, that decide how a process reaches an engine and logs in to it.
_ENVIRONMENT = ("HOME", "LD_LIBRARY_PATH", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")


def _address(name: str) -> str:
    """The address of a watcher of this state folder. Raises OSError where that has no records yet."""
    found = os.stat(os.path.join(records_root(), "apps"))
    return f"\0launcher-watcher-{found.st_dev:x}-{found.st_ino:x}-{name}"


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


def connect(name: str) -> socket | None:
    """Connect to a watcher; None where no watcher listens."""
    made = socket(AF_UNIX, SOCK_STREAM)
    try:
        made.settimeout(ANSWER_S)
        made.connect(_address(name))
        made.settimeout(None)
        if _is_ours(made):
            return made
    except OSError:
        pass
    made.close()
    return None


def listen(name: str) -> socket | None:
    """Listen at the address of a watcher; None where another process does. Raises OSError."""
    made = socket(AF_UNIX, SOCK_STREAM)
    try:
        made.bind(_address(name))
        made.listen(_QUEUE)
    except OSError as error:
        made.close()
        if error.errno != EADDRINUSE:
            raise
        return None
    return made


def _is_ours(connected: Any) -> bool:
    """Whether the process at the other end belongs to this user, or to root."""
    credentials = connected.getsockopt(SOL_SOCKET, _SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder) in (0, os.geteuid())


def reach(name: str, start: Callable[[int | None, str], tuple[socket, int]]) -> tuple[socket, int]:
    """A connection to the watcher of this name, and the watcher's pid if this call started it, else 0.

    Args:
        start: starts a watcher with a socket to listen to, if any, and a name.

    Raises SchedulerError.
    """
    try:
        for _ in range(_TRIES):
            if (found := connect(name)) is not None:
                return found, 0
            if (listener := listen(name)) is not None:
                try:
                    return start(listener.fileno(), name)
                finally:
                    listener.close()
            time.sleep(_AGAIN_S)  # another client is about to listen
    except OSError:  # this system has no such addresses
        pass
    return start(None, "")


class Listening:
    """The watcher's side of its socket, at which clients hand over their apps."""

    def __init__(self, listener: Socket) -> None:
        listener.setblocking(False)
        self.listener = listener

    def accept(self) -> Iterator[Socket]:
        """The clients that have connected."""
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            if _is_ours(client):
                yield client
            else:
                client.close()

    def retire(self) -> list[Socket]:
        """Close the socket, so that the next client starts another watcher, unless a client has connected.

        Returns the connected clients.
        """
        late = list(self.accept())
        if not late:
            self.listener.close()
        return late


class Connection:
    """The watcher's end of a connection, which never blocks.

    Attributes:
        fds: the received descriptors, until they are taken.
        task: the app that the client has handed over, in the loop of the watcher.
    """

    def __init__(self, client: Socket) -> None:
        client.setblocking(False)
        self._socket = client
        self._left = b""
        self.fds: list[int] = []
        self.task: Any = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def messages(self) -> Iterator[dict[str, Any]]:
        """The received messages; the last one is `{"op": "end"}` once the client has gone."""
        while True:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(_PIECE, ROOM, CLOEXEC)
            except BlockingIOError:
                return
            except OSError:  # the client was killed with unread input
                data, ancillary = b"", []
            self.fds += unpacked(ancillary)
            for fd in self.fds if not CLOEXEC else ():
                os.set_inheritable(fd, False)  # else an ssh process with the lock looks like a watcher
            if not data:
                yield {"op": "end"}
                return
            *lines, self._left = (self._left + data).split(b"\n")
            yield from map(json.loads, lines)

    def answer(self, message: dict[str, Any]) -> None:
        """Send a short message, unless the client has gone."""
        with suppress(OSError):
            self._socket.send(json.dumps(message).encode() + b"\n", NO_SIGPIPE)

    def answer_in_full(self, message: dict[str, Any]) -> None:
        """Send a message of any length, unless the client has gone or does not read it. It may block."""
        with suppress(OSError):
            self._socket.settimeout(_READ_S)
            self._socket.sendall(json.dumps(message).encode() + b"\n", NO_SIGPIPE)

    def close(self) -> None:
        """Close the connection, and the descriptors that were not taken."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        self._socket.close()


def pump() -> None:
    """Connect stdin and stdout to the watcher in this container: a client runs this to hand over an app.

    Copies until the watcher closes the connection. Exits with 1 when no watcher listens in time.
    """
    import select

    deadline = time.monotonic() + ANSWER_S
    while (watcher := connect(IN_CONTAINER)) is None:
        if time.monotonic() > deadline:
            sys.exit(1)
        time.sleep(_LISTENS_S)
    sources = [0, watcher.fileno()]
    while watcher.fileno() in sources:
        for each in select.select(sources, (), ())[0]:
            data = os.read(each, _PIECE)
            if not data:
                sources.remove(each)
                if each == 0:
                    watcher.shutdown(_WRITING)
            elif each == 0:
                watcher.sendall(data)
            else:
                os.write(1, data)
