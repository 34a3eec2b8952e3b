"""Log records, and functions on chunks of log bytes, for all schedulers.

Logs are bytes. Chunks have any size and need not end at a line. Functions on lines gather whole lines first
and then work on one chunk at a time, because a loop over lines takes ten times as long.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from launcher.schedulers.responses import Stream

STDOUT = "stdout"
STDERR = "stderr"
COMBINED = "combined"
RESTART = "restart"
DROPPED = "dropped"
STREAMS = (STDOUT, STDERR, COMBINED)

Where = tuple[str, int]
"""Role and number of a replica."""


def stream_of(name: str) -> Stream:
    """The Stream of that name. Raises UsageError with the nearest name."""
    from launcher.errors import UsageError
    from launcher.schedulers.responses import Stream

    if name not in STREAMS:
        from launcher.text import name_hint

        raise UsageError(f"there is no stream `{name}`", hint=name_hint(name, STREAMS))
    return Stream(name)


def stream_name(stream: object) -> str:
    """ "stdout", "stderr" or "combined" of a Stream, a text or None."""
    return COMBINED if stream is None else str(getattr(stream, "value", stream))


def require_replica(app_id: str, counts: Mapping[str, int], role: str, k: int) -> None:
    """Raise SchedulerError, with what there is, for a replica that the app does not have.

    Args:
        counts: role → number of its replicas.
    """
    from launcher.errors import SchedulerError

    if role not in counts:
        from launcher.text import name_hint

        raise SchedulerError(f"app {app_id} has no role `{role}`", hint=name_hint(role, counts))
    if not 0 <= k < counts[role]:
        there = f"0 to {counts[role] - 1}" if counts[role] > 1 else "0"
        raise SchedulerError(f"role `{role}` of {app_id} has no replica {k}", hint=f"there are: {there}")


def since_ns(moment: float) -> int:
    """The first nanosecond of "since `moment`" (epoch seconds).

    Output shows microseconds, so a moment includes all lines of its microsecond.
    """
    return max(0, round(moment * 1e6) * 1000)


def until_ns(moment: float) -> int:
    """The last nanosecond of "until `moment`" (epoch seconds), the end of its microsecond."""
    return since_ns(moment) + 999


class LogRecord:
    """Bytes that a replica wrote, cut anywhere.

    Attributes:
        time_ns: when they were read from it, nanoseconds since the epoch.
        stream: stdout, stderr, restart for the (empty) mark of a restarted replica, or dropped for the line
            in place of removed output.
    """

    __slots__ = ("data", "stream", "time_ns")

    def __init__(self, time_ns: int, stream: str, data: bytes) -> None:
        self.time_ns = time_ns
        self.stream = stream
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogRecord) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, str, bytes]:
        return self.time_ns, self.stream, self.data

    def __repr__(self) -> str:
        return f"LogRecord({self.time_ns}, {self.stream!r}, {self.data!r})"


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks that end at a newline; only the very last may not."""
    held: list[bytes] = []  # a line longer than a chunk is joined once, not at every chunk
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if not end:
            held.append(chunk)
            continue
        yield b"".join([*held, chunk[:end]]) if held else chunk[:end]
        held = [chunk[end:]] if end < len(chunk) else []
    rest = b"".join(held)
    if rest:
        yield rest


def grep(chunks: Iterable[bytes], regex: str) -> Iterator[bytes]:
    """The lines in which `regex` is found (as text, UTF-8), several at a time where they come so.

    Raises UsageError for an invalid `regex`.
    """
    import re

    from launcher.errors import UsageError

    try:
        search = re.compile(regex).search
    except re.error as error:
        raise UsageError(f"`{regex}` is no regular expression: {error}") from error
    in_bytes = re.compile(regex.encode(), re.MULTILINE).search if _stays_in_line(regex) else None
    dense = False  # most lines match: then going from match to match costs more than testing each line
    for chunk in whole_lines(chunks):
        if in_bytes is not None and not dense and chunk.isascii():
            found = b"".join(_found_in_chunk(chunk, in_bytes))
        else:
            found = _found_by_line(chunk, search)
        dense = len(found) * 8 > len(chunk)
        if found:
            yield found


def _found_in_chunk(chunk: bytes, search: Callable[[bytes, int], re.Match[bytes] | None]) -> Iterator[bytes]:
    """The lines with a match: the search skips the lines between at its own speed."""
    at = 0
    while at < len(chunk):
        match = search(chunk, at)
        if match is None:
            return
        start = chunk.rfind(b"\n", at, match.start()) + 1 or at
        at = chunk.find(b"\n", match.start()) + 1 or len(chunk)
        if start < at:
            yield chunk[start:at]


