"""Messages between a client and its supervisor: four bytes of length, then a marshalled value.

marshal is built in and needs no import of ours; both ends run the same interpreter.
"""

from __future__ import annotations

import marshal
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONTROL_FD, LOCK_FD = 3, 4
"""Where a supervisor finds its end of the socket, and the lock of the app."""

CHUNK = 65536


def pack(message: Any) -> bytes:
    body = marshal.dumps(message)
    return len(body).to_bytes(4, "little") + body


def send(fd: int, message: Any) -> bool:
    """Write one message; False when the other end is gone."""
    rest = memoryview(pack(message))
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


class Inbox:
    """Puts messages together from the pieces that arrive."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pieces = bytearray()

    def read(self) -> bool:
        """Take what is there, waiting for it if need be; False when the other end is closed or dead."""
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
        pieces, self._pieces = self._pieces, self._pieces[end:]  # a new one: the old may have megabytes
        return marshal.loads(memoryview(pieces)[4:end])
