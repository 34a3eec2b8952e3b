"""Primitives of the tables: locks of folders, held FIFOs, files that are replaced as a whole.

A FIFO that its holder keeps open and locked hangs up for its readers when the holder closes it or dies. The
kernel releases the lock before the hang-up, so a reader that has found the FIFO locked will see the hang-up.
Supervisors import this module: it imports next to nothing.
"""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LOCK = "lock"
_HIGH = (900, 100)
"""The least descriptor of a proof: above those that programs use, below the usual limit."""
_MOST_BYTES = 64 * 1024
_PRIVATE = 0o600


class Locked:
    """The locks of several tables, always taken in the given order."""

    def __init__(self, tables: Iterable[str]) -> None:
        self._tables = tables
        self._fds: list[int] = []

    def __enter__(self) -> None:
        try:
            for table in self._tables:
                path = os.path.join(table, LOCK)
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
                self._fds.append(fd)
                fcntl.flock(fd, fcntl.LOCK_EX)
        except BaseException:
            self._close()
            raise

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        for fd in self._fds:
            os.close(fd)


def make_bell(path: str) -> int:
    """Make and hold a bell, a FIFO; returns the descriptor from which its holder reads input of others."""
    unlink(path)
    os.mkfifo(path, _PRIVATE)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def make_proof(path: str) -> int:
    """Make and hold a FIFO for the processes of an app; returns its descriptor, for them to inherit.

    Readers see its lock, and its hang-up when all have ended. A bell would not do: they could read its input.
    """
    unlink(path)
    os.mkfifo(path, _PRIVATE)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # no writer can open it without one
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(reader)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def bequeath(fd: int) -> int:
    """Replace a proof by a copy at a high number, which child processes inherit."""
    try:
        for least in _HIGH:
            try:
                return fcntl.fcntl(fd, fcntl.F_DUPFD, least)
            except OSError:  # the limit of open files is lower
                continue
        return fcntl.fcntl(fd, fcntl.F_DUPFD, 0)
    finally:
        os.close(fd)


def is_held(path: str) -> bool:
    """Whether a process holds a FIFO. Raises OSError as `open_held` does."""
    fd = open_held(path)
    if fd is not None:
        os.close(fd)
    return fd is not None


def open_held(path: str) -> int | None:
    """A descriptor of a bell that hangs up when its holder changes or dies; None when it is not held.

    Raises OSError where that is unknown, as in a process that may open no more files.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return fd
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def write_to(path: str, what: bytes) -> bool:
    """Write to a FIFO that another process holds; False where it is full. A dead holder gets nothing."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        os.write(fd, what)
    except BlockingIOError:
        return False  # the holder has enough input to look again
    finally:
        os.close(fd)
    return True


def drain(fd: int) -> bytes:
    """Return the input that a FIFO has."""
    try:
        return os.read(fd, _MOST_BYTES)
    except BlockingIOError:
        return b""


def read(path: str) -> bytes:
    """The beginning of a file; b"" where the file is missing or no regular file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return b""
    try:
        return os.read(fd, _MOST_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)


def read_whole(path: str) -> bytes:
    """The contents of a file; b"" where there is none."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            return file.read()
    except (FileNotFoundError, PermissionError):
        return b""


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe in its place without waiting for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def write(path: str, data: bytes) -> None:
    """Replace a file, as a whole, since readers may not have the lock of the table."""
    new = f"{path}.bell.new"
    with open(new, "wb", opener=open_private) as file:
        file.write(data)
    os.rename(new, path)


def unlink(path: str) -> None:
    """Remove a file; a failure, as for a folder in the place of a ticket, does no harm."""
    try:
        os.unlink(path)
    except OSError:
        pass


def open_private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE)
