"""The record of an app on disk, a line for each event: its writer and its reader. Python >= 3.6.

Supervisors only write, and load no JSON parser: `from_json` loads it at its first use.
"""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    Event = dict[str, Any]

_PREALLOCATE = 0x4030582A  # FS_IOC_RESVSP64 of <linux/falloc.h>: the size of the file stays
_LEAST_ROOM, _MORE_ROOM = 1024, 64 * 1024  # bytes allocated ahead: at least; at a time
_LEFT_OVER = 8192  # allocated bytes beyond its end that an ended record may keep: freeing blocks takes time
_HEAD = 64 * 1024  # holds the events before the start, which name each role and each needed job
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class JournalWriter:
    """Adds events to a record: each line completely, or not at all.

    A full disk must not stop the app: the record has blocks ahead of its end for the next events. Events that
    find no room wait in memory as `unwritten`, with the `error` that kept them.
    """

    def __init__(
        self,
        path: str,
        *,
        ahead: "Optional[int]" = None,
        size: int = 0,
        fd: int = -1,
        is_shared: bool = False,
    ) -> None:
        """
        Args:
            ahead: the bytes that are allocated beyond its end now; None to allocate none.
            size: bytes of whole lines in the record; the rest is cut off. Unused for a shared record.
            fd: the record, open for appending. Without it each write opens and closes the file: NFS may
                report a full disk only when the file is closed.
            is_shared: other processes add lines, too, so that nothing can be cut off.
        """
        self.unwritten = []  # type: list[Event]
        self.error: Optional[OSError] = None
        self._path = path
        self._ahead = ahead
        self._size = size
        self._fd = fd
        self._is_shared = is_shared
        self._may_be_torn = fd < 0  # a writer before, or the last write, may have left a part of a line

    @classmethod
    def begin(cls, path: str) -> "JournalWriter":
        """Start a record, which stays open. Raises FileExistsError when it is the record of a started app."""
        fd = os.open(path, _FLAGS, 0o600)
        before = os.read(fd, _HEAD)
        if b'{"e":"starting"' in before:
            os.close(fd)
            raise FileExistsError(path)
        if before:
            os.ftruncate(fd, 0)  # an interrupted submission; this frees the blocks ahead, too
        return cls(path, ahead=_allocated(fd), fd=fd)

    @classmethod
    def go_on(cls, path: str) -> "JournalWriter":
        """Continue a record that another process has closed, as its only writer. Raises OSError."""
        fd = os.open(path, _FLAGS, 0o600)
        size = os.fstat(fd).st_size
        return cls(path, ahead=_allocated(fd) - size, size=size, fd=fd)

    def put_down(self) -> None:
        """Close the file until the next event, which opens it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def append(self, event: "Event") -> bool:
        """Add an event, with the time `t` in ns unless it has one. Returns whether all are on the disk."""
        self.hold_back(event)
        return self.is_written()

    def hold_back(self, event: "Event") -> None:
        """Add an event that the next `is_written` writes, together with others."""
        event["t"] = event.get("t") or int(time.time() * 1e9)
        self.unwritten.append(event)

    def is_written(self) -> bool:
        """Whether every event is on the disk; tries to write those that are not."""
        if self.unwritten:
            del self.unwritten[: self._write()]
        return not self.unwritten

    def close(self) -> None:
        """Close the file, and free most blocks ahead of its end. No event may follow."""
        if self._ahead is not None and self._ahead > _LEFT_OVER and self._fd >= 0:
            os.ftruncate(self._fd, self._size)
        self.put_down()

    def _write(self) -> int:
        """Write the waiting events; returns the number of events whose lines are whole on the disk."""
        data = b"".join(map(line, self.unwritten))
        try:
            if self._fd >= 0:
                whole = self._add(self._fd, data)
            else:
                fd = os.open(self._path, _FLAGS, 0o600)
                try:
                    whole = self._add(fd, data)
                finally:
                    os.close(fd)
        except OSError as error:
            self.error = error
            return 0
        self._size += whole
        if self._ahead is not None:
            self._ahead -= whole
            if self._ahead < _LEAST_ROOM and self._fd >= 0:
                self._ahead = self._allocate()
        return data.count(b"\n", 0, whole)

    def _add(self, fd: int, data: bytes) -> int:
        """Append lines; returns the number of bytes up to the end of the last whole line."""
        if self._is_shared:
            size = os.fstat(fd).st_size
            end = b"\n" if size and os.pread(fd, 1, size - 1) != b"\n" else b""  # a full disk has cut a line
            return data.rfind(b"\n", 0, max(0, os.write(fd, end + data) - len(end))) + 1
        if self._may_be_torn:
            os.ftruncate(fd, self._size)
        written, self._may_be_torn = 0, True
        try:
            while written < len(data):
                written += os.write(fd, data[written:])
        except OSError as error:
            self.error = error
        whole = data.rfind(b"\n", 0, written) + 1
        if whole < written:
            os.ftruncate(fd, self._size + whole)
        self._may_be_torn = False
        return whole

    def _allocate(self) -> "Optional[int]":
        """Allocate blocks ahead of the end; returns their bytes, None where the file system cannot."""
        try:
            preallocate(self._fd, self._size, _MORE_ROOM)
        except OSError as error:
            return self._ahead if is_full(error) else None
        return _MORE_ROOM


def preallocate(fd: int, start: int, size: int) -> None:
    """Allocate the blocks of `size` bytes from `start` in an open file, whose size stays.

    Raises OSError, also where the file system cannot.
    """
    from fcntl import ioctl  # a supervisor seldom needs it
    from struct import pack

    ioctl(fd, _PREALLOCATE, pack("hhqqiI4i", 0, os.SEEK_SET, start, size, 0, 0, 0, 0, 0, 0))


def is_full(error: OSError) -> bool:
    """Whether the disk, or the user's part of it, has no room."""
    from errno import EDQUOT, ENOSPC  # a supervisor seldom needs it

    return error.errno in (ENOSPC, EDQUOT)


