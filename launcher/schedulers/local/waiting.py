"""Let an unstarted app wait in its holder's loop: for other apps, then for its share of a machine.

The process of a needed app is watched by a pidfd, and its record is read when it has ended. An app in the
line of another process is followed by its record, too. An app in line is woken by the change or the death of
the one before it. Until then its process sleeps. No import here may load more than a supervisor has.
"""

from __future__ import annotations

import os

from launcher.holding.journal import read_events
from launcher.schedulers import pids
from launcher.schedulers.leftovers import Clearing, Line
from launcher.schedulers.local import rundir
from launcher.schedulers.local.spawn import set_variable
from launcher.turns.line import GPU_IDS, Ask, shares
from launcher.turns.table import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from launcher.schedulers.local.filewatch import FileWatch
    from launcher.schedulers.local.replicas import RunningRole
    from launcher.schedulers.loop import Loop
    from launcher.turns.queue import Queue

    Then = Callable[[str], None]

    class Share(Protocol):
        """The share of one app."""

        @property
        def place(self) -> Place | None:
            """The app's own place; None for an app in a line of many."""

        def has(self, stir: Callable[[], None], failed: Callable[[OSError], None]) -> bool:
            """Whether the app has its share. If not, `stir` is called once that may have changed.

            Args:
                failed: called when the line cannot be written; the write is tried again.
            """

        def leave(self) -> None:
            """Give up the share, or leave the line. May be called twice."""


_AGAIN_S = 1.0
"""How soon to look again at an app without a process, which may be submitted again, or at a full disk."""
_PART = 16 * 1024  # bytes of a record that hold its first or its last events

SUPERVISOR, HOLDER = "supervisor", "holder"
"""The kinds of events that name the process of an app: its supervisor, and the holder of a line."""


# -- other apps --------------------------------------------------------------------------------------------


class Needed:
    """The apps that the apps of this process need, each followed once."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: dict[str, list[Then]] = {}  # folder → callbacks for the end of its app
        self._watched: dict[str, int] = {}  # folder → the pidfd of its process
        self._files: FileWatch | None = None  # files of apps in the lines of other processes

    def follow(self, folder: str, then: Then) -> None:
        """Call `then` with the state of an app once it has ended: `removed` where its folder is gone."""
        if folder in self._waiting:
            self._waiting[folder].append(then)
        else:
            self._waiting[folder] = [then]
            self._loop.after(0, lambda: self.look(folder))

    def look(self, folder: str) -> None:
        """Look at an app that may have ended, or may have another process now."""
        if folder not in self._waiting:
            return
        self._unwatch(folder)
        state = outcome(folder)
        kind, pid, start = ("", 0, 0) if state else holder(folder)
        if pid == os.getpid():
            return  # this process looks again when it lets go of the app
        fd = pids.open_pid(pid, start) if pid else None
        if fd is None:
            self._judge(folder, state)
            return

        def exited() -> None:
            self._unwatch(folder)
            state = outcome(folder)
            if not state and holder(folder)[0] != SUPERVISOR:
                self.look(folder)  # the line has ended: its last app may have started
            else:
                self._judge(folder, state)

        self._watched[folder] = fd
        self._loop.watch(fd, exited)
        if kind != SUPERVISOR:
            self._follow_record(folder)

    def _judge(self, folder: str, state: str) -> None:
        """Judge an app without a process from its record; where it has no end, as commands do."""
        if not state:
            from launcher.errors import StateError
            from launcher.schedulers.local import appview

            try:
                view = appview.read_state(folder)
                state = "removed" if view is None else view.state if view.has_ended else ""
            except StateError:  # its record cannot be read now
                pass
        if not state:
            self._loop.after(_AGAIN_S, lambda: self.look(folder))
            return
        for then in self._waiting.pop(folder, ()):
            then(state)

    def _unwatch(self, folder: str) -> None:
        fd = self._watched.pop(folder, -1)
        if fd >= 0:
            self._loop.remove(fd)
            os.close(fd)

    def _follow_record(self, folder: str) -> None:
        if self._files is None:
            from launcher.schedulers.local.filewatch import FileWatch

            self._files = FileWatch()
            if self._files.fd >= 0:
                self._loop.watch(self._files.fd, self._changed)
        try:
            self._files.add(rundir.events(folder))
        except FileNotFoundError:
            pass
        if self._files.fd < 0:  # no inotify, or too many watches
            self._loop.after(_AGAIN_S, lambda: self.look(folder))
        elif holder(folder)[0] == SUPERVISOR or outcome(folder):  # changed since the record was read
            self._loop.after(0, lambda: self.look(folder))

    def _changed(self) -> None:
        assert self._files is not None
        for path in self._files.wait(0):
            self.look(os.path.dirname(path))


def outcome(folder: str) -> str:
    """The state that the process of an app recorded at the app's end; "" before, or when the process died."""
    ends = [str(each.get("state", "")) for each in _events(folder, tail=True) if each["e"] == "ended"]
    return ends[-1] if ends else ""


