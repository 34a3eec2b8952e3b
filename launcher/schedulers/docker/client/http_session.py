"""An HTTP session over the connections of a dialer, with the standard library alone.

Loading the Docker SDK, with `requests`, takes longer than most requests to an engine, and a watcher would
hold it in memory for the life of its app.
"""

from __future__ import annotations

import json
import select
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse
from socket import socket
from typing import Any
from urllib.parse import urlencode

from launcher.schedulers.docker.client.errors import EngineUnreachable
from launcher.schedulers.docker.client.transport import Dialer


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
            timeout: until the response begins, or (until it is connected, until the response begins).
            fresh: on a new connection.
            idle_s: the time limit of each read of a stream; None for none.
        """
        to_dial, to_read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        target = self._dialer.prefix + (f"{path}?{urlencode(params)}" if params else path)
        headers = {**self._dialer.headers, **(headers or {})}
        body, wanted = (data, headers) if json is None else _as_json(json, headers)
        try:
            connection = self._connection(to_dial, fresh=fresh)
            answer = Response(self, connection, connection.ask(method, target, body, wanted, to_read))
            if stream:
                answer.limit(idle_s)
            else:
                answer.content  # noqa: B018 (reads it)
        except (OSError, HTTPException) as error:
            raise self._dialer_error() or error from None
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

    def _dialer_error(self) -> EngineUnreachable | None:
        """The error for a broken connection, from the error output of the dialer; None without any."""
        said = self._dialer.error_output()
        hint = f"`docker --host {self._host} version` should answer without asking anything"
        return (
            EngineUnreachable(f"cannot reach the Docker engine at {self._host}: {said}", hint=hint)
            if said
            else None
        )

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        self._dialer.close()

    def __del__(self) -> None:
        self.close()


class _Connection(HTTPConnection):
    """A connection that was dialled already, and is never dialled again."""

    auto_open = 0
    used: socket  # after a response to `Connection: close`, `sock` is None

    @property
    def is_usable(self) -> bool:
        """Whether it is open and has no unread input."""
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
        self._session = session
        self._connection: _Connection | None = connection
        self._content: bytes | None = None

    def limit(self, idle_s: float | None) -> None:
        """Limit the time of each read from now on."""
        if self._connection is not None:
            self._connection.used.settimeout(idle_s)

    @property
    def status_code(self) -> int:
        return self.raw.status

    @property
    def reason(self) -> str:
        return self.raw.reason

    @property
    def headers(self) -> HTTPMessage:
        return self.raw.headers

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
        """Close the connection, if the body was not read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self.raw.close()
            connection.close()


def _as_json(value: object, headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
    return json.dumps(value).encode(), {**headers, "Content-Type": "application/json"}
