"""Read the end of a replica's stderr from its log. A supervisor loads this module when a replica fails."""

from __future__ import annotations

import os

from launcher.schedulers.ended_process import TAIL_BYTES
from launcher.schedulers.local import rundir
from launcher.schedulers.local.logwriter import RECORD_BYTES, RESTART, STDERR

_INDEX_BYTES = 1024 * RECORD_BYTES


def stderr_tail(folder: str, segment: int) -> tuple[bytes, bool]:
    """The end of the stderr of a replica's last run, and whether that is the whole stderr.

    `segment` is the last segment of its log; earlier ones are not read.
    """
    try:
        index, first = _end_of_index(rundir.log_file(folder, rundir.INDEX, segment), _INDEX_BYTES)
        data = os.open(rundir.log_file(folder, rundir.COMBINED, segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _collect(index, data, first, whole=not segment and len(index) < _INDEX_BYTES)
        finally:
            os.close(data)
    except OSError:
        return b"", True


def _collect(index: bytes, data: int, first: int, *, whole: bool) -> tuple[bytes, bool]:
    """As `stderr_tail`, from the last records of an index. `first`: the place of the segment's first byte."""
    found, end = b"", first + os.fstat(data).st_size
    for at in range(len(index) - RECORD_BYTES, -1, -RECORD_BYTES):
        begin = int.from_bytes(index[at : at + 8], "little")
        kind = index[at + 8] & 3
        if kind == RESTART:
            return found, True
        if kind == STDERR and begin < end:
            size = min(end - begin, TAIL_BYTES - len(found))
            found = os.pread(data, size, end - size - first) + found
            if len(found) >= TAIL_BYTES:
                return found, False
        end = min(begin, end)
    return found, whole


def _end_of_index(path: str, size: int) -> tuple[bytes, int]:
    """The last whole records of an index, `size` bytes at most, and the place in its first record."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        whole = os.fstat(fd).st_size // RECORD_BYTES * RECORD_BYTES
        first = int.from_bytes(os.pread(fd, 8, 0), "little")
        return os.pread(fd, min(size, whole), max(0, whole - size)), first
    finally:
        os.close(fd)
