"""The process that calls components of job files: how to start, ask and kill it, and its program.

It reads calls from a socket, one line of JSON each, and answers each with a line. A component that crashes
ends only this process, and the launcher reports how it ended.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from subprocess import DEVNULL, Popen
from typing import Any

from launcher.components.evaluate import Call, evaluate, failed
from launcher.components.finder import get_component
from launcher.errors import LauncherError

MAX_ANSWER_BYTES = 16 << 20

MAX_DATA_BYTES = 8 << 30
"""The memory limit of the process: a component that needs more fails, and the launcher continues."""

_LATE_S = 5.0  # the launcher ends slow calls itself; this limit is for a launcher that has died
_LOOK_S = 0.1  # seconds between checks of a silent process, whose socket a forked child may keep open
_BOOT = "import sys; sys.path[:] = sys.argv[3:]; from launcher.components.process import main; "
_BOOT += "main(int(sys.argv[1]), float(sys.argv[2]))"


class DiedError(Exception):
    """The process has ended, or its answer was too long; the message says which of both."""


class ComponentProcess:
    """The process, in its own process group, and the launcher's end of the socket. Raises OSError."""

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
        """Send `line`, and return the line that answers it. Raises TimeoutError, DiedError."""
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
            # The exit status is not collected, so the group id is not reused.
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            is_over = os.waitid(os.P_PID, self._process.pid, flags) is not None
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


def main(descriptor: int, timeout_s: float) -> None:
    """Answer calls until the launcher closes its end."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, MAX_DATA_BYTES)
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rb") as lines:
        for line in lines:
            signal.setitimer(signal.ITIMER_REAL, timeout_s + _LATE_S)
            answer = json.dumps(_answer(json.loads(line)))
            signal.setitimer(signal.ITIMER_REAL, 0)
            channel.sendall(answer.encode() + b"\n")


def _answer(value: dict[str, Any]) -> dict[str, Any]:
    call = Call.from_json(value)
    name = call.component
    try:
        return evaluate(partial(get_component, name, folder=call.folder), call).to_json()
    except LauncherError as error:  # metadata that JSON cannot hold
        return failed(name, "invalid-value", f"component `{name}`: {error}", hint=error.hint or "").to_json()
    except BaseException as error:  # its own SystemExit or KeyboardInterrupt, a lack of memory or of stack
        why = f"component `{name}` failed: {type(error).__name__}: {error}"
        return failed(name, "invalid-value", why).to_json()


def _limit(what: int, wanted: int) -> None:
    _, hard = resource.getrlimit(what)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (limit, limit))
