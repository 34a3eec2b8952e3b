"""The log files of replicas: stdout and stderr each, both combined, and when what was written.

Files are made with their first byte and kept open for the replicas that wrote last, so that thousands of
replicas fit under a small limit of open files.
"""

from __future__ import annotations

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


class ReplicaLog:
    """Where one replica's logs are, and how far they got. `files` is empty while none of them is open."""

    __slots__ = ("files", "folder", "kind", "offset", "stamp_ns")

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.files: list[int] | tuple[()] = ()
        self.kind = -1
        self.offset = 0
        self.stamp_ns = 0


class LogWriter:
    """Writes what replicas print, byte for byte.

    A write that fails (a full disk, a folder that somebody removed) loses that piece and is reported to
    `on_loss`; the next piece is tried again, and the replica never waits for it.
    """

    def __init__(self, max_open: int, on_loss: Callable[[ReplicaLog, OSError], None]) -> None:
        """`max_open`: of how many replicas the files are kept open, at least one."""
        self._max_open = max(1, max_open)
        self._on_loss = on_loss
        self._open: dict[ReplicaLog, None] = {}  # least recently used first

    def append(self, log: ReplicaLog, kind: int, data: Buffer) -> None:
        """Add what a replica wrote to its stdout or stderr."""
        try:
            files = self._opened(log, kind)
            self._stamp(log, files[INDEX], kind)
            log.offset += _write(files[COMBINED], data)
            _write(files[kind], data)
        except OSError as error:
            self.close(log)  # how far it got is asked anew
            self._on_loss(log, error)

    def mark_restart(self, log: ReplicaLog) -> None:
        """Note that what follows comes from a new process."""
        try:
            files = self._opened(log, COMBINED)
            log.kind = -1
            self._stamp(log, files[INDEX], RESTART)
        except OSError as error:
            self.close(log)
            self._on_loss(log, error)

    def close(self, log: ReplicaLog) -> None:
        self._open.pop(log, None)
        for fd in log.files:
            if fd >= 0:
                os.close(fd)
        log.files = ()

    def close_all(self) -> None:
        for log in list(self._open):
            self.close(log)

    def _stamp(self, log: ReplicaLog, index: int, kind: int) -> None:
        """Write the index record of what comes next, unless the last one says the same."""
        now = time.time_ns()
        if kind == log.kind and now - log.stamp_ns < RESOLUTION_NS:
            return
        stamp = now << 2 | kind
        _write(index, log.offset.to_bytes(8, "little") + stamp.to_bytes(8, "little"))
        log.kind = kind
        log.stamp_ns = now

    def _opened(self, log: ReplicaLog, kind: int) -> list[int]:
        """Its files, by name: the combined log, the index and the one of `kind` are open."""
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
            log.offset = os.lseek(files[COMBINED], 0, os.SEEK_END)
            indexed = os.lseek(files[INDEX], 0, os.SEEK_END)
            if indexed % RECORD_BYTES:  # a full disk cut the last record
                os.ftruncate(files[INDEX], indexed - indexed % RECORD_BYTES)
        if files[kind] < 0:
            files[kind] = _open(log, kind)
        return files


def _open(log: ReplicaLog, which: int) -> int:
    return os.open(
        os.path.join(log.folder, NAMES[which]), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666
    )


def _write(fd: int, data: Buffer) -> int:
    """Write all of it; its length. Raises OSError when only a part fits."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])
    return written
