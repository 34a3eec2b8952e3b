"""The turn of an app: its place in line, and the request to this machine of an app without a plan."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.leftovers import Clearing
    from launcher.specs.app import AppDef, Role
    from launcher.turns.ask import Ask
    from launcher.turns.table import Place


class Line:
    """The place of an app in line, for the process that holds the app.

    Attributes:
        error: why the table could not be written at the last look; None when it could.
        clearer: the pid of the process that this look has started to clear the shares of dead holders; 0 for
            none.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.error: OSError | None = None
        self.clearer = 0
        self._clearing: Clearing | None = None

    def look(self) -> bool:
        """Whether the app has its share. Until then look again as `Place` says, or soon after an error."""
        self.error, self.clearer = None, 0
        try:
            if self.place.look().starts:
                return True
        except OSError as error:
            self.error = error
            return False
        if self.place.left:
            from launcher.schedulers.leftovers import Clearing

            self._clearing = self._clearing or Clearing()
            self.clearer = self._clearing.start(self.place.left)
        return False


def ask_of_run(app: AppDef, app_id: str, *, in_turn: bool, is_held_here: bool = True) -> Ask | None:
    """The ask of an app, behind all earlier asks; None where the app asks for nothing.

    None also on systems without turns. Raises StateError where the tables cannot be written, UsageError for a
    LAUNCHER_GPUS that is no number.

    Args:
        in_turn: the app waits for its share; otherwise it takes the share at once.
        is_held_here: see `StagedScheduler`.
    """
    if not asks(app) or (is_held_here and sys.platform != "linux"):
        return None
    from launcher import paths
    from launcher.paths import make_token
    from launcher.turns.asking import ask_of, ask_of_engine, total
    from launcher.turns.machine import machine
    from launcher.turns.table import draw

    if not is_held_here:
        return ask_of_engine(app, app_id, at_once=not in_turn)
    has = machine(with_gpus=total(app).gpus > 0)
    ask = ask_of(app, app_id, has, at_once=not in_turn, home=make_token())
    if ask is not None:
        try:
            ask.number = draw(ask.tables, 1)
        except OSError as error:
            raise paths.unusable(error, ask.table) from error
    return ask


def asks(app: AppDef) -> bool:
    """Whether an app asks for cores, memory or GPUs."""
    return any(_asks(role) for role in app.roles)


def _asks(role: Role) -> bool:
    wanted = role.resource
    return role.num_replicas > 0 and (wanted.cpu > 0 or wanted.memMB > 0 or wanted.gpu > 0)
