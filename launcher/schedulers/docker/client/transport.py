"""Open connections to an engine without a TCP port: by a socket of this machine, or by `ssh`."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import subprocess


class Dialer(Protocol):
    """Opens connections to one engine."""

    def dial(self, timeout: float | None) -> socket.socket: ...
    def error_output(self) -> str: ...
    def close(self) -> None: ...


_QUEUE_S = 0.02


class UnixSocketDialer:
    """Connects to a Unix socket of this machine."""

    def __init__(self, path: str) -> None:
        self.path = path

    def dial(self, timeout: float | None) -> socket.socket:
        found = socket.socket(socket.AF_UNIX)
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            found.settimeout(timeout)
            while True:
                try:
                    found.connect(self.path)
                except BlockingIOError:  # its queue of clients is full
                    if deadline is not None and time.monotonic() > deadline:
                        raise
                    time.sleep(_QUEUE_S)
                else:
                    return found
        except BaseException:
            found.close()
            raise

    def error_output(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing to close."""


class SshDialer:
    """Connects by `ssh HOST docker system dial-stdio`, as the docker command does: one process each."""

    def __init__(self, host: str) -> None:
        import tempfile

        where = urlsplit(host)
        self._command = ["ssh", "-T", "-o", "ConnectTimeout=30"]
        self._command += ["-l", where.username] if where.username else []
        self._command += ["-p", str(where.port)] if where.port else []
        at = ["--host", f"unix://{where.path}"] if where.path.strip("/") else []
        self._command += ["--", where.hostname or "", "docker", *at, "system", "dial-stdio"]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (`close` closes it)
        self._running: list[subprocess.Popen[bytes]] = []

    def dial(self, timeout: float | None) -> socket.socket:
        import subprocess

        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    self._command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=self._errors
                )
            except OSError:
                ours.close()
                raise
        self._running = [one for one in self._running if one.poll() is None]
        self._running.append(process)
        ours.settimeout(timeout)
        return ours

    def error_output(self) -> str:
        """The last line that ssh, or docker on the other machine, wrote to stderr."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        running, self._running = self._running, []
        for process in running:
            process.terminate()
            process.wait()
        self._errors.close()


def dialer(host: str) -> Dialer | None:
    """The dialer for an address; None for TCP."""
    if host.startswith("unix://"):
        return UnixSocketDialer(unquote(host[len("unix://") :]))
    return SshDialer(host) if host.startswith("ssh://") else None
