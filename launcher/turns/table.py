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

A ticket whose bell is not locked is one of a dead process. It counts while the app may have processes: a
local one until its proof is free, one of Docker until a process has asked its engine and calls `forget`. Else
the next decision removes it. All is read again for each decision; nothing is counted up or down.

An app in line sleeps until the FIFO of an app before it hangs up, as it does when that process dies, or until
another process writes to its own bell. The kernel releases the lock of a FIFO before it hangs up, so a reader
that has found it locked will see that. Supervisors import this module: it imports next to nothing.
"""

from __future__ import annotations

import fcntl
import os
import time

from launcher.filelock import is_at
from launcher.turns.line import HOLDS, QUEUED, Decision, Ticket, after, decide, decode, encode, first, of_app

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from launcher.turns.ask import Ask

_LOCK, _LAST, _BELL = "lock", "last", ".bell"
_PROOF = f"{_BELL}.proof"  # older versions take no name for a ticket that has `.bell` in it
_HIGH = (900, 100)
"""The descriptor of the proof, at least: above those that programs use, below the usual limit."""
_MOST_BYTES = 64 * 1024
_PRIVATE = 0o600


class Place:
    """The place of one app among those that share the machine: its tickets, which this process holds.

    `look` takes the place at first, and decides again each time. Until the app starts, poll `bells` for input
    and `watched` for hang-ups; when one of them is ready, look again. `left` are the tickets among those that
    it waits for whose holders have died. The place is given up by `leave`, and by the end of every process
    that has inherited `bells`; the share of a local app by the end of the last of its processes.
    """

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.starts = False
        self.dealt: tuple[str, ...] = ()
        self.watched: tuple[int, ...] = ()
        self.left: tuple[Ticket, ...] = ()
        self._bells: dict[str, int] = {}  # table → FIFO
        self._proofs: dict[str, int] = {}  # the same

    @property
    def bells(self) -> tuple[int, ...]:
        """The descriptors of its own FIFOs, one for each of `ask.tables`. Input asks it to look again."""
        return tuple(self._bells.values())

    @classmethod
    def adopt(cls, ask: Ask, bells: Sequence[int], *, dealt: Sequence[str] | None) -> Place:
        """A place that another process has taken, by the descriptors that this one has inherited.

        Args:
            dealt: the ids of its GPUs; None while it is in line.
        """
        place = cls(ask)
        place._bells = dict(zip(ask.tables, bells, strict=True))
        place.starts, place.dealt = dealt is not None, tuple(dealt or ())
        return place

    def look(self) -> Decision:
        """Decide whose turn it is, and record the decision. Once the app starts, that stays so.

        Raises OSError where a table cannot be written: look again later.
        """
        if self.starts:
            return Decision(starts=True, dealt=self.dealt)
        new = not self._bells
        if _NOW in b"".join(map(_drain, self.bells)):
            self.ask.at_once = True
        with _Locked(self.ask.tables):
            others = {table: _others(table, self.ask) for table in self.ask.tables}
            while True:
                decision = decide(self.ask, others[self.ask.table], others.get(self.ask.gpu_table, ()))
                if self._watch(decision.watch):
                    break
                others = {table: _others(table, self.ask) for table in self.ask.tables}
            self._record(decision)
            for table, listed in others.items():
                if decision.starts:
                    _ring(table, first(listed))
                elif new:
                    _ring(table, after(self.ask, listed))
        return decision

    def leave(self) -> None:
        """Give up the place. May be called twice. A ticket that another process has taken since stays."""
        for table, fd in self._bells.items():
            path = os.path.join(table, self.ask.name)
            if is_at(fd, path + _BELL):
                _remove(path)
        self.release()

    def release(self) -> None:
        """Close the descriptors. The place stays taken while another process has inherited `bells`."""
        self._watch(())
        for fd in (*self.bells, *self._proofs.values()):
            os.close(fd)
        self._bells, self._proofs = {}, {}

    def _watch(self, tickets: Iterable[Ticket]) -> bool:
        """Watch these tickets only; False when one of them is no longer held."""
        watched, self.watched, self.left = self.watched, (), ()
        for fd in watched:
            os.close(fd)
        for each in tickets:
            if each.is_left:
                self.left += (each,)
                if each.engine:
                    continue
            opened = _open_held(_path(each) + (_PROOF if each.is_left else _BELL))
            if opened is None:
                return False
            self.watched += (opened,)
        return True

    def _record(self, decision: Decision) -> None:
        """Write the tickets. Bells are new for a new place, and where the app starts; then it has proofs."""
        ask = self.ask
        ticket = Ticket(
            ask.app,
            ask.number,
            state=HOLDS if decision.starts else QUEUED,
            cpu=ask.cpu,
            memory_mb=ask.memory_mb,
            gpus=ask.gpus,
            groups=[each.group for each in ask.limits],
            dealt=decision.dealt,
            lacks=decision.lacks,
            home=ask.home,
            folder=ask.folder,
            engine=ask.engine,
        )
        for table in ask.tables:
            path = os.path.join(table, ask.name)
            _write(path, encode(ticket))
            old = self._bells.get(table)
            if old is None or decision.starts:
                self._bells[table] = _make_bell(path + _BELL)
            if old is not None and decision.starts:
                os.close(old)
            if decision.starts and not ask.engine:
                known, self._proofs[table] = self._proofs.get(table), _make_proof(path + _PROOF)
                if known is not None:
                    os.close(known)
        self.starts, self.dealt = decision.starts, decision.dealt


_LOOK, _NOW = b"l", b"n"


def draw(tables: Iterable[str], count: int) -> int:
    """Draw `count` ticket numbers in a row; returns the first. They are higher than all drawn before.

    Numbers count microseconds, so that they compare across tables too.
    """
    with _Locked(tables):
        lasts = [_last(table) for table in tables]
        number = max([time.time_ns() // 1000, *(each + 1 for each in lasts)])
        for table in tables:
            with open(os.path.join(table, _LAST), "w", opener=_open_private) as file:
                file.write(str(number + count - 1))
    return number


def tickets(table: str) -> list[Ticket]:
    """The live tickets of a table, in order: holders and line. Removes nothing; [] without a table."""
    try:
        return _tickets(table, tidy=False)
    except FileNotFoundError:
        return []


def watch(table: str, app: str, home: str = "") -> int | None:
    """A descriptor that hangs up when an app in line starts or its holder dies; None for one not in line."""
    found = [each for each in of_app(app, home, tickets(table)) if each.state == QUEUED]
    return _open_held(_path(found[0]) + _BELL) if found else None


def summon(table: str, app: str, home: str = "") -> bool:
    """Make an app in line start without waiting for its turn; False when it is not in line."""
    with _Locked((table,)):
        found = [each for each in of_app(app, home, _tickets(table)) if each.state == QUEUED]
        for each in found:
            _ring(table, each, _NOW)
    return bool(found)


def forget(ticket: Ticket) -> bool:
    """Remove the ticket of a dead holder that has left no process, and wake the first in line.

    False where a process holds it again.
    """
    with _Locked((ticket.table,)):
        if _is_held(_path(ticket) + _BELL):
            return False
        _remove(_path(ticket))
        _ring(ticket.table, first(_tickets(ticket.table)))
    return True


def stir(table: str) -> None:
    """Make the first in line look again at what dead holders have left."""
    listed = tickets(table)
    if any(each.is_left for each in listed):
        _ring(table, first(listed))


def proof(ticket: Ticket) -> str:
    """The path of the file that the processes of a local app have open while it holds its share."""
    return _path(ticket) + _PROOF


def remove_unused(table: str) -> None:
    """Remove the table of an earlier boot, unless another machine uses it: one that shares the folder."""
    try:
        if not any(_is_held(os.path.join(table, name)) for name in os.listdir(table) if _BELL in name):
            for name in os.listdir(table):
                if name in (_LOCK, _LAST) or _is_ticket(name.partition(_BELL)[0]):
                    _unlink(os.path.join(table, name))
            os.rmdir(table)
    except OSError:
        pass  # another process removes it as well


class _Locked:
    """The locks of several tables, always taken in the given order."""

    def __init__(self, tables: Iterable[str]) -> None:
        self._tables = tables
        self._fds: list[int] = []

    def __enter__(self) -> None:
        try:
            for table in self._tables:
                path = os.path.join(table, _LOCK)
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
                self._fds.append(fd)
                fcntl.flock(fd, fcntl.LOCK_EX)
        except BaseException:
            self._close()
            raise

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        for fd in self._fds:
            os.close(fd)


def _others(table: str, ask: Ask) -> list[Ticket]:
    """The tickets of other apps, in order. One that a watcher of this app has left is removed."""
    found = _tickets(table, besides=ask.name)
    left = [each for each in found if each.is_left and each.engine]
    mine = [each for each in left if (each.app, each.home) == (ask.app, ask.home)]
    for each in mine:
        _remove(_path(each))
    return [each for each in found if each not in mine]


def _tickets(table: str, *, besides: str = "", tidy: bool = True) -> list[Ticket]:
    """The tickets that count but one, in order. Removes the dead ones, and leaves other files alone.

    tidy: only with the lock of the table, without which a file looks left that is about to become a ticket.
    """
    found = []
    names = {*os.listdir(table)}
    for name in names:
        if tidy and _is_left_alone(name, names) and not _is_held(os.path.join(table, name)):
            _unlink(os.path.join(table, name))
        if name == besides or not _is_ticket(name):
            continue
        path = os.path.join(table, name)
        is_held = _is_held(path + _BELL)
        ticket = decode(_read(path), table, name)
        if ticket is not None and not is_held:
            ticket.is_left = ticket.state == HOLDS and bool(ticket.engine or _is_held(path + _PROOF))
        if ticket is not None and (is_held or ticket.is_left):
            found.append(ticket)
        elif tidy and not is_held:
            _remove(path)
    return sorted(found, key=lambda each: each.place)


def _is_ticket(name: str) -> bool:
    return name.partition("-")[0].isdecimal() and _BELL not in name


def _is_left_alone(name: str, names: Collection[str]) -> bool:
    """Whether a file belongs to a ticket that is not there: its process was killed in the midst."""
    ticket, bell, _ = name.partition(_BELL)
    return bool(bell) and _is_ticket(ticket) and ticket not in names


def _remove(path: str) -> None:
    for each in (path, path + _BELL, path + _PROOF):
        _unlink(each)


def _path(ticket: Ticket) -> str:
    return os.path.join(ticket.table, ticket.name)


def _make_bell(path: str) -> int:
    _unlink(path)
    os.mkfifo(path, _PRIVATE)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def _make_proof(path: str) -> int:
    """A descriptor that child processes inherit: readers see its lock, and its hang-up when all have ended.

    Processes of the app could read what is written to a bell.
    """
    _unlink(path)
    os.mkfifo(path, _PRIVATE)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without one no writer can open it
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(reader)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        return _high(fd)
    finally:
        os.close(fd)


def _high(fd: int) -> int:
    """A copy at a high number, which child processes inherit."""
    for least in _HIGH:
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD, least)
        except OSError:  # the limit of open files is lower
            continue
    return fcntl.fcntl(fd, fcntl.F_DUPFD, 0)


def _is_held(path: str) -> bool:
    fd = _open_held(path)
    if fd is not None:
        os.close(fd)
    return fd is not None


def _open_held(path: str) -> int | None:
    """A descriptor of a bell that hangs up when its holder changes or dies; None when it is not held.

    Raises OSError where that cannot be known, as in a process that may open no more files.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return fd
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _ring(table: str, ticket: Ticket | None, what: bytes = _LOOK) -> None:
    """Make the holder of a ticket look again, unless it has died meanwhile."""
    if ticket is None:
        return
    try:
        fd = os.open(os.path.join(table, ticket.name) + _BELL, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, what)
    except BlockingIOError:
        pass  # it has enough input to look again
    finally:
        os.close(fd)


def _drain(fd: int) -> bytes:
    try:
        return os.read(fd, _MOST_BYTES)
    except BlockingIOError:
        return b""


def _last(table: str) -> int:
    said = _read(os.path.join(table, _LAST)).strip()
    return int(said) if said.isdigit() else 0


def _read(path: str) -> bytes:
    """The beginning of a file; b"" where there is none, or something else in its place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return b""
    try:
        return os.read(fd, _MOST_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _write(path: str, data: bytes) -> None:
    """Replace the contents of a file, as a whole for readers without the lock of the table."""
    new = f"{path}{_BELL}.new"
    with open(new, "wb", opener=_open_private) as file:
        file.write(data)
    os.rename(new, path)


def _unlink(path: str) -> None:
    """Remove a file; one that cannot be removed, such as a folder in the place of a ticket, does no harm."""
    try:
        os.unlink(path)
    except OSError:
        pass


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE)