def _allocated(fd: int) -> int:
    return os.fstat(fd).st_blocks * 512


# -- lines -------------------------------------------------------------------------------------------------


def read_events(data: bytes) -> "list[Event]":
    """The events of the whole lines of a record. Lines that a full disk or a crash has torn are left out."""
    whole = data[: data.rfind(b"\n") + 1]  # the last line may still be written
    try:
        found = from_json((b"[" + whole[:-1].replace(b"\n", b",") + b"]").decode())
    except ValueError:
        found = []
        for text in whole.split(b"\n"):
            try:
                found.append(from_json(text.decode()))
            except ValueError:
                continue
    return [event for event in found if isinstance(event, dict) and "e" in event and "t" in event]


def line(event: "Event") -> bytes:
    """The line of an event: its version, its kind and its time first, then the other fields."""
    fields = {name: event[name] for name in ("v", "e", "t") if name in event}  # type: Event
    fields.update(event)
    return as_json(fields).encode() + b"\n"


class _Plain:
    """The settings of a JSON scanner, equal to those of `json.loads`."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int, parse_constant = float, int, float


_scan: "Callable[[str, int], tuple[Any, int]] | None" = None


def from_json(text: str) -> "Any":
    """The value of a JSON text, as `json.loads` reads it. Raises ValueError, RecursionError.

    The module `json` would load `re` and `enum` first, a sixth of the time that `status` of an app takes.
    """
    global _scan
    if _scan is None:
        try:
            from _json import make_scanner

            _scan = make_scanner(_Plain)  # type: ignore[arg-type]
        except ImportError:  # an interpreter without this part of CPython
            from json.decoder import JSONDecoder

            _scan = JSONDecoder().raw_decode
    text = text.strip(" \t\n\r")
    try:
        value, end = _scan(text, 0)
    except StopIteration as error:
        raise ValueError(f"no JSON value at character {error.value}") from None
    except SystemError:  # the scanner of CPython raises it in place of an error of the module `json`
        raise ValueError("no JSON value") from None
    if end != len(text):
        raise ValueError(f"text after the JSON value at character {end}")
    return value


def as_json(value: "Any") -> str:
    """JSON in ASCII. The module `json` would add a tenth to the memory of a supervisor."""
    kind = type(value)
    if kind is int or kind is float:  # most values of the events of thousands of replicas
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ",".join([_quoted(name) + ":" + as_json(each) for name, each in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([as_json(each) for each in value]) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value + 0)  # a plain number; an error for any other type


def _quoted(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text and len(text) == len(text.encode()):
        return '"' + text + '"'
    return '"' + "".join([_escaped(character) for character in text]) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 | code >> 10:04x}\\u{0xDC00 | code & 0x3FF:04x}"
    return character if 0x20 <= code < 0x7F else f"\\u{code:04x}"
