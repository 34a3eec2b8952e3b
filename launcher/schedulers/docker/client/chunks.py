"""Decode the chunks of an HTTP/1.1 body, all that one read returns at once. Pure.

An engine sends each line of a log as a chunk of its own. Libraries read chunk by chunk, which costs more
than all other work of reading a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.client import IncompleteRead


def dechunked(read: Callable[[], bytes]) -> Iterator[bytes]:
    """The decoded body. `read` returns the next bytes, b"" at the end of the connection.

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
