"""The holder of a line: it holds apps of one apply that wait for others or for their share of a machine.

With supervisors there would be a process for each app. The holder has each app's request in memory, takes the
app's turn, and has a supervisor started when the time comes; from then on it no longer knows the app. It
ends when it holds no app and its client has gone. A killed holder leaves attempts that the next apply
submits again.

Its client sends it a socket and the lock of each app: the socket is used as with a supervisor. To end one
app, other clients write their request into the app's folder, then send SIGUSR1 (`stop.py`); they do not wait
for the exit of this process.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` loads enum and re
import os
from marshal import dumps, loads

from launcher.errors import SchedulerError
from launcher.schedulers.holder import FdInbox
from launcher.schedulers.local import kernel
from launcher.schedulers.local.held import Keeper, UnstartedApp
from launcher.schedulers.local.spawn import Spawner
from launcher.schedulers.local.starter import Starter
from launcher.schedulers.local.supervisor import begin
from launcher.schedulers.local.waiting import Needed, SharedLine, SharedPlace, to_hand_over
from launcher.schedulers.loop import CONTROL_FD, Loop
from launcher.turns.queue import Queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from launcher.schedulers.local.comparison import Readers

    Message = Mapping[str, Any]

AGAIN_S = 1.0
MOST_READERS = 8
READER_LINGERS_S = 2.0
_AT_ONCE = 200  # apps to look at before other events have their turn


class LineHolder:
    """Holds apps until each has a supervisor, or has ended before that."""

    def __init__(self, control: int) -> None:
        self._control = control
        self._inbox = FdInbox(control)
        self.starter = Starter()
        self.starter.begin()
        self.loop = Loop((_signal.SIGCHLD, kernel.SIGUSR1))
        self.loop.on_signals = self._take_signals
        self.loop.watch(control, self._receive)
        self.needed = Needed(self.loop)
        self.apps: dict[int, LineMember] = {}  # descriptor of the lock → app that has no supervisor yet
        self.lines: dict[str, SharedLine] = {}  # table → line
        self._env: dict[str, str] = {}
        self._spawner: Spawner
        self._to_look_at: list[int] = []
        self._readers: Readers | None = None

    def run(self) -> None:
        while self.apps or self._control >= 0:
            self.loop.turn()
        for line in self.lines.values():
            line.close()

    def _receive(self) -> None:
        """Take the apps that a client hands over."""
        is_open = self._inbox.read()
        fds = self._inbox.take_fds()
        if len(fds) % 2:  # this process may open no more files: the client sees that the app is not taken
            os.close(fds.pop())
        for control, lock in zip(fds[::2], fds[1::2], strict=True):
            self.apps[lock] = LineMember(self, control, lock)
        if not is_open:
            self.loop.remove(self._control)
            self._control = -1
            kernel.trim_memory()

    def spawner_of(self, env: dict[str, str]) -> Spawner:
        """The spawner for an inherited environment; apps with the same environment share it."""
        if env != self._env:
            self._env, self._spawner = env, Spawner(env)
        return self._spawner

    def readers(self) -> Readers:
        """The processes that compare the files of all apps."""
        from launcher.schedulers.local.comparison import Readers

        if self._readers is None:
            self._readers = Readers(self.loop, most=MOST_READERS, linger_s=READER_LINGERS_S)
        return self._readers

    # -- requests in the folders of apps -------------------------------------------------------------------

    def _take_signals(self, numbers: list[int]) -> None:
        if _signal.SIGCHLD in numbers:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:  # comparisons and other children
                    pass
            except ChildProcessError:
                pass
        if kernel.SIGUSR1 in numbers:
            is_looking = bool(self._to_look_at)
            self._to_look_at = list(self.apps)
            if not is_looking:
                self._look_at_requests()

    def _look_at_requests(self) -> None:
        """End the apps that a client has cancelled or withdrawn."""
        some, self._to_look_at = self._to_look_at[:_AT_ONCE], self._to_look_at[_AT_ONCE:]
        for lock in some:
            if lock in self.apps:
                self.apps[lock].look_for_requests()
        if self._to_look_at:
            self.loop.after(0, self._look_at_requests)


class LineMember(Keeper):
    """One app in a process that holds many."""

    kind = "holder"

    def __init__(self, holder: LineHolder, control: int, lock: int) -> None:
        super().__init__(holder.loop, control)
        self._holder = holder
        self._lock = lock
        self._app: UnstartedApp | None = None
        self._request = b""  # its "create" without the environment
        self._spawner: Spawner
        self._child = -1  # this end of the socket to the supervisor that is taking it over

    def look_for_requests(self) -> None:
        """End the app if a client has cancelled or withdrawn it."""
        if self._app is not None and self._app.is_created and self._child < 0:
            self._app.is_wanted()

    # -- messages of its client ----------------------------------------------------------------------------

    def _obey(self, message: Message) -> None:
        if message["op"] == "create" and self._app is None:
            self._create({**message})
        elif message["op"] == "go" and self._app is not None:
            self._app.prepare_start(message)

    def _create(self, message: dict[str, Any]) -> None:
        self._spawner = self._holder.spawner_of(message.pop("env"))
        self._request = dumps(message)
        app = self._app = UnstartedApp(self, self._loop, message, self._spawner)
        if app.create(message) and app.is_wanted():
            app.record.put_down()
            app.forget_replicas()
            self.answer({"ok": "created"})

    def _hung_up(self) -> None:
        """Undo the submission, unless the app is accepted, or a supervisor takes it over."""
        self._close_control()
        if self._app is None:
            self._leave()
        elif self._child < 0 and not (self._app.is_accepted or self._app.app.has_ended):
            self._app.undo()

    # -- requests of the app to its holder -----------------------------------------------------------------

    def readers(self) -> Readers:
        return self._holder.readers()

    def hold(self, app: UnstartedApp, message: Message) -> None:
        if ask := message.get("turn"):
            lines, table = self._holder.lines, ask["table"]
            line = lines[table] = lines.get(table) or SharedLine(self._loop, Queue())
            app.share = SharedPlace(self._loop, line, ask, app.app_dir)
        app.hold(message.get("needs", ()), self._holder.needed)

    def accepted(self, app: UnstartedApp) -> None:
        app.record.put_down()
        self._close_control()

    def over(self, app: UnstartedApp) -> None:
        self._close_control()
        self._leave()

    def start(self, app: UnstartedApp) -> None:
        """Have a supervisor take over the app, and its client if that waits for the start."""
        app.record.put_down()
        request = {**loads(self._request), "env": self._spawner.inherited, "turn": None, **app.to_hand_over()}
        fds = [self._lock]
        if app.share and app.share.place:
            request["turn"], places = to_hand_over(app.share.place)
            fds += places
        if self._control >= 0:
            fds.append(self._control)
        request["has_client"] = self._control >= 0
        try:
            self._child = self._holder.starter.start(request, fds)
        except (OSError, SchedulerError) as error:
            self._not_taken(str(error))
            return
        if self._control >= 0:
            self._loop.remove(self._control)  # the supervisor answers from now on
        self._loop.watch(self._child, self._has_taken)

    # -- the supervisor that takes the app over ------------------------------------------------------------

    def _has_taken(self) -> None:
        """Forget the app if its supervisor has confirmed the takeover."""
        if not os.read(self._child, 1):
            if self._control >= 0:
                self._loop.watch(self._control, self._receive)
            self._not_taken("no supervisor could be started")
            return
        assert self._app is not None
        self._close_child()
        if self._app.share and self._app.share.place:
            self._app.share.place.release()
        if self._control >= 0:
            os.close(self._control)
        self._leave()

    def _not_taken(self, why: str) -> None:
        """Try again to start the app."""
        self._close_child()
        app = self._app
        assert app is not None
        if not any(each["e"] == "warning" for each in app.events):
            app.note("warning", message=f"cannot start its supervisor, and tries again: {why}")
        self._loop.after(AGAIN_S, app.go)

    def _close_child(self) -> None:
        if self._child >= 0:
            self._loop.forget(self._child)
            os.close(self._child)
            self._child = -1

    def _leave(self) -> None:
        del self._holder.apps[self._lock]
        os.close(self._lock)
        if self._app is not None:
            self._holder.needed.look(self._app.app_dir)


def main() -> None:
    os.set_inheritable(CONTROL_FD, False)
    kernel.close_from(CONTROL_FD + 1)
    begin()
    LineHolder(CONTROL_FD).run()
    os._exit(0)
