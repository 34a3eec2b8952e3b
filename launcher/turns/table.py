"""The tickets of apps on disk, one folder for the apps that share a machine.

::

    <table>/
        lock                    held during a decision
        last                    the last ticket number that was drawn
        <number>-<app id>.<token of its state folder>
                                a ticket; older versions leave out the token
        <ticket>.bell           a FIFO that its holder keeps open and locked; for those behind it, the holder
                                replaces it when the app starts
        <ticket>.bell.proof     of a local app that has started: a FIFO that all its processes keep open, for
                                writing only, and locked
        line-<token>            the line of a process that holds many apps: the ticket of the first of them
        line-<token>.bell       its FIFO; `line-<token>.bell.all` has all tickets (`launcher/turns/queue.py`)

A ticket with an unlocked bell is of a dead process. It counts while the app may have processes: the ticket of
a local app until its proof is free, that of a Docker app until a process has asked its engine and calls
`forget`. Then the next decision removes it. Each decision reads everything anew; no counter is kept.

An app in line sleeps until the FIFO of an app before it hangs up, as also at the death of that process, or
until another process writes to the app's own bell. Supervisors import this module: it imports next to
nothing.
"""

from __future__ import annotations

import os
import time

from launcher.filelock import is_at
from launcher.turns.bells import (
    LOCK,
    Locked,
    bequeath,
    drain,
    is_held,
    make_bell,
    make_proof,
    open_held,
    open_private,
    read,
    read_whole,
    unlink,
    write,
    write_to,
)
from launcher.turns.line import (
    ALL,
    HOLDS,
    LINE,
    QUEUED,
    Decision,
    Ticket,
    after,
    app_ids,
    by_app,
    decide,
    decode,
    encode,
    first,
    members,
    message,
    of_app,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from launcher.turns.line import Ask

LOOK, NOW = b"l", b"n"
"""The bytes that are written to a bell: look again; start the app at once."""

_LAST, _BELL = "last", ".bell"
_PATIENCE_S, _AGAIN_S = 5.0, 0.001
_PROOF = f"{_BELL}.proof"  # older versions take no name with `.bell` in it for a ticket


class Awaited:
    """The FIFOs of other apps, for whose hang-up an app in line waits.

    Attributes:
        fds: their descriptors.
        left: the tickets among them whose holders have died.
    """

    def __init__(self) -> None:
        self.fds: tuple[int, ...] = ()
        self.left: tuple[Ticket, ...] = ()

    def follow(self, tickets: Iterable[Ticket]) -> bool:
        """Wait for these tickets only; False when one of them is no longer held."""
        fds, self.fds, self.left = self.fds, (), ()
        for fd in fds:
            os.close(fd)
        for each in tickets:
            if each.is_left:
                self.left += (each,)
                if each.engine:
                    continue
            opened = open_held(_path(each) + (_PROOF if each.is_left else _BELL))
            if opened is None:
                return False
            self.fds += (opened,)
        return True


class Place:
    """The place of one app among those that share the machine: its tickets, which this process holds.

    The first `look` takes the place; each one decides anew. Until the app starts, poll `bells` for input and
    `watched` for hang-ups; when one of them is ready, look again. `left` has the awaited tickets whose
    holders have died. The place is given up by `leave`, or when every process with inherited `bells` has
    ended; the share of a local app when the last of its processes has ended.
    """

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.starts = False
        self.dealt: tuple[str, ...] = ()
        self._awaited = Awaited()
        self._bells: dict[str, int] = {}  # table → FIFO
        self._proofs: dict[str, int] = {}  # table → proof

    @property
    def bells(self) -> tuple[int, ...]:
        """The descriptors of its own FIFOs, one for each of `ask.tables`. Input means: look again."""
        return tuple(self._bells.values())

    @property
    def proofs(self) -> tuple[int, ...]:
        """The descriptors that prove that a started local app runs, one for each of `ask.tables`."""
        return tuple(self._proofs.values())

    @property
    def watched(self) -> tuple[int, ...]:
        return self._awaited.fds

    @property
    def left(self) -> tuple[Ticket, ...]:
        return self._awaited.left

    @classmethod
    def adopt(
        cls, ask: Ask, bells: Sequence[int], proofs: Sequence[int] = (), *, dealt: Sequence[str] | None
    ) -> Place:
        """The place that another process has taken, whose descriptors this process has received.

        `dealt` are the ids of its GPUs; None while it is in line.
        """
        place = cls(ask)
        place._bells = dict(zip(ask.tables, bells, strict=True))
        place._proofs = dict(zip(ask.tables, proofs))  # noqa: B905  # none while it is in line
        place.starts, place.dealt = dealt is not None, tuple(dealt or ())
        return place

    def bequeath(self) -> None:
        """Let every process that this process starts from now on inherit the proofs."""
        self._proofs = {table: bequeath(fd) for table, fd in self._proofs.items()}

    def look(self) -> Decision:
        """Decide whether the app has its turn, and record the decision. A start is final.

        Raises OSError where a table cannot be written: look again later.
        """
        if self.starts:
            return Decision(starts=True, dealt=self.dealt)
        if NOW in b"".join(map(drain, self.bells)):
            self.ask.at_once = True
        try:
            with Locked(self.ask.tables):
                return self._decide()
        except OSError:
            self._awaited.follow(())  # FIFOs that have hung up would wake this process again and again
            raise

    def _decide(self) -> Decision:
        new = not self._bells
        others = self._others()
        while True:
            decision = decide(self.ask, others[self.ask.table], others.get(self.ask.gpu_table, ()))
            if self._awaited.follow(decision.watch):
                break
            others = self._others()
        self.record(decision)
        for listed in others.values():
            if decision.starts:
                ring(first(listed))
            elif new:
                ring(after(self.ask, listed))
        return decision

    def _others(self) -> dict[str, list[Ticket]]:
        ask = self.ask
        return {table: others_of(table, ask.name, (ask.app, ask.home)) for table in ask.tables}

    def leave(self) -> None:
        """Give up the place. May be called twice. A ticket that another process has taken since stays."""
        for table, fd in self._bells.items():
            path = os.path.join(table, self.ask.name)
            if is_at(fd, path + _BELL):
                _remove(path)
        self.release()

    def release(self) -> None:
        """Close the descriptors. The place stays taken while another process has inherited `bells`."""
        self._awaited.follow(())
        for fd in (*self.bells, *self.proofs):
            os.close(fd)
        self._bells, self._proofs = {}, {}

    def record(self, decision: Decision) -> None:
        """Write the tickets, under the locks of the tables. A new place gets bells; a start replaces these,
        and adds proofs."""
        ask = self.ask
        ticket = ticket_of(ask, decision)
        for table in ask.tables:
            path = os.path.join(table, ask.name)
            write(path, encode(ticket))
            old = self._bells.get(table)
            if old is None or decision.starts:
                self._bells[table] = make_bell(path + _BELL)
            if old is not None and decision.starts:
                os.close(old)
            if decision.starts and not ask.engine:
                known, self._proofs[table] = self._proofs.get(table), make_proof(path + _PROOF)
                if known is not None:
                    os.close(known)
        self.starts, self.dealt = decision.starts, decision.dealt


def ticket_of(ask: Ask, decision: Decision, table: str = "") -> Ticket:
    """The ticket of an app in a table, after a decision on the app."""
    return Ticket(
        ask.app,
        ask.number,
        state=HOLDS if decision.starts else QUEUED,
        cpu=ask.cpu,
        memory_mb=ask.memory_mb,
        gpus=ask.gpus,
        groups=[each.group for each in ask.limits],
        dealt=decision.dealt,
        lacks=decision.lacks,
        places=decision.places,
        table=table,
        name=ask.name,
        home=ask.home,
        folder=ask.folder,
        engine=ask.engine,
    )


def draw(tables: Iterable[str], count: int) -> int:
    """Draw `count` consecutive ticket numbers, higher than all earlier ones; returns the first.

    They count microseconds, so that they compare across tables, too.
    """
    with Locked(tables):
        lasts = [read(os.path.join(table, _LAST)).strip() for table in tables]
        number = max([time.time_ns() // 1000, *(int(each) + 1 for each in lasts if each.isdigit())])
        for table in tables:
            with open(os.path.join(table, _LAST), "w", opener=open_private) as file:
                file.write(str(number + count - 1))
    return number


def tickets(table: str) -> list[Ticket]:
    """The live tickets of a table, in order: holders and line. Removes nothing; [] without a table."""
    try:
        return _whole(_tickets(table, tidy=False))
    except FileNotFoundError:
        return []


def _whole(found: Iterable[Ticket]) -> list[Ticket]:
    """All tickets, from the first ticket of each line."""
    every: list[Ticket] = []
    for each in found:
        every += members(read_whole(_path(each) + ALL), each) if each.name.startswith(LINE) else [each]
    return sorted(every, key=lambda each: each.place)


def in_lines(table: str, home: str) -> set[str]:
    """The ids of the apps of a state folder, by its token, that living processes hold in line with others.

    Leaves out apps with a process of their own, and those of a line that could not be written.
    """
    try:
        names = [name for name in os.listdir(table) if name.startswith(LINE) and _BELL not in name]
    except FileNotFoundError:
        return set()
    paths = (os.path.join(table, name) for name in names)
    return {app for path in paths if is_held(path + _BELL) for app in app_ids(read_whole(path + ALL), home)}


def watch(table: str, app: str, home: str = "") -> int | None:
    """A descriptor that hangs up when an app in line starts or its holder dies.

    None for an app that is not in line, or in the line of a process that holds many.
    """
    found = [each for each in of_app(app, home, tickets(table)) if each.state == QUEUED]
    return open_held(_path(found[0]) + _BELL) if found and not found[0].name.startswith(LINE) else None


def summon(table: str, apps: Iterable[str], home: str = "") -> set[str]:
    """Make apps in line start without waiting for their turns; returns those that were in line."""
    found: set[str] = set()
    with Locked((table,)):
        queued = by_app(each for each in _whole(_tickets(table)) if each.state == QUEUED)
        for app in apps:
            for each in of_app(app, home, queued.get(app, ())):
                found.add(app)
                what = NOW + (message(app) if each.name.startswith(LINE) else b"")
                deadline = time.monotonic() + _PATIENCE_S
                while not ring(each, what) and time.monotonic() < deadline:
                    time.sleep(_AGAIN_S)  # the holder has yet to read earlier input
    return found


def forget(ticket: Ticket) -> bool:
    """Remove the ticket of a dead holder without remaining processes, and wake the first in line.

    False where a process holds the ticket again.
    """
    with Locked((ticket.table,)):
        if is_held(_path(ticket) + _BELL):
            return False
        _remove(_path(ticket))
        ring(first(_tickets(ticket.table)))
    return True


def tidy(table: str) -> None:
    """Remove the tickets of dead holders without remaining processes, which count no more."""
    try:
        with Locked((table,)):
            _tickets(table)
    except OSError:
        pass  # there is no table, or the next app that queues removes them


def stir(table: str) -> None:
    """Make the first app in line look again at the shares of dead holders."""
    listed = tickets(table)
    if any(each.is_left for each in listed):
        ring(first(listed))


def proof(ticket: Ticket) -> str:
    """The path of the file that the processes of a local app have open while it holds its share."""
    return _path(ticket) + _PROOF


def remove_unused(table: str) -> None:
    """Remove the table of an earlier boot, unless another machine that shares the folder uses the table."""
    try:
        if not any(is_held(os.path.join(table, name)) for name in os.listdir(table) if _BELL in name):
            for name in os.listdir(table):
                if name in (LOCK, _LAST) or _is_ticket(name.partition(_BELL)[0]):
                    unlink(os.path.join(table, name))
            os.rmdir(table)
    except OSError:
        pass  # another process removes the table as well


def others_of(table: str, besides: str, app: tuple[str, str] = ("", "")) -> list[Ticket]:
    """The tickets of a table but `besides`, in order; of a line, the first. Call it under the table's lock.

    A ticket that a watcher of `app` (app id, home) has left is removed.
    """
    found = _tickets(table, besides=besides)
    mine = [each for each in found if each.is_left and each.engine and (each.app, each.home) == app]
    for each in mine:
        _remove(_path(each))
    return [each for each in found if each not in mine]


def _tickets(table: str, *, besides: str = "", tidy: bool = True) -> list[Ticket]:
    """The valid tickets except one, in order. `tidy`: remove dead ones; only under the table's lock."""
    found = []
    names = {*os.listdir(table)}
    for name in names:
        if tidy and _is_left_alone(name, names) and not is_held(os.path.join(table, name)):
            unlink(os.path.join(table, name))
        if name == besides or not _is_ticket(name):
            continue
        path = os.path.join(table, name)
        has_holder = is_held(path + _BELL)
        ticket = decode(read(path), table, name)
        if ticket is not None and not has_holder:
            ticket.is_left = ticket.state == HOLDS and bool(ticket.engine or is_held(path + _PROOF))
        if ticket is not None and (has_holder or ticket.is_left):
            found.append(ticket)
        elif tidy and not has_holder:
            _remove(path)
    return sorted(found, key=lambda each: each.place)


def _is_ticket(name: str) -> bool:
    return _BELL not in name and (name.partition("-")[0].isdecimal() or name.startswith(LINE))


def _is_left_alone(name: str, names: Collection[str]) -> bool:
    """Whether a file belongs to a missing ticket: its process was killed while it made the ticket."""
    ticket, bell, _ = name.partition(_BELL)
    return bool(bell) and _is_ticket(ticket) and ticket not in names


def _remove(path: str) -> None:
    last = ALL if os.path.basename(path).startswith(LINE) else _PROOF
    for each in (path, path + _BELL, path + last):
        unlink(each)


def _path(ticket: Ticket) -> str:
    return os.path.join(ticket.table, ticket.name)


def ring(ticket: Ticket | None, what: bytes = LOOK) -> bool:
    """Make the holder of a ticket look again; False where it has yet to read earlier input."""
    return ticket is None or write_to(_path(ticket) + _BELL, what)
