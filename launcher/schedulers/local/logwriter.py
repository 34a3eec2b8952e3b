"""Write the output of replicas: each byte once, with an index of streams and times.

Files are created with their first byte, those of separate streams with the replica. Only the files of the
latest writers stay open, so that thousands of replicas fit under a small limit of open files.
"""

import os
import time

from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Buffer = bytes | memoryview

STDOUT, STDERR, RESTART = 0, 1, 2
"""Kinds of index records; the first two are also positions in `ReplicaLog.files`."""

NAMES = (rundir.STDOUT, rundir.STDERR, rundir.COMBINED, rundir.INDEX)
FILES_PER_REPLICA = len(NAMES)
COMBINED, INDEX = 2, 3
RESOLUTION_NS = 1_000_000
RECORD_BYTES = 16
SEGMENTS = 4
"""The number of segments of a bounded log: one for its beginning, three for its end."""


class ReplicaLog:
    """The log files of one replica and their sizes. `files` is empty while none of them is open.

    `offset` counts the printed bytes; `begin` is the offset of the present segment's first byte.
    """

    __slots__ = ("begin", "files", "folder", "index_bytes", "kind", "offset", "segment", "stamp_ns")

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.files: list[int] | tuple[()] = ()
        self.kind = -1
        self.offset = 0
        self.stamp_ns = 0
        self.segment = 0
        self.begin = 0
        self.index_bytes = 0

    @property
    def segment_bytes(self) -> int:
        return self.offset - self.begin + self.index_bytes


class LogWriter:
    """Writes the output of replicas, byte for byte.

    A failed write (a full disk, a removed folder) loses its piece of output and is reported to `on_loss`.
    """

    def __init__(
        self,
        max_open: int,
        on_loss: "Callable[[ReplicaLog, OSError], None]",
        *,
        separate: bool = False,
        max_bytes: int = 0,
        on_drop: "Callable[[ReplicaLog], None] | None" = None,
    ) -> None:
        """
        Args:
            max_open: the number of replicas whose files stay open, at least one.
            separate: write stdout.log and stderr.log, too.
            max_bytes: the bound of one replica's log on disk, its index included; 0 for no bound. Beyond it,
                the oldest output behind the first quarter is removed, a quarter at a time.
            on_drop: called before the first removal from a replica's log.
        """
        self._max_open = max(1, max_open)
        self._on_loss = on_loss
        self._separate = separate
        self._segment_bytes = max_bytes // SEGMENTS
        self._on_drop = on_drop
        self._open: dict[ReplicaLog, None] = {}  # least recently used first

    def append(self, log: "ReplicaLog", kind: int, data: "Buffer") -> None:
        """Add output of a replica's stdout or stderr."""
        try:
            if self._segment_bytes:
                data = self._fill_segments(log, kind, data)
            self._put(log, kind, data)
        except OSError as error:
            self.close(log)  # its sizes are read again on reopening
            self._on_loss(log, error)

    def begin(self, log: "ReplicaLog") -> None:
        """Create stdout.log and stderr.log where they are asked for: programs open both, empty or not."""
        if not self._separate:
            return
        try:
            files = self._opened(log)
            for kind in (STDOUT, STDERR):
                files[kind] = _open(log, kind)
        except OSError as error:
            self.close(log)
            self._on_loss(log, error)

    def mark_restart(self, log: "ReplicaLog") -> None:
        """Mark in the index that the following output comes from a new process."""
        try:
            files = self._opened(log)
            log.kind = -1
            self._stamp(log, files[INDEX], RESTART)
        except OSError as error:
            self.close(log)
            self._on_loss(log, error)

    def close(self, log: "ReplicaLog") -> None:
        self._open.pop(log, None)
        for fd in log.files:
            if fd >= 0:
                os.close(fd)
        log.files = ()

    def close_all(self) -> None:
        for log in list(self._open):
            self.close(log)

    def _put(self, log: "ReplicaLog", kind: int, data: "Buffer") -> None:
        files = self._opened(log)
        self._stamp(log, files[INDEX], kind)
        log.offset += _write(files[COMBINED], data)
        if self._separate:
            if files[kind] < 0:
                files[kind] = _open(log, kind)
            _write(files[kind], data)

    def _stamp(self, log: "ReplicaLog", index: int, kind: int) -> None:
        """Write the index record of the next output, unless the last one is equal."""
        now = time.time_ns()
        if kind == log.kind and now - log.stamp_ns < RESOLUTION_NS:
            return
        stamp = now << 2 | kind
        log.index_bytes += _write(index, log.offset.to_bytes(8, "little") + stamp.to_bytes(8, "little"))
        log.kind = kind
        log.stamp_ns = now

    def _opened(self, log: "ReplicaLog") -> "list[int]":
        """The replica's files by name, with the combined log and the index open."""
        if log.files:
            files = log.files
            del self._open[log]
        else:
            while len(self._open) >= self._max_open:
                self.close(next(iter(self._open)))
            files = log.files = [-1] * FILES_PER_REPLICA
        self._open[log] = None
        if files[INDEX] < 0:
            log.kind = -1
            files[COMBINED] = _open(log, COMBINED)
            files[INDEX] = _open(log, INDEX)
            log.offset = log.begin + os.lseek(files[COMBINED], 0, os.SEEK_END)
            indexed = os.lseek(files[INDEX], 0, os.SEEK_END)
            if indexed % RECORD_BYTES:  # a full disk cut the last record
                os.ftruncate(files[INDEX], indexed - indexed % RECORD_BYTES)
            log.index_bytes = indexed - indexed % RECORD_BYTES
        return files

    # -- a log with a bound --------------------------------------------------------------------------------

    def _fill_segments(self, log: "ReplicaLog", kind: int, data: "Buffer") -> "Buffer":
        """Write data that does not fit into the present segment, and begin new ones; returns the rest.

        Segments end with a complete line where possible, so that whole lines are removed later.
        """
        self._opened(log)
        while log.segment_bytes + RECORD_BYTES + len(data) > self._segment_bytes:
            room = max(0, self._segment_bytes - log.segment_bytes - RECORD_BYTES)
            cut = bytes(data[:room]).rfind(b"\n") + 1
            if not cut and log.offset == log.begin:
                cut = room
            if cut:
                self._put(log, kind, data[:cut])
                data = data[cut:]
            self._begin_segment(log)
        return data

    def _begin_segment(self, log: "ReplicaLog") -> None:
        """Close the present segment, begin the next one, and remove the oldest segment behind the first."""
        self.close(log)
        log.segment += 1
        log.begin = log.offset
        log.index_bytes = 0
        oldest = log.segment - SEGMENTS + 1
        if oldest == 1 and self._on_drop:
            self._on_drop(log)
        if oldest >= 1:
            for name in (rundir.COMBINED, rundir.INDEX):
                try:
                    os.unlink(rundir.log_file(log.folder, name, oldest))
                except FileNotFoundError:
                    pass


def _open(log: "ReplicaLog", which: int) -> int:
    segment = log.segment if which in (COMBINED, INDEX) else 0
    path = rundir.log_file(log.folder, NAMES[which], segment)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)


def _write(fd: int, data: "Buffer") -> int:
    """Write all of the data; returns its length. Raises OSError when only a part fits."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])
    return written
