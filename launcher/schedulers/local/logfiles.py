"""The files that a replica leaves: where they are, the segments of its log with their indexes, and its error.

A log without a bound is one segment. One with a bound is its beginning (segment 0) and its newest segments.
Places count the bytes that the replica has printed: they stay the same when segments are removed.
"""

from __future__ import annotations

import os
import stat
from array import array

from launcher.errors import SchedulerError
from launcher.schedulers.local import attemptfile, rundir
from launcher.schedulers.logs import RESTART, STDERR, STDOUT, require_replica

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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


# -- the folders of replicas -------------------------------------------------------------------------------

_MOST_APPS = 64
_known_folders: dict[str, tuple[tuple[int, int, int], dict[str, list[str]]]] = {}


def folders_of(app_dir: str) -> dict[str, list[str]] | None:
    """Role → folder of each replica; None before the app was created.

    The file that names all of them is read again only when it has changed.
    """
    try:
        found = os.stat(rundir.request(app_dir))
    except OSError:
        return None
    version = (found.st_ino, found.st_size, found.st_mtime_ns)
    known = _known_folders.get(app_dir)
    if known is not None and known[0] == version:
        return known[1]
    request = attemptfile.read_request(app_dir)
    if request is None:
        return None
    if len(_known_folders) >= _MOST_APPS:
        _known_folders.clear()
    folders: dict[str, list[str]] = request["role_log_dirs"]
    _known_folders[app_dir] = (version, folders)
    return folders


def folder_of(app_dir: str, role: str, k: int) -> str:
    """The folder of one replica. Raises SchedulerError when there is no such app, role or replica."""
    name = os.path.basename(app_dir)
    folders = folders_of(app_dir)
    if folders is None:
        if not os.path.isdir(app_dir):
            raise SchedulerError(f"there is no app `{name}`", hint="`launcher list` shows what there is")
        raise SchedulerError(f"{name} was not created yet: it has no logs")
    require_replica(name, {each: len(found) for each, found in folders.items()}, role, k)
    return folders[role][k]


def errors(app_dir: str, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """(role, replica) → its error (`error_text`), of those of these replicas that have left one.

    Their programs may have written anything there.
    """
    folders = folders_of(app_dir) or {}
    found = {}
    for role, k in wanted:
        known = folders.get(role, ())
        text = _error(os.path.join(known[k], rundir.ERROR_FILE)) if k < len(known) else ""
        if text:
            found[role, k] = text
    return found


def _error(path: str) -> str:
    """The text of a file; "" when it is missing or not a regular file, as reading a pipe might never end."""
    from launcher.specs.replica_error import MOST_BYTES, error_text

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(fd, "rb", buffering=0) as file:
            is_plain = stat.S_ISREG(os.fstat(fd).st_mode)
            return error_text(file.read(MOST_BYTES) or b"") if is_plain else ""
    except OSError:
        return ""
