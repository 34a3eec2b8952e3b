"""HTTP over what is not a TCP port: a socket of this machine, or `ssh` to another one. Imported on use."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from urllib.parse import unquote, urlsplit

import requests.adapters  # type: ignore[import-untyped,unused-ignore]
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from launcher.schedulers.docker.engine_errors import EngineUnreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Dialer(Protocol):
        """Opens connections to one engine."""

        def dial(self, timeout: float | None) -> socket.socket: ...
        def complaint(self) -> str: ...
        def close(self) -> None: ...


class Local:
    """A socket in this machine's file system."""

    def __init__(self, path: str) -> None:
        self.path = path

    def dial(self, timeout: float | None) -> socket.socket:
        found = socket.socket(socket.AF_UNIX)
        try:
            found.settimeout(timeout)
            found.connect(self.path)
        except BaseException:
            found.close()
            raise
        return found

    def complaint(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing to give back."""


class Ssh:
    """`ssh HOST docker system dial-stdio`, as the docker command does: one process for each connection."""

    def __init__(self, host: str) -> None:
        where = urlsplit(host)
        self._command = ["ssh", "-T", "-o", "ConnectTimeout=30"]
        self._command += ["-l", where.username] if where.username else []
        self._command += ["-p", str(where.port)] if where.port else []
        at = ["--host", f"unix://{where.path}"] if where.path.strip("/") else []
        self._command += ["--", where.hostname or "", "docker", *at, "system", "dial-stdio"]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (`close` closes it)
        self._running: list[subprocess.Popen[bytes]] = []

    def dial(self, timeout: float | None) -> socket.socket:
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

    def complaint(self) -> str:
        """The last line that ssh, or docker over there, wrote about what went wrong."""
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
    """How to connect to a host of this kind; None for one that plain TCP reaches."""
    if host.startswith("unix://"):
        return Local(unquote(host[len("unix://") :]))
    return Ssh(host) if host.startswith("ssh://") else None


class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc,unused-ignore]
    """Sends every request of a session through connections that a dialer makes."""

    def __init__(self, host: str, dialer: Dialer, connections: int) -> None:
        self._host = host
        self._dialer = dialer
        self._pool = _Pool(dialer, connections)
        super().__init__()

    def send(self, *args: Any, **options: Any) -> Any:
        try:
            return super().send(*args, **options)
        except requests.exceptions.ConnectionError:
            complaint = self._dialer.complaint()
            if not complaint:
                raise
            hint = f"`docker --host {self._host} version` should answer without asking anything"
            raise EngineUnreachable(
                f"cannot reach the Docker engine at {self._host}: {complaint}", hint=hint
            ) from None

    def get_connection_with_tls_context(self, *_args: Any, **_options: Any) -> HTTPConnectionPool:
        return self._pool

    def get_connection(self, *_args: Any, **_options: Any) -> HTTPConnectionPool:
        """What requests before 2.32 asks for."""
        return self._pool

    def request_url(self, request: Any, _proxies: Any) -> str:
        return str(request.path_url)

    def close(self) -> None:
        super().close()
        self._pool.close()
        self._dialer.close()


class _Pool(HTTPConnectionPool):
    def __init__(self, dialer: Dialer, connections: int) -> None:
        super().__init__("localhost", maxsize=connections)
        self._dialer = dialer

    def _new_conn(self) -> _Connection:
        return _Connection(self._dialer)


class _Connection(HTTPConnection):
    def __init__(self, dialer: Dialer) -> None:
        super().__init__("localhost")
        self._dialer = dialer

    def connect(self) -> None:
        timeout = self.timeout if isinstance(self.timeout, (int, float)) else None
        self.sock = self._dialer.dial(timeout)
