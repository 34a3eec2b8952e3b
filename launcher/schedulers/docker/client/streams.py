"""Streamed responses: read in one thread, closed from any thread. Events, logs, and messages about images."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.client import IncompleteRead
from struct import Struct
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from launcher.dataclass import dataclass
from launcher.schedulers.docker.client.errors import (
    BuildFailed,
    EngineGone,
    EngineRefused,
    EngineSilent,
    NonsenseAnswer,
    broken,
    refusal,
)
from launcher.schedulers.ended_process import plain

if TYPE_CHECKING:
    from launcher.schedulers.docker.client.transport import Response

    S = TypeVar("S", bound="ItemStream[Any]")

T = TypeVar("T")

Report = Callable[[str, Mapping[str, Any]], None]
"""A function that gets a kind of progress, such as "pulling", and its facts."""

_PIECE = 1 << 18
_ANSWER_S = 60.0
_IDLE_S = 120.0  # silence after which a stream is opened again: only that tells silence from a lost peer
# Without reuse: a late `close` could otherwise cut off another request on the same connection.
OPTIONS: dict[str, Any] = {"stream": True, "timeout": (_ANSWER_S, None), "headers": {"Connection": "close"}}
"""Options of a request that may take the engine any time."""
LIVE: dict[str, Any] = {**OPTIONS, "timeout": _ANSWER_S, "idle_s": _IDLE_S}
"""Options of a stream that the engine begins at once."""


class ItemStream(Generic[T]):
    """The items of a response as they arrive. `close` ends the read at once, also from another thread.

    It ends with the response, or when it is closed. Raises EngineGone when the connection breaks.

    Args:
        parse: pieces of the body, cut anywhere → items.
    """

    def __init__(self, host: str, answer: Response, parse: Callable[[Iterator[bytes]], Iterator[T]]) -> None:
        self.host = host
        self._tap = _Tap(host, answer)
        self._items = parse(self._tap.pieces())

    @property
    def closed(self) -> bool:
        return self._tap.closed

    def close(self) -> None:
        """Close the stream. It may be closed already."""
        self._tap.close()

    def __iter__(self: S) -> S:
        return self

    def __next__(self) -> T:
        return next(self._items)

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_tap"):
            self.close()


class _Tap:
    """The connection under a stream. It does not refer to the stream, so that a dropped stream is closed."""

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
        raw, source = self._answer.raw, cast("Any", self._answer.raw.fp)  # the buffered socket
        if raw.chunked and source is not None:
            arriving = dechunked(lambda: bytes(source.read1(_PIECE)))
        else:
            arriving = iter(lambda: raw.read1(_PIECE), b"")
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


def dechunked(read: Callable[[], bytes]) -> Iterator[bytes]:
    """The body of a chunked response: for each read, the contents of all chunks that it returned.

    An engine sends each line of a log as a chunk of its own, which libraries read one by one, at a high cost.

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


# Events


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a container.

    Attributes:
        time: epoch seconds, by the engine's clock.
        action: create, start, die, oom, kill, stop, rename, destroy, …
        attributes: the container's labels, `exitCode` of a `die`, `oldName` of a `rename`.
    """

    time: float
    action: str
    container_id: str
    attributes: Mapping[str, str]


class EventStream(ItemStream[Event]):
    """The events of containers. It ends when it is closed; when the engine goes away it raises EngineGone."""

    def __init__(self, host: str, answer: Response) -> None:
        super().__init__(host, answer, lambda pieces: map(event, objects(pieces)))

    def __next__(self) -> Event:
        try:
            return super().__next__()
        except StopIteration:
            if self.closed:
                raise
            raise EngineGone(f"the Docker engine at {self.host} ended the stream of its events") from None


def event(data: Mapping[str, Any]) -> Event:
    actor = data.get("Actor") or {}
    at = data["timeNano"] / 1e9 if "timeNano" in data else float(data.get("time", 0))
    return Event(at, data.get("Action", ""), actor.get("ID", ""), actor.get("Attributes") or {})


def objects(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Parse JSON objects, one a line, from bytes that are cut anywhere.

    Raises NonsenseAnswer for a line that is not a JSON object.
    """
    left = b""
    for piece in pieces:
        *lines, left = (left + piece).split(b"\n")
        yield from (_object(line) for line in lines if line.strip())
    if left.strip():
        yield _object(left)


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        said = line[:60].decode("utf-8", "replace").strip()
        raise NonsenseAnswer(f"the Docker engine sent something that is not a JSON object: {said}")
    return found


# Logs

_HEADER = Struct(">B3xL")
_STREAMS = ("stdout", "stdout", "stderr", "stderr")  # 3: an error of the engine about the log itself


