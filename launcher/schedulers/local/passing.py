"""Messages that hand descriptors over to another process; see `control`."""

from __future__ import annotations

import sys
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET, socket  # `socket` loads enum and selectors

from launcher.schedulers.local.control import CHUNK, Inbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_FDS, _INT = 16, 4
_CMSG_CLOEXEC = 0x40000000 if sys.platform == "linux" else 0  # MSG_CMSG_CLOEXEC


class FdInbox(Inbox):
    """Assembles messages, and keeps the descriptors that come with them."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._socket = socket(fileno=fd)
        self._fds: list[int] = []

    def read(self) -> bool:
        try:
            piece, more, *_ = self._socket.recvmsg(CHUNK, CMSG_SPACE(_MOST_FDS * _INT), _CMSG_CLOEXEC)
        except ConnectionResetError:
            return False
        for level, kind, data in more:
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
                whole = len(data) - len(data) % _INT
                self._fds += (
                    int.from_bytes(data[at : at + _INT], sys.byteorder) for at in range(0, whole, _INT)
                )
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
        rights = b"".join(each.to_bytes(_INT, sys.byteorder) for each in fds)
        rest = memoryview(data)
        rest = rest[own.sendmsg([rest], [(SOL_SOCKET, SCM_RIGHTS, rights)]) :]
        while rest:
            rest = rest[own.send(rest) :]
    finally:
        own.detach()
