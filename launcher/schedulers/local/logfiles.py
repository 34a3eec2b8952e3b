"""The files of a replica: the segments of its log, read as they are written, and its error file.

A log without a bound is one segment. A bounded log has its beginning (segment 0) and its newest segments.
A place is a count of the bytes that the replica has printed: it stays the same when segments are removed.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left, bisect_right

from launcher.errors import SchedulerError
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.local import rundir
from launcher.schedulers.logs import (
    COMBINED,
    DROPPED,
    RESTART,
    STDERR,
    STDOUT,
    LogRecord,
    LogsRemoved,
    require_replica,
    since_ns,
    until_ns,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KINDS = (STDOUT, STDERR, RESTART, "unknown")
CHUNK = 1 << 18  # large enough for few system calls, small enough to stay in the processor's cache
_RECORD = 16


# -- segments ----------------------------------------------------------------------------------------------


def numbers(folder: str) -> list[int]:
    """The existing segments, oldest first. Raises SchedulerError for a folder that cannot be read."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error
    found = [0] if rundir.INDEX in names or rundir.COMBINED in names else []
    front = rundir.INDEX + "."
    later = (name[len(front) :] for name in names if name.startswith(front))
    return found + sorted(int(number) for number in later if number.isdecimal())


def _unreadable(path: str, error: OSError) -> SchedulerError:
    return SchedulerError(f"cannot read {path}: {error.strerror}")


def marker(dropped: int) -> bytes:
    """The line that replaces removed output."""
    return b"[launcher: %d bytes of output were dropped here: log_max_mb]\n" % dropped


class Segment:
    """One segment of a replica's log. Its files may come later, and grow.

    The index record of any data is written before the data: so look at `size` first, then at the index.

    Attributes:
        fd: the file of its data; -1 while that is not open.
        begin: the place of its first byte; None until the index has it.
        index: the index as far as it was read: place, time << 2 | kind, and so on.
    """

    __slots__ = ("_folder", "_index_fd", "_indexed", "begin", "fd", "index", "number")

    def __init__(self, folder: str, number: int = 0) -> None:
        self._folder = folder
        self.number = number
        self.fd = self._index_fd = -1
        self._indexed = 0  # number of index bytes that were read
        self.index = array("Q")
        self.begin: int | None = None if number else 0

    def open(self) -> None:
        """Open the files that exist and are not open."""
        if self.fd < 0:
            self.fd = self._opened(rundir.COMBINED)
        if self._index_fd < 0:
            self._index_fd = self._opened(rundir.INDEX)

    def _opened(self, name: str) -> int:
        try:
            return os.open(rundir.log_file(self._folder, name, self.number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # not yet, or not any more
            return -1

    def close(self) -> None:
        for fd in (self.fd, self._index_fd):
            if fd >= 0:
                os.close(fd)
        self.fd = self._index_fd = -1

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size if self.fd >= 0 else 0

    def read_index(self) -> array[int]:
        """Read the new records of the index. An incomplete record is left for later."""
        while self._index_fd >= 0 and (data := os.pread(self._index_fd, CHUNK, self._indexed)):
            data = data[: len(data) // _RECORD * _RECORD]
            if not data:
                break
            new = array("Q")
            new.frombytes(data)
            if sys.byteorder == "big":
                new.byteswap()
            self.index += new
            self._indexed += len(data)
        if self.begin is None and self.index:
            self.begin = self.index[0]
        return self.index

    def read(self, place: int, size: int) -> bytes:
        return os.pread(self.fd, size, place - (self.begin or 0))


def remove_logs(folders: Iterable[str]) -> None:
    """Remove the segments of the logs in these folders. Raises OSError."""
    for folder in folders:
        for number in numbers(folder):
            for name in (rundir.COMBINED, rundir.INDEX):
                try:
                    os.unlink(rundir.log_file(folder, name, number))
                except FileNotFoundError:
                    pass


# -- reading a log as it grows -----------------------------------------------------------------------------


class RecordReader:
    """Reads records as they are written: each `read` continues where the last one ended.

    Args:
        since, until: epoch seconds.
        start: the place to begin at.
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


# -- the folders of replicas -------------------------------------------------------------------------------

_MOST_APPS = 64
_known_folders: dict[str, tuple[tuple[int, int, int], dict[str, list[str]]]] = {}


def folders_of(app_dir: str) -> dict[str, list[str]] | None:
    """Role → folder of each replica; None before the app was created. Reads the file when it has changed.

    Raises SchedulerError for a file that cannot be read.
    """
    try:
        found = os.stat(os.path.join(app_dir, "request.json"))
    except OSError:
        return None
    version = (found.st_ino, found.st_size, found.st_mtime_ns)
    known = _known_folders.get(app_dir)
    if known is not None and known[0] == version:
        return known[1]
    try:
        request = AppFolder(app_dir).read_json("request.json")
    except OSError as error:
        raise _unreadable(os.path.join(app_dir, "request.json"), error) from error
    if request is None:
        return None
    if len(_known_folders) >= _MOST_APPS:
        _known_folders.clear()
    folders: dict[str, list[str]] = request["role_log_dirs"]
    _known_folders[app_dir] = (version, folders)
    return folders


def known_folders(app_dir: str) -> dict[str, list[str]]:
    """As `folders_of`. Raises SchedulerError when there is no such app or it has no logs, LogsRemoved."""
    name = os.path.basename(app_dir)
    folders = folders_of(app_dir)
    if folders is None:
        if not os.path.isdir(app_dir):
            raise SchedulerError(f"there is no app `{name}`", hint="`launcher list` shows what there is")
        raise SchedulerError(f"{name} was not created yet: it has no logs")
    if rundir.has_no_logs(app_dir):
        raise LogsRemoved(name)
    return folders


def folder_of(app_dir: str, role: str, k: int) -> str:
    """The folder of one replica. Raises SchedulerError when there is no such app, role or replica."""
    folders = known_folders(app_dir)
    sizes = {each: len(found) for each, found in folders.items()}
    require_replica(os.path.basename(app_dir), sizes, role, k)
    return folders[role][k]


def errors(app_dir: str, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """(role, replica) → its error (`error_text`), for the replicas in `wanted` that have left one."""
    folders = folders_of(app_dir) or {}
    found = {}
    for role, k in wanted:
        known = folders.get(role, ())
        text = _error(os.path.join(known[k], rundir.ERROR_FILE)) if k < len(known) else ""
        if text:
            found[role, k] = text
    return found


def _error(path: str) -> str:
    """The text of a file; "" when it is missing or not a regular file."""
    from launcher.files import read_regular
    from launcher.specs.replica_error import MOST_BYTES, error_text

    try:
        return error_text(read_regular(path, MOST_BYTES))
    except OSError:
        return ""