LogStream = ItemStream[tuple[str, bytes]]
"""The output of a container: the name of its stream, and the payload."""


def frames(pieces: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Parse frames from pieces that are cut anywhere. An incomplete last frame is dropped."""
    left = b""
    for piece in pieces:
        data = left + piece if left else piece
        start, end = 0, len(data)
        while end - start >= 8:
            stream, size = _HEADER.unpack_from(data, start)
            stop = start + 8 + size
            if stop > end:
                break
            yield _STREAMS[stream & 3], data[start + 8 : stop]
            start = stop
        left = data[start:]


class ExecSocket:
    """The input and output of a command in a container, with the methods of a socket.

    Args:
        connection: the connection to the engine, which frames the output.
        left: the first bytes on it.
    """

    def __init__(self, connection: socket.socket, left: bytes) -> None:
        self._connection = connection
        self._left = left
        self._output = b""
        self.settimeout = connection.settimeout
        self.shutdown = connection.shutdown
        self.close = connection.close

    def sendall(self, data: bytes, _flags: int = 0) -> None:
        self._connection.sendall(data)  # ssl takes no flags

    def recv(self, size: int) -> bytes:
        """The next bytes of stdout; b"" at the end. It may be called again after a TimeoutError."""
        while not self._output:
            found = list(frames([self._left]))
            self._left = self._left[sum(len(payload) + _HEADER.size for _, payload in found) :]
            self._output = b"".join(payload for stream, payload in found if stream == "stdout")
            if not found:
                if not (piece := self._connection.recv(_PIECE)):
                    return b""
                self._left += piece
        piece, self._output = self._output[:size], self._output[size:]
        return piece


# Messages about a pull, push or build

PAUSE_S = 0.1  # between two reports of a transfer: an engine sends hundreds of messages a second
_MOVING = {"Downloading", "Pushing"}
_MOVED = {"Download complete", "Pull complete", "Pushed", "Verifying Checksum"}
LAST_LINES = 15


class Transfer:
    """The bytes transferred by a pull or push, over all layers whose size is known."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}

    def update(self, message: Mapping[str, Any]) -> None:
        layer, status = str(message.get("id", "")), message.get("status")
        detail = message.get("progressDetail") or {}
        if status in _MOVING and detail.get("total"):
            self._layers[layer] = (min(detail["current"], detail["total"]), detail["total"])
        elif status in _MOVED and layer in self._layers:
            self._layers[layer] = (self._layers[layer][1],) * 2

    @property
    def done(self) -> int:
        return sum(done for done, _ in self._layers.values())

    @property
    def total(self) -> int:
        return sum(total for _, total in self._layers.values())


def transfer(
    messages: Iterable[Mapping[str, Any]], kind: str, image: str, doing: str, report: Report
) -> None:
    """Follow a pull or push to its end; `kind` ("pulling") is reported with `done` and `total` bytes.

    Raises EngineError with the engine's reason when it fails.
    """
    moved, reported, due = Transfer(), (0, 0), 0.0
    report(kind, {"image": image, "done": 0, "total": 0})
    for message in messages:
        if "error" in message:
            raise refusal(0, _reason(message), doing)
        moved.update(message)
        now = (moved.done, moved.total)
        if now != reported and (time.monotonic() >= due or moved.done == moved.total):
            report(kind, {"image": image, "done": moved.done, "total": moved.total})
            reported, due = now, time.monotonic() + PAUSE_S


def built(messages: Iterable[Mapping[str, Any]], image: str, report: Report) -> str:
    """Follow a build to its end and return the image's id; each line of its output is reported.

    Raises BuildFailed, which has the last lines.
    """
    made, last, rest = "", deque[str](maxlen=LAST_LINES), ""
    report("building", {"image": image, "line": ""})
    for message in messages:
        if "error" in message:
            raise BuildFailed(image, _reason(message), [*last, plain(rest)] if rest else list(last))
        if isinstance(aux := message.get("aux"), dict):
            made = str(aux.get("ID") or made)
        *lines, rest = (rest + _text(message)).split("\n")
        for line in filter(None, (plain(line).rstrip() for line in lines)):
            last.append(line)
            report("building", {"image": image, "line": line})
    if not made:
        raise EngineRefused(f"cannot build {image}: the engine ended the build without an image")
    return made


def _text(message: Mapping[str, Any]) -> str:
    if "stream" in message:
        return str(message["stream"])
    moving = message.get("progressDetail")  # of a pull of a base image: too many messages
    return "" if moving or "status" not in message else f"{message['status']}\n"


def _reason(message: Mapping[str, Any]) -> str:
    return str((message.get("errorDetail") or {}).get("message") or message["error"])
