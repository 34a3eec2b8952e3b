"""Wait in line for a share of the machine, and clear the shares of dead holders.

The first app in line starts a process that clears: supervisors load no parser and no engine's client. So
this module imports next to nothing, and the functions of that process import their modules.
"""

from __future__ import annotations

import os
import sys
import time

from launcher.turns import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from launcher.schedulers.docker.client.engine import Engine
    from launcher.turns.line import Ticket
    from launcher.turns.table import Place

_AGAIN_S = 5.0  # least time between two clearings of a share: each change in the line asks for one
_KILL_S = 3.0  # how long to look for processes that are just being spawned, or spawn others
_LOOK_S = 0.1
_ENGINE_S = 60.0  # how long to try an engine that does not answer
_FIRST_PAUSE_S = 0.5


class Clearing:
    """Clears the shares that the first app in line waits for, each at most every few seconds."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}  # name of a ticket → earliest time of its next clearing

    def start(self, tickets: Iterable[Ticket]) -> int:
        """Start a process that clears their shares; return its pid, 0 where none is due or can be spawned."""
        now = time.monotonic()
        due = [each for each in tickets if self._next.get(each.name, now) <= now]
        self._next |= {each.name: now + _AGAIN_S for each in due}
        try:
            return start_clearing(due) if due else 0
        except OSError:  # the next change in the line, or a command, clears them
            return 0


def start_clearing(tickets: Iterable[Ticket]) -> int:
    """Spawn a process that clears the shares of these holders; returns its pid. Raises OSError."""
    from launcher.paths import program

    found = [os.path.join(each.table, each.name) for each in tickets]
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    argv = [sys.executable, "-I", "-S", "-c", program(__name__), *found]
    return os.posix_spawn(sys.executable, argv, os.environ, file_actions=null, setsid=True)


class Line:
    """The place of an app in line, for the process that holds the app.

    Attributes:
        error: why the table could not be written at the last look; None when it could.
        clearer: the pid of the process that the last look has started to clear shares; 0 for none.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.error: OSError | None = None
        self.clearer = 0
        self._clearing = Clearing()

    def look(self) -> bool:
        """Whether the app has its share. Until then look again as `Place` says, or soon after an error."""
        self.error, self.clearer = None, 0
        try:
            if self.place.look().starts:
                return True
        except OSError as error:
            self.error = error
            return False
        self.clearer = self._clearing.start(self.place.left)
        return False


def main() -> None:
    for path in sys.argv[1:]:
        if (ticket := _left(path)) is not None:
            clear(ticket)


def _left(path: str) -> Ticket | None:
    """The ticket with this path, while its dead holder's leftovers keep the share."""
    folder, name = os.path.split(path)
    return next((each for each in table.tickets(folder) if each.name == name and each.is_left), None)


def clear(ticket: Ticket) -> None:
    """Clear the share of a dead holder, where no process of its app is to run any more."""
    if ticket.engine:
        _ask_engine(ticket)
        return
    if not ticket.folder:
        return
    # The processes of a dead supervisor; the next command of its state folder records the end.
    from launcher.schedulers.local import appview
    from launcher.schedulers.local.appview import AppView

    deadline = time.monotonic() + _KILL_S
    while _left(os.path.join(ticket.table, ticket.name)) and time.monotonic() < deadline:
        view = appview.read_state(ticket.folder)
        if view is None or view.abandoned:
            appview.kill_leftovers(ticket.folder, view or AppView())
        time.sleep(_LOOK_S)


def _ask_engine(ticket: Ticket) -> None:
    """Free the share of an app that has ended, or whose holders died before they started it.

    A running app gets a watcher, which takes the share again. A watcher on the engine is only started again:
    the next client that looks at the app makes another one.
    """
    from launcher.schedulers.docker.client.engine import connect
    from launcher.schedulers.docker.client.errors import EngineUnreachable
    from launcher.schedulers.docker.watchers import PREFIX

    is_there = ticket.engine.startswith(PREFIX)  # a watcher on the engine, as this process is
    if not is_there:
        os.environ["DOCKER_HOST"] = ticket.engine
        os.environ["LAUNCHER_HOME"] = os.path.abspath(os.path.join(ticket.folder, *[os.pardir] * 3))
    pause_s, deadline = _FIRST_PAUSE_S, time.monotonic() + _ENGINE_S
    while time.monotonic() < deadline:
        try:
            if _is_settled(connect(), ticket, is_there=is_there):
                return
        except EngineUnreachable:
            pass
        time.sleep(pause_s)  # its client may be about to start it
        pause_s *= 2


def _is_settled(engine: Engine, ticket: Ticket, *, is_there: bool) -> bool:
    """Free the share of a ticket, or have a watcher take it; False where neither is to be done yet."""
    from launcher.schedulers.docker import watchers
    from launcher.schedulers.docker.apps import find
    from launcher.schedulers.docker.share import is_of
    from launcher.schedulers.docker.watching.waiting import ensure_watched

    app = find(engine, ticket.app)
    is_its = app is not None and any(is_of(ticket, each.labels) for each in app.containers)
    if app is not None and is_its and app.view.needs_watcher:
        if not is_there:
            ensure_watched(engine, ticket.app)
            return True
        if watchers.start_again(engine, ticket.engine):
            return True
        is_over = not app.view.live
    else:
        is_over = app is None or app.view.final or not app.owner or not is_its
    if is_over:
        table.forget(ticket)
    return is_over
