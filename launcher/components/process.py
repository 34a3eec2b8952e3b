"""Start, query and kill the process that calls components."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import suppress
from subprocess import DEVNULL, Popen

MAX_ANSWER_BYTES = 16 << 20

_LOOK_S = 0.1  # how often a silent process is checked: a child that it forked may hold its socket open
_BOOT = "import sys; sys.path[:] = sys.argv[3:]; from launcher.components.worker import main; "
_BOOT += "main(int(sys.argv[1]), float(sys.argv[2]))"


class DiedError(Exception):
    """The process ended, or its answer was too long; the message says which."""


class ComponentProcess:
    """The process, in its own group, and the launcher's end of its socket. Raises OSError."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._channel, theirs = socket.socketpair()
        try:
            with theirs:
                path = [entry for entry in sys.path if isinstance(entry, str)]
                self._process = Popen(
                    [sys.executable, "-c", _BOOT, str(theirs.fileno()), str(timeout_s), *path],
                    stdin=DEVNULL,
                    stdout=2,  # the launcher's stdout may be a document
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except BaseException:
            self._channel.close()
            raise

    def ask(self, line: bytes) -> bytes:
        """The line that answers `line`. Raises TimeoutError, DiedError."""
        deadline = time.monotonic() + self.timeout_s
        self._channel.settimeout(self.timeout_s)
        try:
            self._channel.sendall(line + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            raise DiedError(self._ending()) from None
        answer = bytearray()
        while not answer.endswith(b"\n"):
            answer += self._received(deadline)
            if len(answer) > MAX_ANSWER_BYTES:
                raise DiedError(f"makes an app of more than {MAX_ANSWER_BYTES >> 20} MiB")
        return bytes(answer)

    def _received(self, deadline: float) -> bytes:
        while True:
            is_over = self._has_ended()
            left = deadline - time.monotonic()
            self._channel.settimeout(max(0.001, min(left, _LOOK_S)))
            try:
                piece = self._channel.recv(1 << 16)
            except ConnectionResetError:
                piece = b""
            except TimeoutError:
                if left <= 0:
                    raise
                if not is_over:
                    continue
                piece = b""
            if not piece:
                raise DiedError(self._ending())
            return piece

    def _has_ended(self) -> bool:
        """Whether the process has ended. Its exit status is not collected, so its group id is not reused."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, flags) is not None

    def _ending(self) -> str:
        self._kill()
        code = self._process.wait()
        if code >= 0:
            return f"ended its process with exit code {code} instead of returning an AppDef"
        with suppress(ValueError):  # a real-time signal has no name
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"

    def _kill(self) -> None:
        """Kill the group, unless the exit status was collected: then the id may have been reused."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self) -> None:
        self._channel.close()
        self._kill()
        self._process.wait()
