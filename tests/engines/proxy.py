"""A proxy before the engine's socket: it notes every request, and can refuse, delay and break it off."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.engines.docker import Daemon

Allowed = Callable[[str, str], bool]
Delay = Callable[[str, str], float]
_BODY = b'{"message":"this proxy lets nothing be written"}'
_REFUSAL = (
    b"HTTP/1.1 %d Refused\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)


def reads_only(method: str, _path: str) -> bool:
    return method in ("GET", "HEAD")


def everything(_method: str, _path: str) -> bool:
    return True


def at_once(_method: str, _path: str) -> float:
    return 0.0


class Proxy:
    """The engine behind another socket. `seen` lists what was asked ("GET /v1.41/info"), refused or not.

    While it `is_closed`, as an engine that stops, it serves open connections and turns new ones away.
    `delay_s` says how long a request waits before the engine gets it, as at an engine that is slow.
    A request that is not `allowed` is answered with `status`, or with the end of the connection for 0.

    Requests are told apart by their heads, so only bodies of requests that are let through may be large.
    """

    def __init__(
        self, path: Path, allowed: Allowed = reads_only, delay_s: Delay = at_once, status: int = 403
    ) -> None:
        self.status = status
        self.path = path
        self.delay_s = delay_s
        self.allowed = allowed
        self._engine = Daemon().socket_path  # now: DOCKER_HOST may soon name this proxy
        self.seen: list[str] = []
        self.refused: list[str] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(64)
        self._open: set[socket.socket] = set()
        self.is_closed = False
        self.turned_away = 0
        self._streams: Counter[int] = Counter()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def host(self) -> str:
        return f"unix://{self.path}"

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.break_off()

    def break_off(self) -> None:
        """Make the engine unreachable for clients of the proxy: open connections end, new ones fail."""
        self.path.unlink(missing_ok=True)
        for connection in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def streams(self, pid: int | None = None) -> int:
        """Return how many streams of events have begun so far: of all clients, or of one process."""
        return self._streams.total() if pid is None else self._streams[pid]

    def cut(self) -> None:
        """End every open connection; new ones are served."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def switch(self, engine: str) -> None:
        """Serve another engine, at this path of its socket, from now on: open connections end."""
        self._engine = engine
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.is_closed:
                    self.turned_away += 1
                    client.close()
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as engine, client:
            self._open |= {client, engine}
            asked: list[str] = []
            back = threading.Thread(target=self._pass_back, args=(engine, client, asked), daemon=True)
            with contextlib.suppress(OSError):
                engine.connect(self._engine)
                back.start()
                self._pass_on(client, engine, asked)
            for end in (client, engine):  # or the thread that copies back waits for ever
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            if back.ident is not None:
                back.join()  # before the descriptors are closed: their numbers go to the next connection
            self._open -= {client, engine}

    def _pass_on(self, client: socket.socket, engine: socket.socket, asked: list[str]) -> None:
        """Request after request of one connection, each with its body where Content-Length tells of one."""
        pending = b""
        while True:
            while b"\r\n\r\n" not in pending:
                if not (got := client.recv(65536)):
                    return
                pending += got
            head, _, pending = pending.partition(b"\r\n\r\n")
            method, path = head.split(b" ", 2)[:2]
            request = f"{method.decode()} {path.decode()}"
            self.seen.append(request)
            if not self.allowed(method.decode(), path.decode()):
                self.refused.append(request)
                _pass_body(head, pending, client, None)  # a client that still writes gets no answer
                if not self.status:
                    return
                client.sendall(_REFUSAL % (self.status, len(_BODY), _BODY))
                return
            time.sleep(self.delay_s(method.decode(), path.decode()))
            asked.append(request)
            engine.sendall(head + b"\r\n\r\n")
            if b"transfer-encoding: chunked" in head.lower():
                engine.sendall(pending)
                _copy(client, engine)
                return
            pending = _pass_body(head, pending, client, engine)

    def _pass_back(self, engine: socket.socket, client: socket.socket, asked: list[str]) -> None:
        is_stream = False
        with contextlib.suppress(OSError):
            while got := engine.recv(65536):
                client.sendall(got)
                if not is_stream and any("/events" in each for each in asked):
                    is_stream = True
                    self._streams[_peer(client)] += 1
                asked.clear()
        with contextlib.suppress(OSError):  # also when the engine was killed, which resets the connection
            client.shutdown(socket.SHUT_WR)


def _peer(client: socket.socket) -> int:
    """Return the process that opened a connection."""
    found = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", found)[0])


def _pass_body(head: bytes, pending: bytes, client: socket.socket, engine: socket.socket | None) -> bytes:
    """Read as much as the head announces, send it on where an engine is given; what lies beyond it."""
    left = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            left = int(line.partition(b":")[2])
    while left > len(pending):
        if engine is not None:
            engine.sendall(pending)
        left -= len(pending)
        if not (pending := client.recv(65536)):
            return b""
    # Sending nothing fails, too, at an engine that has answered and closed the connection.
    if left and engine is not None:
        engine.sendall(pending[:left])
    return pending[left:]


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while got := source.recv(65536):
            sink.sendall(got)
    with contextlib.suppress(OSError):  # also when the engine was killed, which resets the connection
        sink.shutdown(socket.SHUT_WR)
