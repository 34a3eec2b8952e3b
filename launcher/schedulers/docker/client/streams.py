"""A streamed response: read in one thread, closed from any thread."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from http.client import HTTPResponse, IncompleteRead
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from launcher.schedulers.docker.client.errors import EngineGone, EngineSilent, broken

if TYPE_CHECKING:
    from launcher.schedulers.docker.client.http_session import Response

    S = TypeVar("S", bound="ResponseStream")


_PIECE = 1 << 18
_ANSWER_S = 60.0
_IDLE_S = 120.0  # then a stream is opened again: nothing else tells silence from a peer that is gone
# Without reuse: a late `close` could otherwise cut off another request on the same connection.
OPTIONS: dict[str, Any] = {"stream": True, "timeout": (_ANSWER_S, None), "headers": {"Connection": "close"}}
"""Of a request that takes the engine any time."""
LIVE: dict[str, Any] = {**OPTIONS, "timeout": _ANSWER_S, "idle_s": _IDLE_S}
"""Of a stream that the engine begins at once."""


class ResponseStream:
    """The body of a response as it arrives. `close` ends the read at once, also from another thread."""

    def __init__(self, host: str, answer: Response) -> None:
        self.host = host
        self._tap = _Tap(host, answer)

    @property
    def closed(self) -> bool:
        return self._tap.closed

    def close(self) -> None:
        """Close the stream. It may be closed already."""
        self._tap.close()

    def pieces(self) -> Iterator[bytes]:
        """The body in pieces, as they arrive. Ends with the response, or when the stream is closed.

        Raises EngineGone when the connection breaks.
        """
        return self._tap.pieces()

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_tap"):
            self.close()


class _Tap:
    """The connection under a stream. It does not refer to the stream, so that a dropped one is closed."""

    def __init__(self, host: str, answer: Response) -> None:
        self._host = host
        self._answer = answer
        # A copy of the descriptor: it can be shut down without touching the buffers of the reading thread.
        self._plug = socket.socket(fileno=os.dup(answer.raw.fileno()))
        self._reading = RLock()
        self.closed = False

    def close(self) -> None:
        self.closed = True
        try:
            self._plug.shutdown(socket.SHUT_RDWR)  # wakes a reading thread; close would not
        except OSError:
            pass  # it has ended already
        self._release()

    def _release(self) -> None:
        with self._reading:
            self._plug.close()
            self._answer.close()

    def pieces(self) -> Iterator[bytes]:
        arriving = _arriving(self._answer.raw)
        try:
            while True:
                with self._reading:
                    piece = b"" if self.closed else next(arriving, b"")
                if not piece:
                    return
                yield piece
        except Exception as error:
            if not self.closed:
                raise _gone(self._host, error) from None
        finally:
            self._release()


def _arriving(raw: HTTPResponse) -> Iterator[bytes]:
    source: Any = raw.fp  # the buffered socket
    if raw.chunked and source is not None:
        return dechunked(lambda: bytes(source.read1(_PIECE)))
    return iter(lambda: raw.read1(_PIECE), b"")


def dechunked(read: Callable[[], bytes]) -> Iterator[bytes]:
    """The body of a response in chunks, all that one read returns at once.

    An engine sends each line of a log as a chunk of its own. Libraries read chunk by chunk, which costs more
    than all other work of reading a log.

    Args:
        read: returns the next bytes, b"" at the end of the connection.

    Raises IncompleteRead when the connection ends before the body.
    """
    left = b""
    while data := read():
        data = left + data if left else data
        found, at, ended = _whole(data)
        if found:
            yield found
        if ended:
            return
        left = data[at:]
    raise IncompleteRead(left)


def _whole(data: bytes) -> tuple[bytes, int, bool]:
    """The content of the whole chunks in `data`, the start of the next one, and whether the body ended."""
    found: list[bytes] = []
    at, end = 0, len(data)
    while (line := data.find(b"\r\n", at)) >= 0:
        start = line + 2
        size = int(data[at:line].partition(b";")[0], 16)
        if size == 0:
            return b"".join(found), start, True
        if start + size + 2 > end:
            break
        found.append(data[start : start + size])
        at = start + size + 2
    return b"".join(found), at, False


def _gone(host: str, error: Exception) -> EngineGone:
    if isinstance(error, TimeoutError):
        return EngineSilent(f"the Docker engine at {host} has sent nothing for {_IDLE_S:.0f} s")
    found = broken(host, error, "read on")
    return EngineGone(str(found), hint=found.hint)
