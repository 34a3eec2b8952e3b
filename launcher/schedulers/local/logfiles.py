"""The files of a replica's log: its segments, their indexes and the gaps between them.

A log without a bound is one segment. One with a bound is its beginning (segment 0) and its newest segments.
Places count the bytes that the replica has printed: they stay the same when segments are removed.
"""

from __future__ import annotations

import os
from array import array

from launcher.schedulers.local import rundir
from launcher.schedulers.logs import RESTART, STDERR, STDOUT

RECORD = 16
KINDS = (STDOUT, STDERR, RESTART, "unknown")
_BIG_ENDIAN = array("H", [1]).tobytes() == b"\0\1"


def numbers(folder: str) -> list[int]:
    """The existing segments, oldest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = [0] if rundir.INDEX in names or rundir.COMBINED in names else []
    front = rundir.INDEX + "."
    later = (name[len(front) :] for name in names if name.startswith(front))
    return found + sorted(int(number) for number in later if number.isdecimal())


def words(data: bytes) -> array[int]:
    """Index records as numbers: place, time << 2 | kind, and so on. An incomplete record is ignored."""
    found = array("Q")
    found.frombytes(data[: len(data) // RECORD * RECORD])
    if _BIG_ENDIAN:
        found.byteswap()
    return found


def open_file(folder: str, name: str, segment: int) -> int:
    """A descriptor; -1 when the file does not exist (any more)."""
    try:
        return os.open(rundir.log_file(folder, name, segment), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1


def marker(dropped: int) -> bytes:
    """The line that replaces removed output."""
    return b"[launcher: %d bytes of output were dropped here: log_max_mb]\n" % dropped


class Segment:
    """One segment as it was when this object was made. `begin` and `end` are places."""

    __slots__ = ("_index", "_words", "begin", "end", "fd")

    def __init__(self, folder: str, number: int) -> None:
        """Raise FileNotFoundError for a segment without an index yet, or without data any more."""
        self._words: array[int] | None = None
        self.fd = open_file(folder, rundir.COMBINED, number)
        self._index = open_file(folder, rundir.INDEX, number)
        # The size first: the record of any data was written before the data.
        size = os.fstat(self.fd).st_size if self.fd >= 0 else 0
        self.begin = 0
        if number:
            first = words(os.pread(self._index, RECORD, 0)) if self._index >= 0 else ()
            if self.fd < 0 or not first:
                self.close()
                raise FileNotFoundError(rundir.log_file(folder, rundir.INDEX, number))
            self.begin = first[0]
        self.end = self.begin + size

    def close(self) -> None:
        for fd in (self.fd, self._index):
            if fd >= 0:
                os.close(fd)
        self.fd = self._index = -1

    @property
    def words(self) -> array[int]:
        """The index of the segment as numbers; see `words`."""
        if self._words is None:
            size = os.fstat(self._index).st_size if self._index >= 0 else 0
            self._words = words(os.pread(self._index, size, 0)) if size else array("Q")
        return self._words


def segments(folder: str) -> list[Segment]:
    """All segments, oldest first."""
    found = []
    for number in numbers(folder):
        try:
            found.append(Segment(folder, number))
        except FileNotFoundError:
            continue  # removed meanwhile, or empty
    return found
