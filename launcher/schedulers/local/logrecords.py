"""Read the logs of replicas as they grow: chunks of output with stream and time."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

from launcher.schedulers.local.filewatch import AppWatch
from launcher.schedulers.local.logfiles import CHUNK, KINDS, Segment, marker, numbers
from launcher.schedulers.logs import COMBINED, DROPPED, RESTART, LogRecord, Where, since_ns, until_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.restarts import RestartNotes  # loads dataclasses

FILES_PER_READER = 2


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
        self._segment = Segment(folder)
        self.finished = False
        """Whether reading is complete: everything written from now on is later than `until`."""

    def read(self) -> Iterator[LogRecord]:
        try:
            while not self.finished:
                # List the segments before reading: a segment is complete once there is a later one.
                later = [number for number in numbers(self._folder) if number > self._segment.number]
                yield from self._read_segment(complete=bool(later))
                if not later:
                    return
                self.close()
                self._segment = Segment(self._folder, later[0])
        finally:
            if not self._keep_open:
                self.close()

    def close(self) -> None:
        self._segment.close()

    def _read_segment(self, *, complete: bool) -> Iterator[LogRecord]:
        segment = self._segment
        was_begun = segment.begin is not None
        segment.open()
        if segment.fd < 0:
            return
        size = segment.size
        index = segment.read_index()
        if segment.begin is None:
            return
        if not was_begun and segment.begin > self._place:
            if self._since_ns is None or index[1] >> 2 >= self._since_ns:
                yield LogRecord(index[1] >> 2, DROPPED, marker(segment.begin - self._place))
            self._place = segment.begin
        if self._skip(index):
            yield from self._read_data(segment, segment.begin + size, complete=complete)

    def _skip(self, index: array[int]) -> bool:
        """Drop the records before the first requested one; False while there is none."""
        if self._since_ns is not None:
            first = bisect_left(index[1::2], self._since_ns << 2)
            del index[: 2 * first]
            if not index:
                return False
            self._place = max(self._place, index[0])
            self._since_ns = None
        if self._start and index:
            before = bisect_right(index[0::2], self._start) - 1
            del index[: 2 * max(0, before)]
            self._start = 0
        return True

    def _read_data(self, segment: Segment, end: int, *, complete: bool) -> Iterator[LogRecord]:
        """The data of all records up to the place `end`; `complete`: the segment will not grow."""
        done = 0
        index = segment.index
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
            while self._place < until and (
                data := segment.read(self._place, min(CHUNK, until - self._place))
            ):
                self._place += len(data)
                yield LogRecord(time_ns, stream, data)
            if not whole:
                break
            done += 2
        del index[:done]


def follow_logs(
    app_dir: str,
    folders: Mapping[Where, str],
    readers: Mapping[Where, RecordReader],
    notes: RestartNotes | None,
) -> Iterator[tuple[Where, LogRecord]]:
    """The records of replicas as they are written, until the app has ended or all readers are finished.

    Args:
        readers: a reader for each of the folders; closed at the end.
        notes: reports restarts, each after the output before it.
    """
    names = {folder: where for where, folder in folders.items()}
    try:
        with AppWatch(app_dir) as watch:
            for folder in names:
                watch.add(folder)
            changed = set(readers)
            while True:
                ended = watch.ended  # look before reading: data read after the end is complete
                seen = notes.look() if notes else 0.0  # all output before these restarts is on disk
                if notes and seen:
                    changed |= notes.waiting()
                for where in readers if ended else sorted(changed):
                    for record in readers[where].read():
                        yield where, record
                if all(reader.finished for reader in readers.values()):
                    return
                if notes:
                    notes.flush(seen)
                if ended:
                    return
                changed = {names[folder] for folder in watch.wait() & names.keys()}
    finally:
        for reader in readers.values():
            reader.close()
