"""The files of a line: the apps that one process holds, which share one FIFO in a table.

The ticket of the first app is in a file of its own: other processes need only that to decide. The second file
is for readers: a line for each app that joins, and one for each app that starts or leaves. An app leaves it
before its record goes on, and the file is removed where that cannot be written: an accepted app in the file
of a living process is in line.
"""

from __future__ import annotations

import os

from launcher.turns.bells import make_bell, open_private, read_whole, unlink, write
from launcher.turns.line import Ticket, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = "line-"
ALL = ".bell.all"
_GONE = "gone"
_END = b"\n"
_LOOK = b"l"
_SLACK = 256
"""How many apps may have gone before the file of all apps is written anew."""


def is_line(name: str) -> bool:
    """Whether a file of a table is the first ticket of a line."""
    return name.startswith(NAME)


def message(app: str) -> bytes:
    """The rest of a message to the FIFO about one app of the line."""
    return app.encode(errors="surrogateescape") + _END


def apps_named(said: bytes) -> list[str]:
    """The apps that messages in the input of a FIFO name: other messages are single bytes."""
    found = (part.lstrip(_LOOK)[1:] for part in said.split(_END))
    return [each.decode(errors="surrogateescape") for each in found if each]


def members(path: str, first: Ticket) -> list[Ticket]:
    """The tickets of a line, given its path and the ticket of the first one."""
    found: dict[object, Ticket] = {}
    for text in read_whole(path + ALL).split(_END):
        ticket = decode(text, first.table, first.name)
        if ticket is not None and ticket.state == _GONE:
            found.pop(ticket.place, None)
        elif ticket is not None:
            found[ticket.place] = ticket
    found[first.place] = first
    return list(found.values())


def app_ids(path: str, home: str) -> set[str]:
    """The ids of the apps in the line with this path that are of the state folder with this token."""
    found: set[str] = set()
    mark = f"home {home}"  # see `ask.marked`
    for text in read_whole(path + ALL).decode(errors="surrogateescape").split("\n"):
        fields = text.split("\t")  # see `line.encode`
        if mark in fields:
            (found.discard if fields[2] == _GONE else found.add)(fields[0])
    return found


class LineFile:
    """The files of this process's line in one table: there are none while the line is empty."""

    def __init__(self, table: str, name: str) -> None:
        self.path = os.path.join(table, name)
        self.bell = -1
        self._first = b""
        self._gone = 0

    def join(self, ticket: Ticket) -> None:
        """Add an app."""
        if self.bell >= 0:
            self._append(ticket)

    def part(self, ticket: Ticket, left: Iterable[Ticket]) -> None:
        """Remove an app. `left`: the tickets of the remaining apps, for a file that is written anew."""
        if self.bell < 0:
            return
        ticket.state = _GONE
        self._gone += 1
        if self._gone < _SLACK:
            self._append(ticket)
        else:
            self._write_all(left)

    def lead(self, ticket: Ticket | None, every: Iterable[Ticket] = ()) -> bool:
        """Write the ticket of the first app, None for an empty line; returns whether that app is a new one.

        Call it under the lock of the table.

        Args:
            every: the tickets of all apps of the line.
        """
        if ticket is None:
            had_any = self.bell >= 0
            self._close()
            return had_any
        now = encode(ticket)
        if now == self._first:
            return False
        is_new = self.bell < 0
        if is_new:
            self.bell = make_bell(self.path + ".bell")
        write(self.path, now)
        self._first = now
        if is_new:  # without a first ticket, others take this file for the remains of a dead process
            self._write_all(every)
        return True

    def _close(self) -> None:
        """Remove the files."""
        if self.bell < 0:
            return
        for each in (self.path + ALL, self.path, self.path + ".bell"):
            unlink(each)
        os.close(self.bell)
        self.bell, self._first, self._gone = -1, b"", 0

    def _append(self, ticket: Ticket) -> None:
        try:
            with open(self.path + ALL, "ab", opener=open_private) as file:
                file.write(encode(ticket))
        except OSError:
            self._withhold()

    def _withhold(self) -> None:
        """Remove the file for readers, which is outdated, until the next change writes it anew."""
        unlink(self.path + ALL)
        self._gone = _SLACK

    def _write_all(self, every: Iterable[Ticket]) -> None:
        try:
            write(self.path + ALL, b"".join(map(encode, every)))
            self._gone = 0
        except OSError:
            self._withhold()
