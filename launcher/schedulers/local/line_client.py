"""The client of the holder of a line: starts it, and hands it the apps that wait or are in line."""

from __future__ import annotations

import os
import resource
import select
from _socket import SHUT_WR, socketpair
from signal import SIGKILL
from typing import TYPE_CHECKING

from launcher.schedulers import pids
from launcher.schedulers.holder import start_bare
from launcher.schedulers.local import appview
from launcher.schedulers.local.control import CONTROL_FD
from launcher.schedulers.local.passing import send_with
from launcher.schedulers.local.supervisor_client import SupervisorClient

if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence

    from launcher.specs.attempt import AttemptState
    from launcher.specs.launch import InputRef
    from launcher.turns.ask import Ask

_APP = b"a"


class LineClient:
    """The holders that this client has started: one, and more where that may open no more files.

    Args:
        apps_dir: where the apps have their folders; the process has it as its argument.
    """

    def __init__(self, apps_dir: str) -> None:
        self._apps_dir = apps_dir
        self._socket: socket | None = None
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2
        self._count = 0

    def hold(self, app_dir: str, lock_fd: int) -> SupervisorClient:
        """Have an app held. The holder takes over the lock: the caller closes its copy of `lock_fd`.

        Raises SchedulerError when no holder can be started. One thread at a time.
        """
        ours, theirs = socketpair()
        try:
            self._pass((theirs.fileno(), lock_fd))
        finally:
            theirs.close()
        return HeldClient(app_dir, 0, ours)

    def _pass(self, fds: tuple[int, ...]) -> None:
        if self._socket is not None and self._count < self._most:
            try:
                send_with(self._socket.fileno(), _APP, fds)
                self._count += 1
                return
            except OSError:  # it was killed
                pass
        self.close()
        self._socket = start_bare(
            "line holder",
            "launcher.schedulers.local.line_holder",
            control=CONTROL_FD,
            log=os.path.join(os.path.dirname(self._apps_dir), "line.err"),
            args=(self._apps_dir,),
        )[1]
        self._count = 1
        send_with(self._socket.fileno(), _APP, fds)

    def close(self) -> None:
        """Let the holder go on alone."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class HeldClient(SupervisorClient):
    """The client of one app in a process that holds many. See `SupervisorClient`."""

    def __del__(self) -> None:
        self._drop()

    def go(
        self,
        needs: Sequence[tuple[str, str]] = (),
        turn: Ask | None = None,
        inputs: InputRef | None = None,
    ) -> AttemptState:
        accepted = super().go(needs, turn, inputs)
        self._drop()
        return accepted

    def close(self) -> None:
        """Hang up: the process removes an app that it has not accepted, and hangs up, too."""
        if self._control is not None:
            try:
                self._control.shutdown(SHUT_WR)
            except OSError:  # the other end is closed
                pass

    def reap(self, *, block: bool = False) -> bool:
        return True

    def ends(self, timeout_s: float) -> bool:
        """Whether its process let go of the app within `timeout_s`."""
        if self._control is None:
            return True
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        while poll.poll(timeout_s * 1000):
            if self._receive() is None:
                return True
        return False

    def kill(self) -> None:
        """SIGKILL to the supervisor, if it has one by now."""
        view = appview.read_state(self.app_dir)
        if view is not None and view.supervisor is not None and view.supervisor[2] == pids.boot_id():
            pids.send(*view.supervisor[:2], SIGKILL)
