"""Start supervisors by forks of a process that has their modules, and no data of any app.

The holder of a line starts this process before it receives any request, and asks it for one supervisor at a
time: a fork of the holder would copy the secrets and the locks of all apps that it holds.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import gc
import os
import sys
from _socket import socket, socketpair  # module `socket` loads enum and selectors
from fcntl import F_DUPFD_CLOEXEC, fcntl
from marshal import dumps, loads
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

from launcher.schedulers.holder import FdInbox, send_with, start_bare
from launcher.schedulers.local import kernel, waiting
from launcher.schedulers.local.supervisor import Supervisor, begin, supervise
from launcher.schedulers.loop import CONTROL_FD, LOCK_FD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_FORK, _APP, _TAKEN = b"f", b"a", b"t"
LOADED = waiting
"""A module that each supervisor of an app in line needs, loaded here once for all forks."""
_LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class Starter:
    """The process that starts supervisors, for the holder of a line."""

    def __init__(self) -> None:
        self._socket: socket | None = None
        self._files, _ = getrlimit(RLIMIT_NOFILE)  # the user's limit, for replicas: a holder raises its own

    def begin(self) -> None:
        """Start the process. Raises SchedulerError."""
        folder = sys.argv[1]  # the folder of the apps, which identifies the process in a list
        self._socket = start_bare(
            "starter",
            "launcher.schedulers.local.starter",
            control=CONTROL_FD,
            log=os.devnull,
            args=(folder, str(self._files)),
        )[1]

    def start(self, request: dict[str, Any], fds: Sequence[int]) -> int:
        """Start a supervisor for an app; returns this end of the socket on which it confirms the takeover.

        Never blocks. Raises OSError or SchedulerError; a supervisor that could not be forked closes its end.

        Args:
            request: see `Supervisor.take`.
            fds: the app's lock, the descriptors of its share, and its client's if it waits.
        """
        if self._socket is None:
            self.begin()
        assert self._socket is not None
        ours, theirs = socketpair()
        memory = os.memfd_create("request")
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(dumps(request))
            send_with(ours.fileno(), _APP, [memory, *fds])
            self._fork(theirs.fileno())
        finally:
            theirs.close()
            os.close(memory)
        return ours.detach()

    def _fork(self, control: int) -> None:
        assert self._socket is not None
        try:
            send_with(self._socket.fileno(), _FORK, [control])
        except OSError:
            self._socket.close()
            self._socket = None  # the process has died; the next one gets another socket
            raise


def main() -> None:
    """Fork a supervisor for each socket that arrives, until the holder has gone."""
    kernel.close_from(CONTROL_FD + 1)
    setrlimit(RLIMIT_NOFILE, (int(sys.argv[2]), getrlimit(RLIMIT_NOFILE)[1]))
    begin()
    kernel.trim_memory()
    gc.freeze()  # a collection in a fork would copy the pages of all objects that it visits
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # the kernel collects the supervisors
    inbox = FdInbox(CONTROL_FD)
    while inbox.read():
        for fd in inbox.take_fds():
            if _fork() == 0:
                os.close(CONTROL_FD)
                _supervise(_move_up(fd))
            os.close(fd)
    os._exit(0)


def _fork() -> int:
    try:
        return os.fork()
    except OSError:  # no process can be made: the holder sees that the socket closes
        return -1


def _supervise(control: int) -> None:
    """Take over the app that arrives on a socket, and run it to its end."""
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    os.setsid()
    inbox = FdInbox(control)
    if not inbox.read():
        os._exit(0)
    memory, lock, *rest = [_move_up(fd) for fd in inbox.take_fds()]
    with open(memory, "rb") as file:
        file.seek(0)
        message = loads(file.read())
    client = rest.pop() if message["has_client"] else -1
    os.dup2(lock, LOCK_FD, inheritable=False)
    os.close(lock)
    errors = os.open(os.path.join(message["app_dir"], "supervisor.err"), _LOG, 0o600)
    os.dup2(errors, 2)
    os.close(errors)
    supervisor = Supervisor(client)
    supervisor.take(message, rest, lambda: os.write(control, _TAKEN))
    os.close(control)
    supervise(supervisor)


def _move_up(fd: int) -> int:
    """Move a descriptor above that of the lock."""
    if fd > LOCK_FD:
        return fd
    try:
        return fcntl(fd, F_DUPFD_CLOEXEC, LOCK_FD + 1)
    finally:
        os.close(fd)
