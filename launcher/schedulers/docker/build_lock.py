"""Build each image once at a time on this host, over all threads, processes and state folders.

The lock between processes is a Unix socket without a file (an abstract address), which the kernel frees when
its process ends, however it ends. Waiting processes are connected to it, and the end of the connection wakes
them.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from hashlib import sha256
from struct import unpack
from threading import Lock

_AGAIN_S = 0.02
_WAITING = 128  # connections that the holder's socket queues; further processes poll

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

    Any user's process may hold the lock, but only processes of this user are waited for. Only Linux has such
    sockets: elsewhere there is no lock.
    """
    if sys.platform != "linux":
        yield
        return
    address = "\0launcher-build-" + sha256(name.encode()).hexdigest()
    held = _claim(address)
    if held is None:
        waiting()
    while held is None and _wait(address):
        held = _claim(address)
    try:
        yield
    finally:
        if held is not None:
            held.close()


def _claim(address: str) -> socket.socket | None:
    """Take the lock; None when another process holds it."""
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(address)
        made.listen(_WAITING)
    except OSError:
        made.close()
        return None
    return made


def _wait(address: str) -> bool:
    """Wait until the holder releases the lock or ends; False when another user's process holds it."""
    with socket.socket(socket.AF_UNIX) as waiting:
        try:
            waiting.setblocking(False)
            waiting.connect(address)
        except OSError:  # the holder has just ended, does not listen yet, or its queue is full
            time.sleep(_AGAIN_S)
            return True
        waiting.setblocking(True)
        if _owner(waiting) not in (os.getuid(), 0):
            return False
        try:
            waiting.recv(1)
        except OSError:
            pass  # the holder ended or closed the connection: both end the wait
    return True


def _owner(connected: socket.socket) -> int:
    """The user id of the process at the other end, from the kernel."""
    option = getattr(socket, "SO_PEERCRED", 17)  # Linux alone has it
    _, uid, _ = unpack("3i", connected.getsockopt(socket.SOL_SOCKET, option, 12))
    return int(uid)
