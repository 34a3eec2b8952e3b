"""The places in line of many apps that one process holds: they share one FIFO and two files in a table.

The ticket of the first app is in a file of its own: other processes need only that to decide, since the apps
start strictly in the order of their numbers. The second file is for readers: a line for each app that joins,
and one for each app that starts or leaves. An app leaves it before its record goes on, and the file is
removed where that cannot be written: an accepted app in the file of a living process is in line. An app gets
a ticket of its own when it starts, so that every version sees its share.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort

from launcher.turns.bells import Locked, drain, make_bell, open_private, unlink, write
from launcher.turns.line import ALL, GONE, LINE, Decision, after, apps_named, decide, encode, first
from launcher.turns.table import Awaited, Place, others_of, ring, ticket_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from launcher.turns.line import Ask, Ticket

    Position = tuple[int, str, str]
    Others = dict[str, list[Ticket]]

_SLACK = 256
"""The number of departed apps after which the file of all apps is written anew."""


class Queue:
    """The apps of this process in line at one table, and at the table of GPUs.

    Poll `bells` for input and `awaited.fds` for hang-ups; when one of them is ready, or `join` or `leave`
    returns true, look again. `error` says why a table could not be written at the last look; None otherwise.
    """

    def __init__(self) -> None:
        self.awaited = Awaited()
        self.error: OSError | None = None
        self._name = LINE + os.urandom(6).hex()
        self._asks: dict[Position, Ask] = {}
        self._order: list[Position] = []
        self._at_once: dict[Position, Ask] = {}
        self._files: dict[str, LineFile] = {}  # table → the line in it
        self._gpu_tables: set[str] = set()
        self._last = Decision()  # the last decision on the first app

    @property
    def bells(self) -> tuple[int, ...]:
        """The descriptors of its FIFOs. Input means: look again."""
        return tuple(each.bell for each in self._files.values() if each.bell >= 0)

    def join(self, ask: Ask) -> bool:
        """Add an app; returns whether to look again."""
        self._gpu_tables |= {ask.gpu_table} - {""}
        if ask.at_once:
            self._at_once[ask.place] = ask
            return True
        for table in ask.tables:
            if table not in self._files:
                self._files[table] = LineFile(table, self._name)
            self._files[table].join(ticket_of(ask, Decision()))
        insort(self._order, ask.place)
        self._asks[ask.place] = ask
        return any(self._first(table) is ask for table in ask.tables)

    def leave(self, ask: Ask) -> bool:
        """Remove an app that does not start; returns whether to look again."""
        was_first = any(self._first(table) is ask for table in ask.tables)
        self._at_once.pop(ask.place, None)
        self._remove(ask)
        return was_first

    def look(self) -> list[Place]:
        """Start every app whose turn it is, and return their places."""
        self.error = None
        self._take_messages()
        wanted = {*self._files, *(table for ask in self._at_once.values() for table in ask.tables)}
        tables = sorted(wanted, key=lambda table: (table in self._gpu_tables, table))  # as in `Ask.tables`
        started: list[Place] = []
        try:
            with Locked(tables):
                others = {table: others_of(table, self._name) for table in tables}
                while (place := self._start_one(others)) is not None:
                    started.append(place)
                self._write(others, has_started=bool(started))
        except OSError as error:
            self.error = error
            self.awaited.follow(())  # FIFOs that have hung up would wake this process again and again
        return started

    def close(self) -> None:
        """Remove the files of the empty line."""
        for file in self._files.values():
            file.lead(None)

    def _first(self, table: str) -> Ask | None:
        """The first app of the line in a table."""
        return next((ask for place in self._order if table in (ask := self._asks[place]).tables), None)

    def _take_messages(self) -> None:
        named = {app for fd in self.bells for app in apps_named(drain(fd))}
        for ask in [each for each in self._asks.values() if each.app in named] if named else ():
            ask.at_once = True
            self._at_once[ask.place] = ask

    def _next(self) -> Ask | None:
        if self._at_once:
            return next(iter(self._at_once.values()))
        return self._asks[self._order[0]] if self._order else None

    def _start_one(self, others: Others) -> Place | None:
        """Start the app whose turn it is; None where the first app has to wait, or no app is left."""
        ask = self._next()
        if ask is None:
            self.awaited.follow(())
            return None
        while True:
            decision = decide(ask, others[ask.table], others.get(ask.gpu_table, ()))
            if self.awaited.follow(decision.watch):
                break
            others.update((table, others_of(table, self._name)) for table in others)
        if not decision.starts:
            self._last = decision
            return None
        place = Place(ask)
        try:
            place.record(decision)
        except OSError:
            place.leave()
            raise
        for table in ask.tables:
            others[table].append(ticket_of(ask, decision, table))
        self._at_once.pop(ask.place, None)
        self._remove(ask)
        return place

    def _remove(self, ask: Ask) -> None:
        if self._asks.pop(ask.place, None) is None:
            return
        del self._order[bisect_left(self._order, ask.place)]
        for table in ask.tables:
            self._files[table].part(ticket_of(ask, Decision()), self._tickets(table))

    def _tickets(self, table: str) -> Iterator[Ticket]:
        return (ticket_of(each, Decision()) for each in self._asks.values() if table in each.tables)

    def _write(self, others: Others, *, has_started: bool) -> None:
        """Write the first tickets, and wake the apps of other processes that are affected."""
        for table, file in self._files.items():
            ask = self._first(table)
            decision = self._last if self._order and ask is self._asks[self._order[0]] else Decision()
            ticket = None if ask is None else ticket_of(ask, decision)
            if file.lead(ticket, self._tickets(table)) or has_started:
                ring(first(others[table]))
                ring(None if ask is None else after(ask, others[table]))


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
        ticket.state = GONE
        self._gone += 1
        if self._gone < _SLACK:
            self._append(ticket)
        else:
            self._write_all(left)

    def lead(self, ticket: Ticket | None, every: Iterable[Ticket] = ()) -> bool:
        """Write the ticket of the first app, None for an empty line; returns whether that app is a new one.

        Call it under the lock of the table. `every` has the tickets of all apps of the line.
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
