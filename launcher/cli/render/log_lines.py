"""Turn chunks of output into the lines of `launcher logs`: prefixed, with times, and filtered.

Works on whole chunks, and splits lines only for options that need it.
"""

from __future__ import annotations

import time
from collections import deque

from launcher.cli.console import visible
from launcher.schedulers.logs import LineSearch
from launcher.text import paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from launcher.schedulers.logs import LogRecord

_COLORS = ("cyan", "yellow", "green", "magenta", "blue", "red")


class Shaper:
    """Turns the output of one replica into text to show.

    A line is shown when it is complete, or at the end: stdout and stderr never mix within a line.

    Args:
        prefix: printed before every line. Of a line rewritten after carriage returns (a progress bar), only
            the last frame is then shown: the earlier frames would overwrite the prefix.
        regex: show only lines that match.
        timestamps: whether to print the time after the prefix.
    """

    __slots__ = ("_partial", "_prefix", "_search", "_stamp")

    def __init__(self, prefix: bytes = b"", *, regex: str | None = None, timestamps: bool = False) -> None:
        self._prefix = prefix
        self._search = None if regex is None else LineSearch(regex)
        self._stamp = timestamps
        self._partial: dict[str, list[bytes]] = {}  # joined once: a line may come in many small pieces

    def feed(self, time_ns: int, stream: str, data: bytes) -> bytes:
        """Return the lines that `data` completes."""
        end = data.rfind(b"\n") + 1
        if not end:
            if data:
                self._hold(stream, data)
            return b""
        begun = self._partial.pop(stream, None)
        if end < len(data):
            self._hold(stream, data[end:])
            data = data[:end]
        return self._shape(time_ns, b"".join([*begun, data]) if begun else data)

    def _hold(self, stream: str, data: bytes) -> None:
        """Store an incomplete line; of a progress bar, only its last frames."""
        parts = self._partial.setdefault(stream, [])
        parts.append(data)
        if self._prefix and b"\r" in data:
            text = b"".join(parts)
            parts[:] = [text[max(0, text.rfind(b"\r", 0, len(text.rstrip(b"\r")))) :]]

    def frame(self) -> bytes:
        """The current frame of a progress bar, with its prefix; b"" without one."""
        for parts in self._partial.values():
            if b"\r" in parts[0]:
                text = b"".join(parts)
                if text.strip():
                    return self._shape(0, text.strip(b"\r") + b"\n")[:-1]
        return b""

    def finish(self, time_ns: int = 0) -> bytes:
        """The incomplete lines, with a newline added so that prefixes stay at the start of lines."""
        rest = [b"".join(parts) for parts in self._partial.values()]
        self._partial.clear()
        if self._prefix:  # a progress bar that was erased at its end prints nothing
            rest = [text for text in rest if text.strip() or b"\r" not in text]
        return b"".join(self._shape(time_ns, text + b"\n") for text in rest)

    def _shape(self, time_ns: int, text: bytes) -> bytes:
        """Return the text to show for `text`, which consists of whole lines."""
        if self._prefix and b"\r" in text:
            text = last_frames(text)
        if self._search is not None:
            text = self._search.found(text)
        front = self._prefix + stamp(time_ns) if self._stamp else self._prefix
        if not front or not text:
            return text
        return front + text[:-1].replace(b"\n", b"\n" + front) + b"\n"


class JsonShaper(Shaper):
    """Turns the output of one replica into lines of JSON, in ASCII: an object for each line of output.

    Args:
        facts: the fields about the replica that every object has.
    """

    __slots__ = ("_facts", "_stream")

    def __init__(self, facts: Mapping[str, object], *, regex: str | None = None) -> None:
        super().__init__(regex=regex)
        self._facts = facts
        self._stream = ""

    def feed(self, time_ns: int, stream: str, data: bytes) -> bytes:
        self._stream = stream
        return super().feed(time_ns, stream, data)

    def finish(self, time_ns: int = 0) -> bytes:
        return b"".join(self.feed(time_ns, stream, b"\n") for stream in [*self._partial])

    def _shape(self, time_ns: int, text: bytes) -> bytes:
        text = super()._shape(time_ns, text)
        if not text:
            return text
        from json import dumps

        second, rest = divmod(time_ns, 1_000_000_000)
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}.{rest // 1000:06}Z"
        facts = {**self._facts, "stream": self._stream, "time": at}
        lines = text[:-1].decode("utf-8", "replace").split("\n")
        return "".join(dumps({**facts, "text": line}) + "\n" for line in lines).encode()


def last_frames(text: bytes) -> bytes:
    r"""Remove text that carriage returns have overwritten from whole lines. A `\r\n` is unchanged."""
    lines = text.split(b"\n")
    for n, line in enumerate(lines):
        if b"\r" in line:
            lines[n] = line[line.rfind(b"\r", 0, len(line.rstrip(b"\r"))) + 1 :]
    return b"\n".join(lines)


_last_stamp: tuple[int, bytes] = (-1, b"")


def stamp(time_ns: int) -> bytes:
    """`2025-03-01T12:30:05.123456+0100 `: local time, sortable within one zone."""
    global _last_stamp
    second, rest = divmod(time_ns, 1_000_000_000)
    if _last_stamp[0] != second:  # formatting a date costs more than the line itself
        local = time.localtime(second)
        text = f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}.%06d{time.strftime('%z', local)} "
        _last_stamp = (second, text.encode())
    return _last_stamp[1] % (rest // 1000)


def shaped(records: Iterable[LogRecord], shaper: Shaper) -> Iterator[tuple[int, bytes]]:
    """Yield (time, whole lines) of one replica."""
    time_ns = 0
    for record in records:
        time_ns = record.time_ns
        text = shaper.feed(time_ns, record.stream, record.data)
        if text:
            yield time_ns, text
    text = shaper.finish(time_ns)
    if text:
        yield time_ns, text


def last_lines(pieces: Iterable[tuple[int, bytes]], count: int) -> Iterator[tuple[int, bytes]]:
    """The last `count` lines of pieces of whole lines, each with the time of its piece."""
    last: deque[tuple[int, bytes]] = deque(maxlen=count)
    for time_ns, text in pieces:
        lines = text[:-1].split(b"\n")
        last.extend((time_ns, line + b"\n") for line in lines[len(lines) - min(count, len(lines)) :])
    yield from last


def prefixes(names: Iterable[tuple[str, int]], color: bool) -> Iterator[bytes]:
    """`role/k | ` for each replica, padded to one width, in alternating colours."""
    labels = [
        visible(f"{role}/{k}").replace("\n", "\\x0a") for role, k in names
    ]  # names may come from an engine
    size = max(map(len, labels), default=0)
    for number, label in enumerate(labels):
        yield paint(f"{label.ljust(size)} |", _COLORS[number % len(_COLORS)], color).encode() + b" "
