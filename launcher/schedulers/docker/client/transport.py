"""Open connections to an engine: by a socket of this machine, by a TCP port, with TLS or not, or by `ssh`."""

from __future__ import annotations

import os
import socket
import ssl
import time
from base64 import b64encode
from http.client import HTTPConnection
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from typing import Any
    from urllib.parse import SplitResult

    from launcher.schedulers.docker.client.contexts import Endpoint


class Dialer:
    """Opens connections to one engine.

    Attributes:
        authority: host and port that requests name, None for the default port.
        prefix: what stands in a request before the path of the API.
        headers: the headers of every request, for a proxy.
    """

    authority: tuple[str, int | None] = ("localhost", None)
    prefix = ""
    headers: Mapping[str, str] = {}

    def dial(self, timeout: float | None) -> socket.socket:
        """A new connection. Raises OSError, HTTPException."""
        raise NotImplementedError

    def error_output(self) -> str:
        """What a process between here and the engine says of a broken connection."""
        return ""

    def close(self) -> None:
        """End what the connections need; they need not be closed yet."""


_QUEUE_S = 0.02


class UnixSocketDialer(Dialer):
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


class TcpDialer(Dialer):
    """Connects to a TCP port, with TLS when it is given; through the proxy of the environment, if any.

    Raises ValueError for an invalid address or proxy.
    """

    def __init__(self, host: str, tls: ssl.SSLContext | None) -> None:
        where = urlsplit(host)
        if not where.port or where.query or where.fragment or where.username is not None:
            raise ValueError("want a host and a port")
        name = where.hostname or "127.0.0.1"
        name.encode("idna")
        self.authority = self._to = (name, where.port)
        self.prefix = where.path.rstrip("/")
        self._tls = tls
        self._tunnel: Mapping[str, str] | None = None
        proxy = _proxy("https" if tls else "http", name, where.port)
        if proxy is not None:
            self._to = proxy.hostname or "", proxy.port or 80
            if tls:
                self._tunnel = _credentials(proxy)
            else:
                self.headers, self.prefix = _credentials(proxy), f"http://{where.netloc}{self.prefix}"

    def dial(self, timeout: float | None) -> socket.socket:
        connection = HTTPConnection(*self._to, timeout=timeout)
        if self._tunnel is not None:
            connection.set_tunnel(*self.authority, headers={**self._tunnel})
        connection.connect()
        if self._tls is None:
            return connection.sock
        return self._tls.wrap_socket(connection.sock, server_hostname=self.authority[0])


def _proxy(scheme: str, host: str, port: int) -> SplitResult | None:
    """The proxy that HTTP_PROXY and its like name for a host, as the docker command reads them.

    Raises ValueError for a proxy that does not speak plain HTTP.
    """
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    known = getproxies()
    named = known.get(scheme) or known.get("all")
    is_here = host in ("localhost", "::1") or host.startswith("127.")
    if not named or is_here or proxy_bypass(f"{host}:{port}"):
        return None
    found = urlsplit(named if "://" in named else f"http://{named}")
    if found.scheme != "http" or not found.hostname:
        raise ValueError(f"the proxy that {scheme.upper()}_PROXY or ALL_PROXY names is not an HTTP proxy")
    return found


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


_ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
"""Options with which ssh ends when the other machine is gone without a word."""


class SshDialer(Dialer):
    """Connects by `ssh HOST docker system dial-stdio`, as the docker command does: one process each."""

    def __init__(self, host: str) -> None:
        import tempfile

        where = urlsplit(host)
        self._command = ["ssh", "-T", "-o", "ConnectTimeout=30", *_ALIVE]
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


def dialer(endpoint: Endpoint) -> Dialer:
    """The dialer for an address.

    Raises ValueError for an invalid address, OSError for certificates that cannot be read.
    """
    host = endpoint.host
    if host.startswith("unix://"):
        return UnixSocketDialer(unquote(host[len("unix://") :]))
    if host.startswith("ssh://"):
        return SshDialer(host)
    secure = host.startswith("https://") or (host.startswith("tcp://") and endpoint.tls)
    return TcpDialer(host, _tls(endpoint.tls) if secure else None)


def _tls(options: Mapping[str, Any]) -> ssl.SSLContext:
    """TLS as an `Endpoint` asks for it; {} verifies by the certificates of this machine."""
    context = ssl.create_default_context(cafile=options.get("ca_cert"))
    if not options.get("verify", True):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if options.get("client_cert"):
        cert, key = options["client_cert"]
        context.load_cert_chain(cert, key, password="")  # an encrypted key fails, and asks for nothing
    return context
