"""Reading the logs of local replicas: byte ranges by time, records, and following.

Per replica there are stdout.log, stderr.log and combined.log, byte for byte, and an index of combined.log:
16 bytes a record, little-endian, (offset where a chunk begins, time in ns << 2 | kind). A record holds until
the next one begins and is written before its data, so data without a record cannot be seen.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left

from launcher.schedulers.local import rundir
from launcher.schedulers.logs import COMBINED, RESTART, STDERR, STDOUT, LogRecord, since_ns, until_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 1 << 18  # large enough for few system calls, small enough to stay in the processor's cache
RECORD = 16
_BLOCK = 1 << 16
_KINDS = (STDOUT, STDERR, RESTART, "unknown")
_FILES = {STDOUT: rundir.STDOUT, STDERR: rundir.STDERR, COMBINED: rundir.COMBINED}


def path_of(folder: str, stream: str) -> str:
    """The file that holds a stream ("stdout", "stderr", "combined") of the replica in `folder`."""
    return os.path.join(folder, _FILES[stream])


class LogIndex:
    """The index of one replica's combined.log, as far as it was written."""

    def __init__(self, folder: str) -> None:
        # The size first: whatever data there is by now, its record was written before it.
        self.size = size_of(path_of(folder, COMBINED))
        self._words = _words(os.path.join(folder, rundir.INDEX))

    def __len__(self) -> int:
        return len(self._words) // 2

    def offset(self, number: int) -> int:
        """Where record `number` begins; the end of the data where it is not there yet."""
        return min(self._words[2 * number], self.size) if number < len(self) else self.size

    def is_whole(self, number: int) -> bool:
        """Whether all data of record `number` is there: the next one begins no later than the data ends."""
        return number + 1 < len(self) and self._words[2 * number + 2] <= self.size

    def time_ns(self, number: int) -> int:
        return self._words[2 * number + 1] >> 2

    def stream(self, number: int) -> str:
        return _KINDS[self._words[2 * number + 1] & 3]

    def first_at(self, time_ns: int) -> int:
        """The first record at or after a time. (A clock that was set back makes this a good guess.)"""
        return bisect_left(self._words[1::2], time_ns << 2)

    def length_before(self, number: int, stream: str) -> int:
        """Bytes of a stream that lie before record `number`."""
        if stream == COMBINED:
            return self.offset(number)
        return sum(self.offset(n + 1) - self.offset(n) for n in range(number) if self.stream(n) == stream)


def _words(path: str) -> array[int]:
    words = array("Q")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return words
    words.frombytes(data[: len(data) // RECORD * RECORD])
    if array("H", [1]).tobytes() == b"\0\1":
        words.byteswap()
    return words


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def window(
    folder: str, stream: str, since: float | None = None, until: float | None = None
) -> tuple[int, int]:
    """The byte range of a stream's file with the lines that began from `since` to `until` (epoch seconds)."""
    path = path_of(folder, stream)
    size = size_of(path)
    if since is None and until is None:
        return 0, size
    index = LogIndex(folder)
    start, end = 0, size
    if since is not None:
        start = index.length_before(index.first_at(since_ns(since)), stream)
    if until is not None:
        end = index.length_before(index.first_at(until_ns(until) + 1), stream)
    with _Reader(path) as reader:
        return reader.line_start(min(start, size)), reader.line_start(min(end, size))


def tail_start(path: str, count: int, start: int, end: int) -> int:
    """Where the last `count` lines of the range begin; a last line without newline is one."""
    if count <= 0:
        return end
    left = count
    with _Reader(path) as reader:
        at = end
        if at > start and reader.at(at - 1, 1) != b"\n":
            left -= 1
            if not left:
                return _line_begin(reader, start, at)
        while at > start:
            block_start = max(start, at - _BLOCK)
            block = reader.at(block_start, at - block_start)
            newlines = block.count(b"\n")
            if newlines <= left:
                left -= newlines
                at = block_start
                continue
            for _ in range(left + 1):  # the newline before the first wanted line
                at = block_start + block.rfind(b"\n", 0, at - block_start)
            return at + 1
    return start


def _line_begin(reader: _Reader, start: int, at: int) -> int:
    while at > start:
        block_start = max(start, at - _BLOCK)
        newline = reader.at(block_start, at - block_start).rfind(b"\n")
        if newline >= 0:
            return block_start + newline + 1
        at = block_start
    return start


def chunks(path: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The bytes of a file from `start`, up to `end` or as far as there are some."""
    with _Reader(path) as reader:
        at = start
        while end is None or at < end:
            data = reader.at(at, CHUNK if end is None else min(CHUNK, end - at))
            if not data:
                return
            yield data
            at += len(data)


def records(
    folder: str,
    stream: str = COMBINED,
    since: float | None = None,
    until: float | None = None,
) -> Iterator[LogRecord]:
    """What a replica wrote, with times, as far as there is something. Marks of restarts come too."""
    yield from RecordReader(folder, stream, since, until).read()


class RecordReader:
    """Reads records as they come to be: each `read` goes on where the last one ended."""

    def __init__(self, folder: str, stream: str, since: float | None, until: float | None) -> None:
        self._folder = folder
        self._stream = stream
        self._since_ns = None if since is None else since_ns(since)
        self._until_ns = None if until is None else until_ns(until)
        self._number = 0  # of the record that `_at` lies in
        self._at = 0
        self.finished = False
        """Nothing more can come: what is written now is later than `until`."""

    def read(self) -> Iterator[LogRecord]:
        index = LogIndex(self._folder)
        if self._since_ns is not None and self._number == 0:
            self._number = index.first_at(self._since_ns)
            self._at = index.offset(self._number)
        with _Reader(path_of(self._folder, COMBINED)) as reader:
            while self._number < len(index):
                number = self._number
                if self._until_ns is not None and index.time_ns(number) > self._until_ns:
                    self.finished = True
                    return
                yield from self._record(index, reader)
                if not index.is_whole(number):
                    return
                self._number = number + 1

    def _record(self, index: LogIndex, reader: _Reader) -> Iterator[LogRecord]:
        time_ns, stream = index.time_ns(self._number), index.stream(self._number)
        if stream == RESTART and index.is_whole(self._number):
            yield LogRecord(time_ns, RESTART, b"")
        end = index.offset(self._number + 1)
        if self._stream not in (COMBINED, stream):
            self._at = max(self._at, end)
        while self._at < end:
            data = reader.at(self._at, min(CHUNK, end - self._at))
            if not data:
                return
            self._at += len(data)
            yield LogRecord(time_ns, stream, data)


class _Reader:
    """A file to read at places; one that does not exist is empty."""

    def __init__(self, path: str) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._fd = -1

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def at(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, size, offset) if self._fd >= 0 else b""

    def line_start(self, at: int) -> int:
        """The beginning of the first line that begins at or after `at`."""
        if at == 0 or self.at(at - 1, 1) == b"\n":
            return at
        while block := self.at(at, _BLOCK):
            newline = block.find(b"\n")
            if newline >= 0:
                return at + newline + 1
            at += len(block)
        return at
