"""Log records, and functions on chunks of log bytes, for all schedulers.

Logs are bytes. Chunks have any size and need not end at a line. Functions on lines gather whole lines first
and then work on one chunk at a time, because a loop over lines takes ten times as long.
"""

from __future__ import annotations

from launcher.errors import SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from launcher.schedulers.responses import Stream

    Written = Callable[[int], tuple[int, str, int]]
    """See `LogBlock`."""

STDOUT = "stdout"
STDERR = "stderr"
COMBINED = "combined"
RESTART = "restart"
DROPPED = "dropped"
STREAMS = (STDOUT, STDERR, COMBINED)

Where = tuple[str, int]
"""Role and number of a replica."""


def stream_of(name: str) -> Stream:
    """The Stream with that name. Raises UsageError with the nearest name."""
    from launcher.errors import UsageError
    from launcher.schedulers.responses import Stream

    if name not in STREAMS:
        from launcher.text import name_hint

        raise UsageError(f"there is no stream `{name}`", hint=name_hint(str(name), STREAMS))
    return Stream(name)


def stream_name(stream: object) -> str:
    """Return "stdout", "stderr" or "combined" for a Stream, a text or None."""
    return COMBINED if stream is None else str(getattr(stream, "value", stream))


def require_replica(app_id: str, counts: Mapping[str, int], role: str, k: int) -> None:
    """Raise SchedulerError for a replica that the app does not have. `counts`: role → number of replicas."""
    if role not in counts:
        from launcher.text import name_hint

        raise SchedulerError(f"app {app_id} has no role `{role}`", hint=name_hint(role, counts))
    if not 0 <= k < counts[role]:
        there = f"0 to {counts[role] - 1}" if counts[role] > 1 else "0"
        raise SchedulerError(f"role `{role}` of {app_id} has no replica {k}", hint=f"there are: {there}")


def since_ns(moment: float) -> int:
    """The first nanosecond of "since `moment`" (epoch seconds): the start of its microsecond."""
    return max(0, round(moment * 1e6) * 1000)


def until_ns(moment: float) -> int:
    """The last nanosecond of "until `moment`" (epoch seconds), the end of its microsecond."""
    return since_ns(moment) + 999


class LogsUnsupported(SchedulerError, NotImplementedError):
    """This scheduler cannot read logs back."""


class LogsRemoved(SchedulerError):
    """The logs of an app that has ended were removed."""

    def __init__(self, app_id: str) -> None:
        super().__init__(f"the logs of {app_id} were removed", hint="only its outcome is still recorded")


class LogRecord:
    """Bytes that a replica wrote, cut anywhere, and when launcher read them, nanoseconds since the epoch.

    stream: stdout, stderr, restart (the empty mark of a restart), or dropped (a line for removed output).
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


class LogBlock:
    """Output of a replica, cut anywhere, with the times of its bytes.

    Attributes:
        written: an offset in `data` → when the byte there was read from the replica, in nanoseconds since the
            epoch, its stream, and the offset up to which both are the same.
    """

    __slots__ = ("data", "written")

    def __init__(self, data: bytes, written: Written) -> None:
        self.data = data
        self.written = written


_BLOCK = 1 << 18  # bytes


def in_blocks(records: Iterable[LogRecord]) -> Iterator[LogBlock]:
    """Join the output of small records into larger blocks."""
    from bisect import bisect_right

    parts: list[bytes] = []
    starts: list[int] = []
    known: list[tuple[int, str]] = []
    size = 0

    def block() -> LogBlock:
        ends, about = [*starts[1:], size], known

        def written(offset: int) -> tuple[int, str, int]:
            number = min(bisect_right(ends, offset), len(ends) - 1)
            return *about[number], ends[number]

        return LogBlock(b"".join(parts), written)

    for record in records:
        if record.data:
            parts.append(record.data)
            starts.append(size)
            known.append((record.time_ns, record.stream))
            size += len(record.data)
        if size >= _BLOCK:
            yield block()
            parts, starts, known, size = [], [], [], 0
    if parts:
        yield block()


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks that end at a newline; only the very last may not."""
    held: list[bytes] = []  # a line longer than a chunk is joined once, not for every chunk
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


