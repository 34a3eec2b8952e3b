"""The share of this machine that an app in line waits for, within the loop of the app's holder.

An app in line is woken by the change or the death of the one before it; until then its process sleeps. No
import here may load more than a supervisor has.
"""

from __future__ import annotations

from launcher.schedulers.leftovers import Line
from launcher.schedulers.local.spawn import set_variable
from launcher.turns.ask import GPUS, Ask, shares
from launcher.turns.table import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from launcher.schedulers.leftovers import Clearing
    from launcher.schedulers.local.replicas import RunningRole
    from launcher.schedulers.loop import Loop
    from launcher.turns.queue import Queue

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


_AGAIN_S = 1.0  # how soon to try again where a full disk may get space


class OwnPlace:
    """The place of an app whose process holds no other app."""

    def __init__(self, loop: Loop, place: Place) -> None:
        self.place = place
        self._loop = loop
        self._line = Line(place)
        self._watched: tuple[int, ...] = ()
        self._is_stirred = False

    @classmethod
    def new(cls, loop: Loop, ask: Mapping[str, Any], folder: str) -> OwnPlace:
        """The place of an app that has yet to get in line. `folder`: the folder of its records."""
        place = Place(Ask.from_dict(ask))
        place.ask.folder = folder
        return cls(loop, place)

    @classmethod
    def taken(cls, loop: Loop, given: Mapping[str, Any], fds: Sequence[int]) -> OwnPlace:
        """A share that another process has taken: the inverse of `to_hand_over`."""
        ask = Ask.from_dict(given["ask"])
        ask.folder = given["folder"]
        count = len(ask.tables)
        return cls(loop, Place.adopt(ask, fds[:count], fds[count:], dealt=given["dealt"]))

    def has(self, stir: Callable[[], None], failed: Callable[[OSError], None]) -> bool:
        self._unwatch()
        if self._line.look():
            return True
        if self._line.error is not None:
            failed(self._line.error)
            self._loop.after(_AGAIN_S, stir)
            return False

        def stirred() -> None:
            """Look again once the callbacks of all ready descriptors have returned: a look closes some."""
            if not self._is_stirred:
                self._is_stirred = True
                self._loop.after(0, go_on)

        def go_on() -> None:
            self._is_stirred = False
            stir()

        for fd in self.place.bells:
            self._loop.watch(fd, stirred)
        for fd in self.place.watched:
            self._loop.watch_end(fd, stirred)
        self._watched = (*self.place.bells, *self.place.watched)
        return False

    def _unwatch(self) -> None:
        for fd in self._watched:
            self._loop.remove(fd)
        self._watched = ()

    def leave(self) -> None:
        self._unwatch()
        try:
            self.place.leave()
        except OSError:  # the end of this process gives it up too
            pass


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
        self._watched: tuple[int, ...] = ()
        self._is_stirred = False
        self._clearing: Clearing | None = None

    def join(self, member: SharedPlace) -> None:
        self._members[id(member.ask)] = member
        if self._queue.join(member.ask):
            self._look()

    def leave(self, member: SharedPlace) -> None:
        if self._members.pop(id(member.ask), None) and self._queue.leave(member.ask):
            self._stir()

    def close(self) -> None:
        """Remove the empty line."""
        self._queue.close()

    def _look(self) -> None:
        """Give each app its share whose turn it is."""
        for fd in self._watched:
            self._loop.remove(fd)
        started = self._queue.look()
        for fd in self._queue.bells:
            self._loop.watch(fd, self._stir)
        for fd in self._queue.awaited.fds:
            self._loop.watch_end(fd, self._stir)
        self._watched = (*self._queue.bells, *self._queue.awaited.fds)
        self._clear()
        for place in started:
            self._members.pop(id(place.ask)).start(place)
        if self._queue.error is not None:
            for member in self._members.values():
                member.failed(self._queue.error)
            self._loop.after(_AGAIN_S, self._stir)

    def _clear(self) -> None:
        left = self._queue.awaited.left
        if left:
            from launcher.schedulers.leftovers import Clearing

            self._clearing = self._clearing or Clearing()
            self._clearing.start(left)

    def _stir(self) -> None:
        if not self._is_stirred:
            self._is_stirred = True
            self._loop.after(0, self._look_again)

    def _look_again(self) -> None:
        self._is_stirred = False
        self._look()


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
            try:
                self.place.leave()
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
        replica.packed = set_variable(packed, common, "CUDA_VISIBLE_DEVICES", seen, instead_of=GPUS)
