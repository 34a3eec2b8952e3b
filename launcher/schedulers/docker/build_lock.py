"""Build each image once at a time on this host, over all threads, processes and state folders of a user."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import Lock

from launcher import paths
from launcher.errors import StateError
from launcher.filelock import is_at, try_lock

_running: dict[str, Future[None]] = {}
_running_lock = Lock()


def once(name: str, work: Callable[[], None], waiting: Callable[[], None]) -> None:
    """Run `work`, or wait until another thread has run the work of this name, and raise its error.

    Args:
        waiting: called before this thread, or process, waits for another one.
    """
    with _running_lock:
        found = _running.get(name)
        ours = _running[name] = Future() if found is None else found
    if found is not None:
        waiting()
        found.result()
        return
    try:
        with exclusive(name, waiting):
            work()
    except BaseException as error:
        ours.set_exception(error)
        raise
    else:
        ours.set_result(None)
    finally:
        with _running_lock:
            del _running[name]


@contextmanager
def exclusive(name: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of this name against the other processes of this user on this host.

    There is no lock where its file cannot be made: two builds of one image are slow, not wrong.
    """
    root = paths.runtime()
    path = os.path.join(root, "builds", sha256(name.encode()).hexdigest())
    try:
        paths.ensure_private(root, os.path.dirname(path), "XDG_RUNTIME_DIR")
        fd = _locked(path, waiting)
    except (OSError, StateError):
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(fd)


def _locked(path: str, waiting: Callable[[], None]) -> int:
    """The open file, locked. Its holder removes it: then the next one locks another file."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not try_lock(fd):
            waiting()
            fcntl.flock(fd, fcntl.LOCK_EX)
        if is_at(fd, path):
            return fd
        os.close(fd)
