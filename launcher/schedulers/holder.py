"""Start a process that holds apps, with a socket to its client, and pass descriptors over the socket.

Such a process is a supervisor, a line holder or a watcher.
"""

from __future__ import annotations

import os
import sys
from _socket import (  # module `socket` loads enum and selectors
    CMSG_SPACE,
    SCM_RIGHTS,
    SOL_SOCKET,
    socket,
    socketpair,
)
from collections.abc import Iterable, Mapping, Sequence
from fcntl import F_DUPFD_CLOEXEC, fcntl

from launcher import paths
from launcher.errors import SchedulerError

NO_SIGPIPE = 0x4000 if sys.platform == "linux" else 0  # MSG_NOSIGNAL
"""Flag of `send`: without it a host program that restored SIGPIPE would die with the holder."""

_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""The variables that a process of local apps gets: those of the loader and the locale alone."""

_ABOVE = 10  # the client's copies lie above the descriptor numbers that the holder uses


def start_bare(
    name: str,
    module: str,
    *,
    control: int,
    log: str,
    descriptors: Mapping[int, int] = {},
    args: Sequence[str] = (),
) -> tuple[int, socket]:
    """Start a module as `start_holder` does; without site-packages, with only `_KEPT` of the environment."""
    return start_holder(
        name,
        paths.program(module),
        control=control,
        descriptors=descriptors,
        log=log,
        env={each: os.environ[each] for each in _KEPT if each in os.environ},
        flags=("-S",),
        args=args,
    )


def start_holder(
    name: str,
    main: str,
    *,
    control: int,
    descriptors: Mapping[int, int],
    log: str,
    env: Mapping[str, str],
    flags: Sequence[str] = (),
    args: Sequence[str] = (),
) -> tuple[int, socket]:
    """Start a program in a process of its own; returns its pid and this end of the control socket.

    Args:
        name: the kind of process, for errors.
        main: the text of the program.
        control: the descriptor number of its end of the socket.
        descriptors: number in the new process → a descriptor of this process, which is copied.
        log: the file for its stderr.
        flags: flags of the interpreter, beside `-I`.

    Raises SchedulerError when no process can be started.
    """
    if not sys.executable:
        raise SchedulerError(f"cannot start a {name}: this Python does not know its own executable")
    argv = [sys.executable, "-I", *flags, "-X", f"utf8={sys.flags.utf8_mode}", "-c", main, *args]
    opened: list[int] = []
    try:
        ours, theirs = socketpair()  # where no process can be started, the end of these objects closes them
        passed = {control: theirs.fileno(), **descriptors}
        opened += (fcntl(fd, F_DUPFD_CLOEXEC, _ABOVE) for fd in passed.values())
        actions = _file_actions(log, dict(zip(passed, opened, strict=True)))
        pid = os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True)
        theirs.close()
        return pid, ours
    except OSError as error:
        raise SchedulerError(
            f"cannot start a {name}: {error.strerror or error}",
            hint=paths.remedy(error, "the machine may be out of processes, files or memory"),
        ) from error
    finally:
        for fd in opened:
            os.close(fd)


def _file_actions(
    log: str, descriptors: Mapping[int, int]
) -> list[tuple[int, ...] | tuple[int, int, str, int, int]]:
    """The opens and copies for a new process: no input or output, errors to `log`, descriptors by number."""
    return [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        *((os.POSIX_SPAWN_DUP2, fd, number) for number, fd in descriptors.items()),
    ]


# -- descriptors over the socket -----------------------------------------------------------------------------

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
