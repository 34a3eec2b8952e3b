"""HTTP to one engine, with the standard library alone, and the connections for it.

A dialer opens connections: to a socket of this machine, to a TCP port, with TLS or not, or by `ssh`. The
Docker SDK would take longer to load than most requests take, and stay in the memory of a watcher.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import sys
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from json import dumps
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlencode, urlsplit

from launcher.schedulers.docker.client.errors import EngineUnreachable

if TYPE_CHECKING:
    import subprocess
    from urllib.parse import SplitResult

    from launcher.schedulers.docker.client.configuration import Endpoint


# Connections


class Dialer:
    """Opens connections to one engine.

    Attributes:
        authority: host and port that requests name, None for the default port.
        prefix: the text before the path of the API in a request.
        headers: the headers of every request, for a proxy.
    """

    authority: tuple[str, int | None] = ("localhost", None)
    prefix = ""
    headers: Mapping[str, str] = {}

    def dial(self, timeout: float | None) -> socket.socket:
        """A new connection. Raises OSError, HTTPException."""
        raise NotImplementedError

    def error_output(self) -> str:
        """Return the error output of the process between client and engine, after a broken connection."""
        return ""

    def close(self) -> None:
        """End the processes that the connections need; the connections may still be open."""


_QUEUE_S = 0.02
_LONGEST_SOCKET = 107 if sys.platform == "linux" else 103  # bytes of `sun_path`, less its end


class UnixSocketDialer(Dialer):
    """Connects to a Unix socket of this machine. Raises ValueError for a path that no socket can have."""

    def __init__(self, path: str) -> None:
        if len(os.fsencode(path)) > _LONGEST_SOCKET:
            raise ValueError(f"the path of a socket has at most {_LONGEST_SOCKET} bytes")
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
    """The proxy that HTTP_PROXY and the related variables name for a host, as the docker command reads them.

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
"""Options that make ssh end when the other machine has vanished silently."""


class SshDialer(Dialer):
    """Connects by a process `ssh HOST docker system dial-stdio` each time, as the docker command does."""

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
        from launcher.schedulers.ended_process import last_line

        self._errors.seek(0)
        return last_line(self._errors.read())

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
    authority, pair = options.get("ca_cert"), options.get("client_cert")
    with _named(authority):
        context = ssl.create_default_context(cafile=authority)
    if not options.get("verify", True):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair:
        cert, key = pair
        with _named(cert, key):
            context.load_cert_chain(cert, key, password="")  # an encrypted key fails, and asks for nothing
    return context


@contextmanager
def _named(*files: str | None) -> Iterator[None]:
    """Context for the use of certificates: its errors name the files."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{' and '.join(filter(None, files))}: {error}") from None


# Requests

UPGRADE: Mapping[str, Any] = {
    "stream": True,
    "fresh": True,
    "headers": {"Connection": "Upgrade", "Upgrade": "tcp"},
}
"""Options of a request after which the connection is a stream of bytes; see `Response.upgraded`."""


class Session:
    """Sends requests to one engine, from any number of threads.

    Args:
        max_idle: how many idle connections stay open for the next requests.
    """

    def __init__(self, host: str, dialer: Dialer, max_idle: int) -> None:
        self._host = host
        self._dialer = dialer
        self._max_idle = max_idle
        self._idle: list[_Connection] = []

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: object = None,
        data: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | tuple[float, float | None] | None = None,
        stream: bool = False,
        idle_s: float | None = None,
        fresh: bool = False,
    ) -> Response:
        """The response, read whole unless `stream`. Raises OSError, HTTPException, EngineUnreachable.

        Args:
            timeout: seconds until the response begins, or (until it is connected, until the response begins).
            fresh: use a new connection.
            idle_s: the time limit of each read of a stream; None for none.
        """
        to_dial, to_read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        target = self._dialer.prefix + (f"{path}?{urlencode(params)}" if params else path)
        headers = {**self._dialer.headers, **(headers or {})}
        if json is not None:
            data, headers["Content-Type"] = dumps(json).encode(), "application/json"
        try:
            connection = self._connection(to_dial, fresh=fresh)
            answer = Response(self, connection, connection.ask(method, target, data, headers, to_read))
            if stream:
                answer.limit(idle_s)
            else:
                answer.content  # noqa: B018 (reads it)
        except (OSError, HTTPException):
            if not (said := self._dialer.error_output()):
                raise
            hint = f"`docker --host {self._host} version` should answer without asking anything"
            text = f"cannot reach the Docker engine at {self._host}: {said}"
            raise EngineUnreachable(text, hint=hint) from None
        return answer

    def _connection(self, timeout: float | None, *, fresh: bool) -> _Connection:
        while self._idle and not fresh:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if connection.is_usable:
                return connection
            connection.close()
        connection = _Connection(*self._dialer.authority)
        connection.sock = self._dialer.dial(timeout)
        return connection

    def return_connection(self, connection: _Connection) -> None:
        if connection.sock is not None and len(self._idle) < self._max_idle:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        self._dialer.close()

    def __del__(self) -> None:
        self.close()


class _Lines:
    """The lines of a response's head. `last` is b"" where the connection ended within it."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.close = source.close
        self.last = b""

    def readline(self, limit: int) -> bytes:
        self.last = self._source.readline(limit)
        return self.last


class _WholeHead(HTTPResponse):
    """A response with a whole head. The library takes the end of a connection for the end of the head: a log
    whose head was cut off would be an empty one."""

    def begin(self) -> None:
        source, lines = self.fp, _Lines(self.fp)
        self.fp = cast("Any", lines)
        try:
            super().begin()
        finally:
            if self.fp is not None:  # the library closes it where the first line is not HTTP
                self.fp = source
        if not lines.last:
            raise IncompleteRead(b"")


class _Connection(HTTPConnection):
    """A connection that was dialled already, and is never dialled again."""

    auto_open = 0
    response_class = _WholeHead
    used: socket.socket  # after a response to `Connection: close`, `sock` is None

    @property
    def is_usable(self) -> bool:
        """Whether the connection is open and has no unread input."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def ask(
        self, method: str, target: str, body: Any, headers: dict[str, str], timeout: float | None
    ) -> HTTPResponse:
        self.used = self.sock
        try:
            self.sock.settimeout(timeout)
            try:
                self.request(method, target, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all was sent: the response has the reason
            return self.getresponse()
        except BaseException:
            self.close()
            raise


class Response:
    """The engine's response. `raw` reads the body in pieces; `content` reads all of it."""

    def __init__(self, session: Session, connection: _Connection, raw: HTTPResponse) -> None:
        self.raw = raw
        self.status_code, self.reason, self.headers = raw.status, raw.reason, raw.headers
        self._session = session
        self._connection: _Connection | None = connection
        self._content: bytes | None = None

    def limit(self, idle_s: float | None) -> None:
        """Limit the time of each read from now on."""
        if self._connection is not None:
            self._connection.used.settimeout(idle_s)

    def upgraded(self) -> tuple[socket.socket, bytes]:
        """The connection, and the bytes on it that came with the head of the response."""
        assert self._connection is not None, "a response that was read whole is no stream"
        connection, rest = self._connection.used, b""
        connection.setblocking(False)
        with suppress(OSError):  # nothing came over TLS
            rest = cast("Any", self.raw.fp).peek()
        connection.settimeout(None)
        return connection, rest

    @property
    def content(self) -> bytes:
        if self._content is None:
            try:
                self._content = self.raw.read()
            except BaseException:
                self.close()
                raise
            connection, self._connection = self._connection, None
            if connection is not None:
                self._session.return_connection(connection)
        return self._content

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self.raw.close()
            connection.close()
