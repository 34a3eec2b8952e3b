"""The files of a replica: their paths, the segments of its log with their indexes, and its error file.

A log without a bound is one segment. A bounded log has its beginning (segment 0) and its newest segments.
A place is a count of the bytes that the replica has printed: it stays the same when segments are removed.
"""

from __future__ import annotations

import os
import stat
from array import array
from contextlib import suppress

from launcher.errors import SchedulerError
from launcher.schedulers.local import appview, rundir
from launcher.schedulers.logs import RESTART, STDERR, STDOUT, LogsRemoved, require_replica

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = (STDOUT, STDERR, RESTART, "unknown")
CHUNK = 1 << 18  # large enough for few system calls, small enough to stay in the processor's cache
_RECORD = 16
_BIG_ENDIAN = array("H", [1]).tobytes() == b"\0\1"


# -- segments ----------------------------------------------------------------------------------------------


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
            if _BIG_ENDIAN:
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
                with suppress(FileNotFoundError):
                    os.unlink(rundir.log_file(folder, name, number))


# -- the folders of replicas -------------------------------------------------------------------------------

_MOST_APPS = 64
_known_folders: dict[str, tuple[tuple[int, int, int], dict[str, list[str]]]] = {}


def folders_of(app_dir: str) -> dict[str, list[str]] | None:
    """Role → folder of each replica; None before the app was created.

    The file that names all of them is read again only when it has changed.
    """
    try:
        found = os.stat(os.path.join(app_dir, "request.json"))
    except OSError:
        return None
    version = (found.st_ino, found.st_size, found.st_mtime_ns)
    known = _known_folders.get(app_dir)
    if known is not None and known[0] == version:
        return known[1]
    request = appview.read_request(app_dir)
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
    name = os.path.basename(app_dir)
    folders = known_folders(app_dir)
    require_replica(name, {each: len(found) for each, found in folders.items()}, role, k)
    return folders[role][k]


def errors(app_dir: str, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """(role, replica) → its error (`error_text`), for the replicas in `wanted` that have left one.

    The programs may have written anything there.
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
    """The text of a file; "" when it is missing or not a regular file: reading a pipe might never end."""
    from launcher.specs.replica_error import MOST_BYTES, error_text

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(fd, "rb", buffering=0) as file:
            is_plain = stat.S_ISREG(os.fstat(fd).st_mode)
            return error_text(file.read(MOST_BYTES) or b"") if is_plain else ""
    except OSError:
        return ""
