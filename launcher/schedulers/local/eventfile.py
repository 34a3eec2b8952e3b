"""Write the events of an app: one line and one write per event, even when the disk is full."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    Value = str | int | float | bool | None | list["Value"]

SPARE_BYTES = 64 * 1024
_HEAD = 64 * 1024  # holds the events before the start, which name each role and each needed job


class EventFile:
    """The events file of an app. Only the supervisor writes it.

    A full disk must not stop the app: events that do not fit wait in memory, and the blocks of the `spare`
    file are freed for them. A line is written completely or not at all.
    """

    def __init__(self, path: str, spare: str) -> None:
        """Start a record. Raises FileExistsError when it is the record of a started app."""
        self._spare = spare
        self._waiting = b""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        if b'{"e":"starting"' in os.read(self._fd, _HEAD):
            os.close(self._fd)
            raise FileExistsError(path)
        os.ftruncate(self._fd, 0)  # an interrupted submission
        self._size = 0
        _reserve(spare)

    def append(self, event: dict[str, Value]) -> None:
        """Append an event: its kind `e`, its time `t` in ns, as of now where it has none, and its fields.

        A first event may begin with the version `v` of the format.
        """
        event.setdefault("t", time.time_ns())
        first = {name: event[name] for name in ("v", "e", "t") if name in event}
        members = ",".join([f'"{name}":{_json(value)}' for name, value in (first | event).items()])
        self._waiting += b"{%b}\n" % members.encode()
        self.is_written()

    def is_written(self) -> bool:
        """Whether every event is on the disk; tries to write those that wait for space."""
        while self._waiting:
            try:
                written = os.write(self._fd, self._waiting)
            except OSError:
                written = 0
            whole = written
            if written < len(self._waiting):  # the disk is full; remove the incomplete line
                whole = self._waiting.rfind(b"\n", 0, written) + 1
                os.ftruncate(self._fd, self._size + whole)
            self._size += whole
            self._waiting = self._waiting[whole:]
            if self._waiting and not self._give_back():
                return False
        return True

    def close(self) -> None:
        """Finish the record and free the spare blocks."""
        self._give_back()
        os.close(self._fd)

    def _give_back(self) -> bool:
        """Free the spare blocks; False when they are already free."""
        try:
            os.unlink(self._spare)
        except OSError:
            return False
        return True


def _json(value: Value) -> str:
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, list):
        return f"[{','.join([_json(each) for each in value])}]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _quote(text: str) -> str:
    """A JSON string in ASCII; `json` would add a tenth to this process's memory."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join([_escape(character) for character in text])}"'


def _escape(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 | code >> 10:04x}\\u{0xDC00 | code & 0x3FF:04x}"
    return character if 0x20 <= code < 0x7F else f"\\u{code:04x}"


def _reserve(path: str) -> None:
    """Make a file with its blocks allocated."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.posix_fallocate(fd, 0, SPARE_BYTES)
    except (AttributeError, OSError):  # no posix_fallocate here: zeros allocate blocks as well
        os.write(fd, bytes(SPARE_BYTES))
    finally:
        os.close(fd)
