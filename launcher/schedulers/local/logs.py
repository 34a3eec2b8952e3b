"""Read logs of local replicas, now or as they grow; find places in one stream by offset, time or line."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from launcher.schedulers.local import rundir
from launcher.schedulers.local.logfiles import (
    CHUNK,
    KINDS,
    RecordReader,
    Segment,
    folder_of,
    known_folders,
    marker,
    numbers,
)
from launcher.schedulers.logs import COMBINED, LogBlock, since_ns, until_ns
from launcher.schedulers.readback import RecordedLogs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from launcher.schedulers.logs import LogPart, LogRecord, Where
    from launcher.schedulers.restarts import Event, RestartNotes

_BLOCK = 1 << 16
_FILES_PER_READER = 2


class LocalLogs(RecordedLogs):
    """The logs of a local app. Reading them raises SchedulerError for an unknown app, role or replica."""

    def __init__(self, app_dir: str) -> None:
        self._app_dir = app_dir

    def present(self, replicas: Sequence[Where], part: LogPart) -> Iterator[tuple[Where, bytes]]:
        for where, folder in self._folders(replicas).items():
            with LogView(folder, part.stream) as view:
                for data in view.chunks(*view.selected(part)):
                    yield where, data

    def blocks(self, where: Where, part: LogPart) -> Iterator[LogBlock]:
        """Blocks that read the index only on request: most blocks hold no match."""
        from functools import partial

        with LogView(folder_of(self._app_dir, *where), part.stream) as view:
            start, end = view.selected(part)
            for data in view.chunks(start, end):
                yield LogBlock(data, partial(view.written, start))
                start += len(data)
            # The indexes are open until the last line is read.
            yield LogBlock(b"", partial(view.written, start))

    def replicas(self) -> Sequence[Where]:
        return [(role, k) for role, found in known_folders(self._app_dir).items() for k in range(len(found))]

    def present_records(self, where: Where, part: LogPart) -> Iterator[LogRecord]:
        folder = folder_of(self._app_dir, *where)
        return RecordReader(folder, part.stream, part.since, part.until).read()

    def followed(
        self, replicas: Sequence[Where], part: LogPart, notes: RestartNotes | None, *, marks: bool
    ) -> Iterator[tuple[Where, LogRecord]]:
        from launcher.files import allow_open_files

        keep_open = not marks and allow_open_files(_FILES_PER_READER * len(replicas))
        folders = self._folders(replicas)
        readers = {
            where: RecordReader(
                folder,
                part.stream,
                part.since if marks else None,
                part.until,
                start=0 if marks else self._place(folder, part),
                keep_open=keep_open,
            )
            for where, folder in folders.items()
        }
        return self._follow(folders, readers, notes)

    def _follow(
        self, folders: Mapping[Where, str], readers: Mapping[Where, RecordReader], notes: RestartNotes | None
    ) -> Iterator[tuple[Where, LogRecord]]:
        """The records as they are written, until the app has ended or all readers are finished."""
        from launcher.schedulers.local.filewatch import AppWatch

        names = {folder: where for where, folder in folders.items()}
        try:
            with AppWatch(self._app_dir) as watch:
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

    def events(self) -> Callable[[], Iterable[Event]]:
        from launcher.holding.journal import read_events
        from launcher.schedulers.restarts import RecordedEvents

        return RecordedEvents(rundir.events(self._app_dir), read_events)

    def rounds(self) -> Iterator[bool]:
        yield False  # most records have no restart
        from launcher.schedulers.local.filewatch import AppWatch

        with AppWatch(self._app_dir) as watch:
            while True:
                yield watch.ended
                watch.wait()

    def _folders(self, replicas: Sequence[Where]) -> dict[Where, str]:
        return {where: folder_of(self._app_dir, *where) for where in replicas}

    def _place(self, folder: str, part: LogPart) -> int:
        if part.since is None and part.tail is None:
            return 0
        with LogView(folder, part.stream) as view:
            return view.place_of(view.selected(part)[0])


class LogView:
    """One stream ("stdout", "stderr", "combined") of a replica's log, as far as it was written.

    Offsets count the bytes of the stream, which consists of runs: consecutive parts of the log, and a line
    in place of removed output. `size` is its length, `end` the place behind the last byte that was read.
    """

    def __init__(self, folder: str, stream: str = COMBINED) -> None:
        self._segments: list[tuple[int, int, Segment]] = []  # begin, end, files
        self._starts = array("Q")  # offset of each run
        self._places = array("Q")  # place of each run
        self._markers: dict[int, bytes] = {}  # number of a run → its marker
        self._cache = (0, b"")  # place and bytes of the last block
        self._known = (0, 0, 0, "")  # two offsets, and time and stream of all bytes between them
        self.size = 0
        self.end = 0
        for number in numbers(folder):
            self._add_segment(Segment(folder, number), stream)

    def __enter__(self) -> LogView:
        return self

    def __exit__(self, *_: object) -> None:
        for found in self._segments:
            found[2].close()

    # -- runs ----------------------------------------------------------------------------------------------

    def _add_segment(self, segment: Segment, stream: str) -> None:
        segment.open()
        size = segment.size
        if segment.number:
            segment.read_index()
        if segment.begin is None or (segment.number and segment.fd < 0):
            segment.close()  # the segment is empty, or was removed meanwhile
            return
        begin, end = segment.begin, segment.begin + size
        if begin > self.end:
            self._add_marker(begin)
        self._segments.append((begin, end, segment))
        if stream == COMBINED:
            self._add_run(begin, end)
        else:
            self._add_runs(begin, end, segment.read_index(), stream)
        self.end = end

    def _add_runs(self, begin: int, end: int, index: array[int], stream: str) -> None:
        wanted = False
        for n in range(0, len(index), 2):
            if (KINDS[index[n + 1] & 3] == stream) is not wanted:
                # Places decrease in a file that was truncated by hand and then written again.
                place = max(begin, min(index[n], end))
                if wanted:
                    self._add_run(begin, place)
                begin, wanted = place, not wanted
        if wanted:
            self._add_run(begin, end)

    def _add_run(self, begin: int, end: int) -> None:
        if begin == end:
            return
        self._starts.append(self.size)
        self._places.append(begin)
        self.size += end - begin

    def _add_marker(self, place: int) -> None:
        """Add a run for the gap between the last segment and the one that begins at `place`."""
        text = marker(place - self.end)
        if self.size and self.at(self.size - 1, 1) != b"\n":
            text = b"\n" + text
        self._markers[len(self._starts)] = text
        self._starts.append(self.size)
        self._places.append(self.end)
        self.size += len(text)

    def _run_end(self, run: int) -> int:
        return self._starts[run + 1] if run + 1 < len(self._starts) else self.size

    def place_of(self, offset: int) -> int:
        """The place in the log of the byte at `offset`."""
        run = bisect_right(self._starts, offset) - 1
        if offset >= self.size or run < 0:
            return self.end
        return self._places[run] + (0 if run in self._markers else offset - self._starts[run])

    def written(self, start: int, offset: int) -> tuple[int, str, int]:
        """For the byte `offset` bytes behind `start`: when it was read from the replica (ns), its stream, and
        the offset up to which both are the same."""
        at = start + offset
        if not self._known[0] <= at < self._known[1]:
            run = max(0, bisect_right(self._starts, at) - 1)
            place = self.place_of(at)
            _, last, segment = next(each for each in reversed(self._segments) if each[0] <= place)
            index = segment.read_index()
            count = len(index) // 2
            later = bisect_right(range(count), place, key=lambda number: index[2 * number])
            value = index[2 * later - 1] if later else 0
            until = at + (index[2 * later] if later < count else last) - place
            until = max(at + 1, min(until, self._run_end(run)))
            self._known = (at, until, value >> 2, KINDS[value & 3])
        return self._known[2], self._known[3], self._known[1] - start

    # -- bytes ---------------------------------------------------------------------------------------------

    def at(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer at the end, and when a file was truncated meanwhile."""
        parts = []
        run = bisect_right(self._starts, offset) - 1
        left = min(size, self.size - offset)
        while left > 0:
            within = offset - self._starts[run]
            wanted = min(left, self._run_end(run) - offset)
            data = self._of_run(run, within, wanted)
            parts.append(data)
            if len(data) < wanted:
                break
            offset += wanted
            left -= wanted
            run += 1
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _of_run(self, run: int, within: int, size: int) -> bytes:
        text = self._markers.get(run)
        if text is not None:
            return text[within : within + size]
        place = self._places[run] + within
        segment = next(each for begin, _, each in reversed(self._segments) if begin <= place)
        if size >= _BLOCK or len(self._starts) == 1:
            return segment.read(place, size)
        # Lines of two streams alternate: many runs of a few bytes each.
        begin, block = self._cache
        if not begin <= place <= place + size <= begin + len(block):
            begin, block = place, segment.read(place, CHUNK)
            self._cache = begin, block
        return block[place - begin : place - begin + size]

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, or to the end of the stream."""
        end = self.size if end is None else end
        while start < end and (data := self.at(start, min(CHUNK, end - start))):
            yield data
            start += len(data)

    # -- parts ---------------------------------------------------------------------------------------------

    def selected(self, part: LogPart) -> tuple[int, int]:
        """The offsets around the selected lines."""
        start, end = self.window(part.since, part.until)
        return (start if part.tail is None else self.tail_start(part.tail, start, end)), end

    def window(self, since: float | None = None, until: float | None = None) -> tuple[int, int]:
        """The offsets around the lines that began from `since` to `until` (epoch seconds)."""
        start = 0 if since is None else self._line_start(self._offset_at(since_ns(since)))
        end = self.size if until is None else self._line_start(self._offset_at(until_ns(until) + 1))
        return start, end

    def _offset_at(self, time_ns: int) -> int:
        """The first offset at or after a time; approximate when the clock was set back."""
        before = 0
        for _, end, segment in self._segments:
            index = segment.read_index()
            record = bisect_left(index[1::2], time_ns << 2)
            if 2 * record < len(index):
                # A match on the first record of a segment may also cover the removed output before it.
                place = min(index[2 * record], end) if record else before
                run = bisect_right(self._places, place) - 1
                at = self._starts[run] + place - self._places[run] if run >= 0 else 0
                return min(at, self._run_end(run)) if run >= 0 else 0
            before = end
        return self.size

    def _line_start(self, at: int) -> int:
        """The beginning of the first line that begins at or after `at`."""
        if at == 0 or self.at(at - 1, 1) == b"\n":
            return at
        while block := self.at(at, _BLOCK):
            newline = block.find(b"\n")
            if newline >= 0:
                return at + newline + 1
            at += len(block)
        return at

    def tail_start(self, count: int, start: int, end: int) -> int:
        """The begin of the last `count` lines from `start` to `end`. A last line without newline counts."""
        if count <= 0:
            return end
        at = end  # the newline at the end of the last line does not count
        if at > start and self.at(at - 1, 1) == b"\n":
            at -= 1
        while at > start:
            block_start = max(start, at - _BLOCK)
            block = self.at(block_start, at - block_start)
            newlines = block.count(b"\n")
            if newlines < count:
                count -= newlines
                at = block_start
                continue
            for _ in range(count):
                at = block_start + block.rfind(b"\n", 0, at - block_start)
            return at + 1
        return start