class LineSearch:
    """Finds the lines in which a regular expression (`pattern`) is found, in chunks of whole lines.

    Raises UsageError for an invalid expression.
    """

    __slots__ = ("_dense", "_in_bytes", "pattern")

    def __init__(self, regex: str, *, ignore_case: bool = False) -> None:
        import re

        from launcher.errors import UsageError

        flags = re.IGNORECASE if ignore_case else 0
        try:
            self.pattern = re.compile(regex, flags)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"`{regex}` is not a regular expression: {error}") from error
        is_plain = re.fullmatch(_PLAIN, regex, re.ASCII)
        self._in_bytes = re.compile(regex.encode(), flags | re.MULTILINE).search if is_plain else None
        self._dense = False  # most lines match: then jumping from match to match costs more than testing each

    def found(self, chunk: bytes) -> bytes:
        """The matching lines of a chunk, together."""
        if (spans := self._spans_in_bytes(chunk)) is not None:
            found = b"".join([chunk[start:end] for start, end in spans])
        else:
            found = _joined(*self._hits(chunk), is_ended=chunk.endswith(b"\n"))
        self._dense = len(found) * 8 > len(chunk)
        return found

    def spans(self, chunk: bytes) -> list[tuple[int, int]]:
        """The (begin, end) of each matching line of a chunk, with its newline."""
        spans = self._spans_in_bytes(chunk)
        if spans is None:
            lines, hits = self._hits(chunk)
            spans = _spans_of(lines, hits, len(chunk))
        self._dense = sum(end - start for start, end in spans) * 8 > len(chunk)
        return spans

    def _spans_in_bytes(self, chunk: bytes) -> list[tuple[int, int]] | None:
        """As `spans`, by a search that skips lines between matches; None where that search is not usable."""
        if self._in_bytes is None or self._dense or not chunk.isascii():
            return None
        return list(_found_in_chunk(chunk, self._in_bytes))

    def _hits(self, chunk: bytes) -> tuple[Sequence[str] | Sequence[bytes], list[int]]:
        """The lines of a chunk, and the numbers of those that match."""
        if not chunk:
            return [], []
        body = chunk.removesuffix(b"\n")
        texts = body.decode("utf-8", "replace").split("\n")
        search = self.pattern.search
        hits = [number for number, text in enumerate(texts) if search(text)]
        # A newline byte is never part of a longer UTF-8 sequence, so bytes and text split alike.
        return (texts if chunk.isascii() else body.split(b"\n")), hits


def _joined(lines: Sequence[str] | Sequence[bytes], hits: Sequence[int], *, is_ended: bool) -> bytes:
    if not hits:
        return b""
    kept = [lines[number] for number in hits]
    found = "\n".join(kept).encode() if isinstance(kept[0], str) else b"\n".join(kept)  # type: ignore[arg-type]
    return found if not is_ended and hits[-1] == len(lines) - 1 else found + b"\n"


def _spans_of(
    lines: Sequence[str] | Sequence[bytes], hits: Sequence[int], size: int
) -> list[tuple[int, int]]:
    """The (begin, end) of some lines in their chunk of that size."""
    if not hits:
        return []
    from itertools import accumulate

    ends = list(accumulate(map(len, lines)))  # without the newlines before
    return [
        ((ends[number - 1] if number else 0) + number, min(ends[number] + number + 1, size))
        for number in hits
    ]


def grep(chunks: Iterable[bytes], regex: str) -> Iterator[bytes]:
    """The lines in which `regex` is found, all of one chunk together. Raises UsageError as LineSearch."""
    search = LineSearch(regex)
    for chunk in whole_lines(chunks):
        if found := search.found(chunk):
            yield found


def _found_in_chunk(
    chunk: bytes, search: Callable[[bytes, int], re.Match[bytes] | None]
) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(chunk):
        match = search(chunk, at)
        if match is None:
            return
        start = chunk.rfind(b"\n", at, match.start()) + 1 or at
        at = chunk.find(b"\n", match.start()) + 1 or len(chunk)
        if start < at:
            yield start, at


_PLAIN = (
    r"(?:[\w \-/:,=@#%\"'<>!&;~^$|)]|\((?!\?)|\\[.\[\](){}*+?|^$\\/\-bdw]"
    r"|\[[\w \-/:,=@#%\"'<>!&;~.]+\]|\.|[*+?](?![*+?]))*"
)
"""Patterns for which searching many ASCII lines at once finds the same as searching each of them: their parts
neither match a newline nor inspect the text beyond a match."""


def tail(chunks: Iterable[bytes], count: int) -> Iterator[bytes]:
    """The last `count` lines."""
    from collections import deque

    kept: deque[bytes] = deque(maxlen=count)
    for chunk in whole_lines(chunks):
        *lines, last = chunk.split(b"\n")  # a carriage return does not end a line
        kept.extend(line + b"\n" for line in lines)
        kept.extend([last] if last else ())
    yield from kept


def text_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines as text, each with its newline; bytes that are no UTF-8 become U+FFFD."""
    for chunk in whole_lines(chunks):
        ended = chunk.endswith(b"\n")
        body = chunk[:-1] if ended else chunk
        *first, last = body.decode("utf-8", "replace").split("\n")
        for line in first:
            yield line + "\n"
        yield last + "\n" if ended else last


def split_lines(text: str) -> list[str]:
    r"""Split only after each `\n`, which lines keep. `"foo\nbar"` gives `["foo\n", "bar"]`."""
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
    """The part of a log to read. Raises UsageError for an unknown stream.

    Attributes:
        stream: stdout, stderr or combined.
        since, until: epoch seconds; the lines that began between them are selected.
        tail: the number of lines to read, at the end of the log when reading starts; None for all.
        follow: read on until the app has ended.
    """

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
        if stream not in STREAMS:
            stream_of(stream)  # its error lists the streams
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
