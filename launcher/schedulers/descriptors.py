"""Pass descriptors over a Unix socket, as ancillary data of `sendmsg` and `recvmsg`.

The supervisor of a single app needs none of it, and starts faster without the socket module.
"""

from __future__ import annotations

import sys
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET, socket  # module `socket` loads enum and selectors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_INT = 4
ROOM = CMSG_SPACE(64 * _INT)
"""How many bytes of ancillary data a reader makes room for: descriptors beyond 64 would be lost."""

CLOEXEC = 0x40000000 if sys.platform == "linux" else 0
"""Flag of `recvmsg`, MSG_CMSG_CLOEXEC: a program that is started meanwhile inherits none of them."""


def packed(fds: Iterable[int]) -> list[tuple[int, int, bytes]]:
    """Ancillary data that passes copies of descriptors."""
    return [(SOL_SOCKET, SCM_RIGHTS, b"".join(fd.to_bytes(_INT, sys.byteorder) for fd in fds))]


def unpacked(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with a message."""
    rights = [data for level, kind, data in ancillary if (level, kind) == (SOL_SOCKET, SCM_RIGHTS)]
    return [
        int.from_bytes(data[at : at + _INT], sys.byteorder)
        for data in rights
        for at in range(0, len(data) - len(data) % _INT, _INT)
    ]


class FdInbox:
    """The end of a socket at which descriptors arrive."""

    def __init__(self, fd: int) -> None:
        self._socket = socket(fileno=fd)
        self._fds: list[int] = []

    def read(self) -> bool:
        """Wait for a message, whose descriptors alone count; False when the other end is closed."""
        try:
            data, more, *_ = self._socket.recvmsg(65536, ROOM, CLOEXEC)
        except ConnectionResetError:
            return False
        self._fds += unpacked(more)
        return bool(data)

    def take_fds(self) -> list[int]:
        """The descriptors that have come since the last call."""
        fds, self._fds = self._fds, []
        return fds


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