def _found_by_line(chunk: bytes, search: Callable[[str], object]) -> bytes:
    unfinished = not chunk.endswith(b"\n")
    body = chunk if unfinished else chunk[:-1]
    texts = body.decode("utf-8", "replace").split("\n")
    if chunk.isascii():
        kept = [text for text in texts if search(text)]
        found, count = "\n".join(kept).encode(), len(kept)
    else:
        # A newline byte is never part of a longer UTF-8 sequence, so bytes and text split alike.
        raw = [line for line, text in zip(body.split(b"\n"), texts, strict=True) if search(text)]
        found, count = b"\n".join(raw), len(raw)
    if not count:
        return b""
    return found if unfinished and search(texts[-1]) else found + b"\n"


def _stays_in_line(regex: str) -> bool:
    r"""Whether searching many ASCII lines at once finds the same as searching each of them.

    True for patterns whose parts neither match a newline nor inspect the text beyond a match:
    letters, digits, escaped signs, `.`, `^`, `$`, `|`, plain groups, and plain classes.
    """
    import re

    return re.fullmatch(_PLAIN, regex, re.ASCII) is not None


_PLAIN = (
    r"(?:[\w \-/:,=@#%\"'<>!&;~^$|)]|\((?!\?)|\\[.\[\](){}*+?|^$\\/\-]"
    r"|\[[\w \-/:,=@#%\"'<>!&;~.]+\]|\.|[*+?](?![*+?]))*"
)


def tail(chunks: Iterable[bytes], count: int) -> Iterator[bytes]:
    """The last `count` lines."""
    from collections import deque

    kept: deque[bytes] = deque(maxlen=count)
    for chunk in whole_lines(chunks):
        kept.extend(_split(chunk))
    yield from kept


def _split(chunk: bytes) -> list[bytes]:
    """Lines with their newline; a carriage return ends none."""
    parts = chunk.split(b"\n")
    last = parts.pop()
    return [part + b"\n" for part in parts] + ([last] if last else [])


def text_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines as text, each with its newline; bytes that are no UTF-8 become U+FFFD."""
    for chunk in whole_lines(chunks):
        ended = chunk.endswith(b"\n")
        body = chunk[:-1] if ended else chunk
        *first, last = body.decode("utf-8", "replace").split("\n")
        for line in first:
            yield line + "\n"
        yield last + "\n" if ended else last


def as_text(
    read: Callable[..., Iterator[tuple[str, int, bytes]]],
    app_id: str,
    replica: tuple[str, int],
    since: datetime | None,
    until: datetime | None,
    follow: bool,
    streams: Stream | str | None,
) -> Iterator[str]:
    """The lines of a replica, where `read` is the `log_chunks` of its scheduler.

    Raises UsageError for an unknown stream.
    """
    chunks = read(
        app_id,
        [replica],
        since=since.timestamp() if since else None,
        until=until.timestamp() if until else None,
        follow=follow,
        stream=stream_of(streams).value if streams else COMBINED,
    )
    return text_lines(data for _, _, data in chunks)


def split_lines(text: str) -> list[str]:
    r"""Split after each `\n` and only there; lines keep it. `"foo\nbar"` gives `["foo\n", "bar"]`."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    if last:
        lines.append(last)
    return lines


def split_lines_iterator(chunks: Iterable[str]) -> Iterator[str]:
    """`split_lines` of each chunk by itself: a line that spans two chunks is cut in two."""
    for chunk in chunks:
        yield from split_lines(chunk)


def filter_regex(regex: str, data: Iterable[str]) -> Iterator[str]:
    """The lines of `data` in which `regex` is found, lazily."""
    import re

    search = re.compile(regex).search
    return (line for line in data if search(line))


class LogPart:
    """The part of a log to read: see `Scheduler.log_chunks`. `stream` is stdout, stderr or combined."""

    __slots__ = ("follow", "since", "stream", "tail", "until")

    def __init__(
        self,
        stream: str = "combined",
        since: float | None = None,
        until: float | None = None,
        tail: int | None = None,
        *,
        follow: bool = False,
    ) -> None:
        self.stream = stream
        self.since = since
        self.until = until
        self.tail = tail
        self.follow = follow

    @property
    def first_ns(self) -> int:
        """`since` in nanoseconds; 0 where it is not given."""
        return 0 if self.since is None else since_ns(self.since)

    @property
    def last_ns(self) -> int | None:
        """`until` in nanoseconds; None where it is not given."""
        return None if self.until is None else until_ns(self.until)
