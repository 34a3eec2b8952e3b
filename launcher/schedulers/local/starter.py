"""Start supervisors by a fork of a process that has their modules, and nothing of any app.

The holder of a line asks this process, which it starts before it receives any request, for one supervisor at
a time: a fork of the holder would copy the secrets and the locks of all apps that it holds.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os
import sys
from _socket import socket, socketpair  # `socket` loads enum and selectors
from fcntl import F_DUPFD_CLOEXEC, fcntl

from launcher import paths
from launcher.schedulers.holder import start_holder
from launcher.schedulers.local import kernel
from launcher.schedulers.local.control import CONTROL_FD, LOCK_FD
from launcher.schedulers.local.passing import FdInbox, send_with
from launcher.schedulers.local.supervisor import Supervisor, begin, supervise

_MAIN = (
    f"import sys; sys.path.insert(0, {paths.IMPORT_ROOT!r});"
    " from launcher.schedulers.local.starter import main; main()"
)
_FORK, _TAKEN = b"f", b"t"
_LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class Starter:
    """The process that starts supervisors, for the holder of a line."""

    def __init__(self) -> None:
        self._socket: socket | None = None

    def begin(self) -> None:
        """Start it. Raises SchedulerError."""
        self._socket = start_holder(
            "starter",
            _MAIN,
            control=CONTROL_FD,
            descriptors={},
            log=os.devnull,
            env=os.environ,
            flags=("-S",),
        )[1]

    def fork(self) -> int:
        """Start a supervisor: this end of the socket on which it waits for its app.

        Raises OSError or SchedulerError; a supervisor that could not be forked closes its end.
        """
        if self._socket is None:
            self.begin()
        assert self._socket is not None
        ours, theirs = socketpair()
        try:
            send_with(self._socket.fileno(), _FORK, [theirs.fileno()])
        except OSError:
            self._socket.close()
            self._socket = None  # it has died; the next one gets another
            raise
        finally:
            theirs.close()
        return ours.detach()


def main() -> None:
    """Fork a supervisor for each socket that arrives, until the holder has gone."""
    kernel.close_from(CONTROL_FD + 1)
    begin()
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # the kernel collects the supervisors
    inbox = FdInbox(CONTROL_FD)
    while inbox.read():
        inbox.drop()
        for fd in inbox.take_fds():
            if _fork() == 0:
                os.close(CONTROL_FD)
                _supervise(_move_up(fd))
            os.close(fd)
    os._exit(0)


def _fork() -> int:
    try:
        return os.fork()
    except OSError:  # no process to be had: the holder sees that the socket closes
        return -1


def _supervise(control: int) -> None:
    """Take over the app that arrives on a socket, and run it to its end."""
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    os.setsid()
    inbox = FdInbox(control)
    while (message := inbox.take()) is None:
        if not inbox.read():
            os._exit(0)
    lock, *rest = [_move_up(fd) for fd in inbox.take_fds()]
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
    """The same descriptor above that of the lock."""
    if fd > LOCK_FD:
        return fd
    try:
        return fcntl(fd, F_DUPFD_CLOEXEC, LOCK_FD + 1)
    finally:
        os.close(fd)