def holder(folder: str) -> tuple[str, int, int]:
    """The process that the record of an app names last: its kind, pid and start time.

    ("", 0, 0) before there is a process, or after a reboot.
    """
    named = [each for each in _events(folder) if each["e"] in (SUPERVISOR, HOLDER)]
    if not named or named[-1].get("boot") != pids.boot_id():
        return "", 0, 0
    return named[-1]["e"], named[-1]["pid"], named[-1]["start"]


def _events(folder: str, *, tail: bool = False) -> list[dict[str, Any]]:
    """The events at the beginning or, with `tail`, at the end of the record of an app."""
    try:
        fd = os.open(rundir.events(folder), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            return read_events(os.pread(fd, _PART, max(0, size - _PART) if tail else 0))
        finally:
            os.close(fd)
    except OSError:
        return []


# -- its share of a machine --------------------------------------------------------------------------------


class Wakings:
    """The FIFOs of a line that this process watches, until it looks at the line again."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._fds: tuple[int, ...] = ()
        self._is_due = False

    def follow(self, bells: tuple[int, ...], others: tuple[int, ...], look: Callable[[], None]) -> None:
        """Call `look` once a bell has input, or the FIFO of another app hangs up."""
        for fd in bells:
            self._loop.watch(fd, lambda: self.soon(look))
        for fd in others:
            self._loop.watch_end(fd, lambda: self.soon(look))
        self._fds = (*bells, *others)

    def end(self) -> None:
        """Watch no FIFO any more: the next look at the line closes descriptors."""
        for fd in self._fds:
            self._loop.remove(fd)
        self._fds = ()

    def soon(self, look: Callable[[], None]) -> None:
        """Call `look`, once, when the callbacks of all ready descriptors have returned."""
        if not self._is_due:
            self._is_due = True
            self._loop.after(0, lambda: self._wake(look))

    def _wake(self, look: Callable[[], None]) -> None:
        self._is_due = False
        look()


class OwnPlace:
    """The place of an app whose process holds no other app."""

    def __init__(self, loop: Loop, place: Place) -> None:
        self.place = place
        self._loop = loop
        self._line = Line(place)
        self._wakings = Wakings(loop)

    @classmethod
    def new(cls, loop: Loop, ask: Mapping[str, Any], folder: str) -> OwnPlace:
        """The place of an app that has yet to get in line. `folder`: the folder of its records."""
        place = Place(Ask.from_dict(ask))
        place.ask.folder = folder
        return cls(loop, place)

    @classmethod
    def taken(cls, loop: Loop, given: Mapping[str, Any], fds: Sequence[int]) -> OwnPlace:
        """The place of an app whose share another process has taken: the inverse of `to_hand_over`."""
        ask = Ask.from_dict(given["ask"])
        ask.folder = given["folder"]
        count = len(ask.tables)
        return cls(loop, Place.adopt(ask, fds[:count], fds[count:], dealt=given["dealt"]))

    def has(self, stir: Callable[[], None], failed: Callable[[OSError], None]) -> bool:
        self._wakings.end()
        if self._line.look():
            return True
        if self._line.error is not None:
            failed(self._line.error)
            self._loop.after(_AGAIN_S, stir)
        else:
            self._wakings.follow(self.place.bells, self.place.watched, stir)
        return False

    def leave(self) -> None:
        self._wakings.end()
        _leave(self.place)


def to_hand_over(place: Place) -> tuple[dict[str, Any], list[int]]:
    """A share as data for the next process, and its descriptors."""
    about = {"ask": place.ask.to_dict(), "folder": place.ask.folder, "dealt": list(place.dealt)}
    return about, [*place.bells, *place.proofs]


class SharedLine:
    """The line of the apps that this process holds, in one table."""

    def __init__(self, loop: Loop, queue: Queue) -> None:
        self._loop = loop
        self._queue = queue
        self._members: dict[int, SharedPlace] = {}  # id of the ask → the app's place
        self._wakings = Wakings(loop)
        self._clearing = Clearing()

    def join(self, member: SharedPlace) -> None:
        self._members[id(member.ask)] = member
        if self._queue.join(member.ask):
            self._look()

    def leave(self, member: SharedPlace) -> None:
        if self._members.pop(id(member.ask), None) and self._queue.leave(member.ask):
            self._wakings.soon(self._look)

    def close(self) -> None:
        """Remove the empty line."""
        self._queue.close()

    def _look(self) -> None:
        """Give each app its share whose turn it is."""
        self._wakings.end()
        started = self._queue.look()
        self._wakings.follow(self._queue.bells, self._queue.awaited.fds, self._look)
        self._clearing.start(self._queue.awaited.left)
        for place in started:
            self._members.pop(id(place.ask)).start(place)
        if self._queue.error is not None:
            for member in self._members.values():
                member.failed(self._queue.error)
            self._loop.after(_AGAIN_S, self._look)


class SharedPlace:
    """The place of one app in a line of many."""

    def __init__(self, loop: Loop, line: SharedLine, ask: Mapping[str, Any], folder: str) -> None:
        self.ask = Ask.from_dict(ask)
        self.ask.folder = folder
        self.place: Place | None = None
        self._loop = loop
        self._line = line
        self._stir: Callable[[], None] | None = None
        self._failed: Callable[[OSError], None]

    def has(self, stir: Callable[[], None], failed: Callable[[OSError], None]) -> bool:
        if self._stir is None:
            self._failed = failed
            self._line.join(self)
            self._stir = stir
        return self.place is not None

    def start(self, place: Place) -> None:
        """Take the share, in place of the place in line."""
        self.place = place
        if self._stir is not None:
            self._loop.after(0, self._stir)

    def failed(self, error: OSError) -> None:
        self._failed(error)

    def leave(self) -> None:
        self._line.leave(self)
        if self.place is not None:
            _leave(self.place)


def _leave(place: Place) -> None:
    try:
        place.leave()
    except OSError:  # the end of this process gives it up too
        pass


def deal(place: Place, roles: Sequence[tuple[RunningRole, int]]) -> None:
    """Fill in the GPUs of the replicas. `roles`: role → GPUs that each of its replicas asks for.

    Replicas see all GPUs where this machine is not known to have any.
    """
    replicas = [(replica, count) for role, count in roles for replica in role.replicas]
    dealt = shares(place.dealt, [count for _, count in replicas])
    for (replica, _), share in zip(replicas, dealt, strict=True):
        seen = share if place.ask.devices else None
        packed, common = replica.packed, replica.role.common
        replica.packed = set_variable(packed, common, "CUDA_VISIBLE_DEVICES", seen, instead_of=GPU_IDS)
