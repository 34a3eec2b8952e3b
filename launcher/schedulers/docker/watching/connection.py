"""A client's connection to a watcher: JSON objects, one a line, and descriptors with the first of them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any

from launcher.schedulers.descriptors import CLOEXEC, ROOM, unpacked
from launcher.schedulers.holder import NO_SIGPIPE

_PIECE = 1 << 16
_ANSWER_S = 10.0


class Connection:
    """The watcher's end of a connection, which never blocks.

    Attributes:
        fds: the received descriptors, until they are taken.
        task: the app that the client has handed over, in the loop of the watcher.
    """

    def __init__(self, client: socket.socket) -> None:
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
            self._take_fds(ancillary)
            if not data:
                yield {"op": "end"}
                return
            *lines, self._left = (self._left + data).split(b"\n")
            yield from map(json.loads, lines)

    def _take_fds(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        self.fds += unpacked(ancillary)
        for fd in self.fds if not CLOEXEC else ():
            os.set_inheritable(fd, False)  # an ssh process with the inherited lock would look like a watcher

    def answer(self, message: dict[str, Any]) -> None:
        """Send a short message, unless the client has gone."""
        try:
            self._socket.send(json.dumps(message).encode() + b"\n", NO_SIGPIPE)
        except OSError:
            return

    def answer_in_full(self, message: dict[str, Any]) -> None:
        """Send a message of any length, unless the client has gone or does not read it. It may block."""
        try:
            self._socket.settimeout(_ANSWER_S)
            self._socket.sendall(json.dumps(message).encode() + b"\n", NO_SIGPIPE)
        except OSError:
            return

    def close(self) -> None:
        """Close the connection, and the descriptors that were not taken."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        self._socket.close()
