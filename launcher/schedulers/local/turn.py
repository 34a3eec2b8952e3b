"""Wait in line for an app's share of this machine, within the loop of its supervisor.

Until the turn comes this process sleeps: the one before it in line wakes it by its change or its death. No
import here may load more than the supervisor has.
"""

from __future__ import annotations

from launcher.schedulers.local.spawn import set_variable
from launcher.turns.ask import Ask
from launcher.turns.deal import GPUS, shares
from launcher.turns.table import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.leftovers import Clearing
    from launcher.schedulers.local.loop import Loop
    from launcher.schedulers.local.replicas import RunningRole

AGAIN_S = 1.0
"""How soon to look again when a table cannot be written, as on a full disk."""

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Turn:
    """The place of one app in line, then its share.

    Callbacks: `on_turn`, when the app's turn has come after `enter` had returned False; `on_error`, the first
    time that a table cannot be written.
    """

    def __init__(self, loop: Loop, ask: Mapping[str, Any], app_dir: str) -> None:
        self.on_turn: Callable[[], None]
        self.on_error: Callable[[OSError], None]
        self._loop = loop
        self._place = Place(Ask.from_dict(ask))
        self._place.ask.folder = app_dir
        self._watched: tuple[int, ...] = ()
        self._stirred = False
        self._left = False
        self._failed = False
        self._clearing: Clearing | None = None

    def enter(self) -> bool:
        """Take the place; True where the app has its share at once."""
        self._unwatch()
        try:
            starts = self._place.look().starts
        except OSError as error:
            if not self._failed:
                self._failed = True
                self.on_error(error)
            self._loop.after(AGAIN_S, self._look)
            return False
        if not starts:
            self._watch()
            self._clear()
        return starts

    def leave(self) -> None:
        """Give up the place. May be called twice."""
        self._left = True
        self._unwatch()
        try:
            self._place.leave()
        except OSError:  # the end of this process gives it up too
            pass

    def deal(self, roles: Sequence[tuple[RunningRole, int]]) -> None:
        """Fill in the GPUs of the replicas, given how many each replica of a role asks for.

        Replicas see all GPUs where this machine is not known to have any.
        """
        ask = self._place.ask
        replicas = [(replica, count) for role, count in roles for replica in role.replicas]
        dealt = shares(self._place.dealt, [count for _, count in replicas])
        for (replica, _), share in zip(replicas, dealt, strict=True):
            replica.packed = set_variable(
                replica.packed, replica.role.common, VISIBLE, share if ask.devices else None, instead_of=GPUS
            )

    def _look(self) -> None:
        self._stirred = False
        if not self._left and self.enter():
            self.on_turn()

    def _stir(self) -> None:
        """Look again when the callbacks of all ready descriptors have returned: looking closes some."""
        if not self._stirred:
            self._stirred = True
            self._loop.after(0, self._look)

    def _watch(self) -> None:
        place = self._place
        for fd in place.bells:
            self._loop.watch(fd, self._stir)
        for fd in place.watched:
            self._loop.watch_end(fd, self._stir)
        self._watched = (*place.bells, *place.watched)

    def _clear(self) -> None:
        """Have the shares cleared that dead holders have left."""
        if not self._place.left:
            return
        from launcher.schedulers.leftovers import Clearing

        self._clearing = self._clearing or Clearing()
        self._clearing.start(self._place.left)

    def _unwatch(self) -> None:
        for fd in self._watched:
            self._loop.remove(fd)
        self._watched = ()
