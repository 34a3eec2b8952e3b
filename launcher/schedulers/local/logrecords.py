"""Read a replica's log as it grows: chunks of output with stream and time."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from launcher.schedulers.local import rundir
from launcher.schedulers.local.logfiles import KINDS, marker, numbers, open_file, words
from launcher.schedulers.local.logs import CHUNK
from launcher.schedulers.logs import COMBINED, DROPPED, RESTART, LogRecord, since_ns, until_ns


def records(
    folder: str, stream: str = COMBINED, since: float | None = None, until: float | None = None
) -> Iterator[LogRecord]:
    """The present output of a replica with times, and a mark of each restart."""
    return RecordReader(folder, stream, since, until).read()


class RecordReader:
    """Reads records as they are written: each `read` continues where the last one ended.

    Args:
        since, until: epoch seconds.
        start: the place (see `logfiles`) to begin at.
        keep_open: the files stay open between reads; call `close` then.
    """

    def __init__(
        self,
        folder: str,
        stream: str = COMBINED,
        since: float | None = None,
        until: float | None = None,
        *,
        start: int = 0,
        keep_open: bool = False,
    ) -> None:
        self._folder = folder
        self._stream = stream
        self._since_ns = None if since is None else since_ns(since)
        self._until_ns = None if until is None else until_ns(until)
        self._keep_open = keep_open
        self._start = start
        self._place = start  # everything before it was read
        self._segment = 0
        self._begin: int | None = 0  # its first place; None until it is read from the index
        self._data = self._index = -1
        self._indexed = 0  # bytes of its index that were read
        self._words = array("Q")  # index records that are still needed
        self.finished = False
        """Whether reading is complete: everything written from now on is later than `until`."""

    def read(self) -> Iterator[LogRecord]:
        try:
            while not self.finished:
                # Before reading: a segment is complete once there is a later one.
                later = [number for number in numbers(self._folder) if number > self._segment]
                yield from self._read_segment(complete=bool(later))
                if not later:
                    return
                self.close()
                self._segment = later[0]
                self._begin = None
                self._indexed = 0
                self._words = array("Q")
        finally:
            if not self._keep_open:
                self.close()

    def close(self) -> None:
        for fd in (self._data, self._index):
            if fd >= 0:
                os.close(fd)
        self._data = self._index = -1

    def _read_segment(self, *, complete: bool) -> Iterator[LogRecord]:
        if self._index < 0:
            self._index = open_file(self._folder, rundir.INDEX, self._segment)
        if self._data < 0:
            self._data = open_file(self._folder, rundir.COMBINED, self._segment)
        if self._index < 0 or self._data < 0:
            return
        # The size first: the record of any data was written before the data.
        size = os.fstat(self._data).st_size
        self._read_index()
        if self._begin is None and self._words:
            self._begin = self._words[0]
            if self._begin > self._place:
                if self._since_ns is None or self._words[1] >> 2 >= self._since_ns:
                    yield LogRecord(self._words[1] >> 2, DROPPED, marker(self._begin - self._place))
                self._place = self._begin
        if self._begin is not None and self._skip():
            yield from self._read_data(self._begin + size, complete=complete)

    def _read_index(self) -> None:
        while data := os.pread(self._index, CHUNK, self._indexed):
            new = words(data)
            if not new:
                return
            self._words += new
            self._indexed += len(new) * new.itemsize

    def _skip(self) -> bool:
        """Drop the records before the first requested one; False while there is none."""
        if self._since_ns is not None:
            first = bisect_left(self._words[1::2], self._since_ns << 2)
            del self._words[: 2 * first]
            if not self._words:
                return False
            self._place = max(self._place, self._words[0])
            self._since_ns = None
        if self._start and self._words:
            before = bisect_right(self._words[0::2], self._start) - 1
            del self._words[: 2 * max(0, before)]
            self._start = 0
        return True

    def _read_data(self, end: int, *, complete: bool) -> Iterator[LogRecord]:
        """The data of all records up to the place `end`; `complete`: the segment will not grow."""
        done = 0
        index = self._words
        while done < len(index):
            time_ns, stream = index[done + 1] >> 2, KINDS[index[done + 1] & 3]
            if self._until_ns is not None and time_ns > self._until_ns:
                self.finished = True
                break
            until = min(index[done + 2], end) if done + 2 < len(index) else end
            whole = complete or (done + 2 < len(index) and index[done + 2] <= end)
            if stream == RESTART and whole:
                yield LogRecord(time_ns, RESTART, b"")
            if self._stream not in (COMBINED, stream):
                self._place = max(self._place, until)
            while self._place < until:
                at = self._place - (self._begin or 0)
                data = os.pread(self._data, min(CHUNK, until - self._place), at)
                if not data:
                    break
                self._place += len(data)
                yield LogRecord(time_ns, stream, data)
            if not whole:
                break
            done += 2
        del index[:done]
