"""The log of a container as the engine sends it: frames of an 8-byte header and a payload.

The header is the stream's number (1 stdout, 2 stderr), three zeros and the payload's length. A container
with a terminal has no frames: all of its log is stdout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any

from launcher.schedulers.docker.client.streams import ResponseStream

_HEADER = Struct(">B3xL")
_STREAMS = ("stdout", "stdout", "stderr", "stderr")  # 3: an error of the engine about the log itself


class LogStream(ResponseStream):
    """An iterator of (stream, payload)."""

    def __init__(self, host: str, answer: Any, *, tty: bool) -> None:
        super().__init__(host, answer)
        self._found = bare(self.pieces()) if tty else frames(self.pieces())

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return self

    def __next__(self) -> tuple[str, bytes]:
        return next(self._found)


def bare(pieces: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    for piece in pieces:
        yield "stdout", piece


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
