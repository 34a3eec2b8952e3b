"""Messages between a client and a process that holds apps, over a Unix socket.

A message is four bytes of length, then a marshalled value: `marshal` is built in and costs no import, and
both ends run the same interpreter.
"""

from __future__ import annotations

import marshal
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONTROL_FD, LOCK_FD = 3, 4
"""The descriptors of the supervisor's end of the socket and of the app's lock."""

CHUNK = 65536


def pack(message: Any) -> bytes:
    body = marshal.dumps(message)
    return len(body).to_bytes(4, "little") + body


def send(fd: int, message: Any) -> bool:
    """Write one message; False when the other end is closed."""
    rest = memoryview(pack(message))
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


class Inbox:
    """Assembles messages from the pieces that arrive."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pieces = bytearray()

    def read(self) -> bool:
        """Read available data, blocking until there is some; False when the other end is closed."""
        try:
            piece = os.read(self._fd, CHUNK)
        except ConnectionResetError:
            return False
        self._pieces += piece
        return bool(piece)

    def take(self) -> Any | None:
        """The next whole message; None while there is none."""
        end = 4 + int.from_bytes(self._pieces[:4], "little")
        if len(self._pieces) < max(4, end):
            return None
        pieces, self._pieces = self._pieces, self._pieces[end:]  # a new buffer: the old may have megabytes
        return marshal.loads(memoryview(pieces)[4:end])
