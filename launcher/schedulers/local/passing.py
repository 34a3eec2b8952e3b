"""Messages that hand descriptors over to another process; see `control`."""

from __future__ import annotations

from _socket import socket  # `socket` loads enum and selectors

from launcher.schedulers.descriptors import CLOEXEC, ROOM, packed, unpacked
from launcher.schedulers.local.control import CHUNK, Inbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class FdInbox(Inbox):
    """Assembles messages, and keeps the descriptors that come with them."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._socket = socket(fileno=fd)
        self._fds: list[int] = []

    def read(self) -> bool:
        try:
            piece, more, *_ = self._socket.recvmsg(CHUNK, ROOM, CLOEXEC)
        except ConnectionResetError:
            return False
        self._fds += unpacked(more)
        self._pieces += piece
        return bool(piece)

    def take_fds(self) -> list[int]:
        """The descriptors that have come since the last call."""
        fds, self._fds = self._fds, []
        return fds

    def drop(self) -> None:
        """Forget what was read: the descriptors alone are the message."""
        self._pieces.clear()


def send_with(fd: int, data: bytes, fds: Sequence[int]) -> None:
    """Write to a socket, with copies of these descriptors. Raises OSError where the other end is closed."""
    own = socket(fileno=fd)
    try:
        rest = memoryview(data)
        rest = rest[own.sendmsg([rest], packed(fds)) :]
        while rest:
            rest = rest[own.send(rest) :]
    finally:
        own.detach()
