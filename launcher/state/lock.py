"""The lock of an apply, one per project and target.

It serialises applies of one state folder and names the holder. The reservation at the engine prevents double
starts, not this lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from launcher import paths
from launcher.errors import LockTimeoutError
from launcher.hashes import sha256
from launcher.paths import actor

_LONGEST_NAME = 200  # bytes, of the 255 that file systems allow


@contextmanager
def apply_lock(
    project: str, target: str, *, timeout_s: float | None = 60.0, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the lock of a project and target for the body of a `with`.

    The kernel releases it when the process dies. Waiting causes no wakeups, and Ctrl-C ends it.

    Args:
        timeout_s: how long to wait for the holder; 0 for not at all, None for ever.
        on_wait: called once before waiting, with the holder ("user@host, pid 17, since 2025-03-01 12:00:05").

    Raises LockTimeoutError; StateError when LAUNCHER_HOME cannot be written.
    """
    path = os.path.join(paths.ensure(paths.locks()), file_name(project, target))
    fd = _take(path, timeout_s, on_wait)
    try:
        owner = {"by": actor(), "pid": os.getpid(), "since": time.time()}
        # On a full disk the lock is held anyway, and the ledger will report the error.
        with suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(owner).encode(), 0)
        yield
    finally:
        # Unlock before closing: a child that was forked meanwhile still has the file open.
        os.ftruncate(fd, 0)
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def file_name(project: str, target: str) -> str:
    """The name of the lock's file: `project.target`, with all but letters, digits, `-` and `_` escaped."""
    name = f"{_escaped(project)}.{_escaped(target)}"
    if len(name) <= _LONGEST_NAME:
        return name

    return f"{name[:_LONGEST_NAME]}~{sha256(name.encode()).hexdigest()[:16]}"


def _escaped(name: str) -> str:
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "-_") else f"%{ord(char):x}%" for char in name
    )


def _take(path: str, timeout_s: float | None, on_wait: Callable[[str], None] | None) -> int:
    """A descriptor of the locked file."""
    fd = -1
    try:
        # Close-on-exec, as Python opens files: a supervisor that inherited it would hold the lock for ever.
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    except BlockingIOError:
        pass
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise paths.unusable(error, path) from error
    try:
        if timeout_s != 0 and on_wait is not None:
            on_wait(_owner(path))
    except BaseException:
        os.close(fd)
        raise
    if timeout_s == 0:
        os.close(fd)
    elif _Waiter(fd).wait(timeout_s):
        return fd
    waited = f"; waited {timeout_s:g} s for it" if timeout_s else ""
    raise LockTimeoutError(
        f"another apply is at work: {_owner(path)}{waited}", hint="try again when it is done, or wait longer"
    )


class _Waiter:
    """A thread that blocks in flock: the only way to wait for a lock, with a time limit, without polling.

    When the caller gives up, the thread closes the file as soon as it gets the lock.
    """

    def __init__(self, fd: int) -> None:
        import threading

        self._fd = fd
        self._got = threading.Event()
        self._deciding = threading.Lock()
        self._given_up = False
        self._thread = threading.Thread(target=self._block, name="launcher-lock", daemon=True)

    def wait(self, timeout_s: float | None) -> bool:
        """True when the descriptor is locked. On False or an exception the thread owns the descriptor."""
        try:
            self._thread.start()
            return self._got.wait(timeout_s) or not self._give_up()
        except BaseException:
            if not self._give_up():
                os.close(self._fd)
            raise

    def _give_up(self) -> bool:
        """Give up waiting; False when the lock was acquired at the same moment."""
        with self._deciding:
            self._given_up = not self._got.is_set()
            return self._given_up

    def _block(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        with self._deciding:
            if self._given_up:
                os.close(self._fd)
            else:
                self._got.set()


def _owner(path: str) -> str:
    """The holder of the lock, as text for users."""
    try:
        with open(path, "rb") as file:
            owner = json.load(file)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner["since"]))
        return f"{owner['by']}, pid {owner['pid']}, since {since}"
    except (OSError, ValueError, KeyError, TypeError):  # not written yet, or the lock was just released
        return "holder unknown"
