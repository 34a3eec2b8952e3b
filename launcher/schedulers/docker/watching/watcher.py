"""The watcher: the process that watches apps of one engine, and ends with the last of them.

Run as `python -I -c '…; main()' FOLDER` with the socket of its first client at descriptor 0, and, where other
clients may hand over apps, the socket that they connect to at 3; see `rendezvous.py`. A client hands over one
app on each connection: its first message is the order, with the app's lock and the bells of its place as
descriptors.

One loop waits for clients, for the descriptors of apps in line and for times; a thread reads the one event
stream of all apps; a pool runs the steps of apps (`app.py`): only these may block.

Containers do not depend on a watcher: when it is killed they run on, and the next command that reads an app
hands the app to another watcher. The next apply submits a waiting app again.

In a container of the engine, `main_on_engine` runs the shared watcher of all clients that name its image. It
has the engine's socket at DOCKER_HOST, and a volume with the records of its apps at LAUNCHER_HOME. Clients
reach it through the engine, see `container.py`, by commands that run in its container, see `pump` in
`rendezvous.py`. It waits a while for its first client. At the end of its last app it removes its container,
and the volume with it. When it is killed, the engine starts it again, and it goes on with the apps that it
finds in the volume. The requests of waiting apps, which have the values of secrets, are in memory alone:
these apps are abandoned then.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from launcher import paths
from launcher.errors import StateError
from launcher.schedulers.docker import record
from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.client.errors import EngineError, EngineUnreachable
from launcher.schedulers.docker.client.streams import Event
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.labels import APP_ID
from launcher.schedulers.docker.record import RecordLock
from launcher.schedulers.docker.watchers import NO_ENGINE, PROCESS, TURNS_FOLDER
from launcher.schedulers.docker.watching.app import WatchedApp, left_orders, own_record
from launcher.schedulers.docker.watching.client import CONTROL_FD, LISTENER_FD
from launcher.schedulers.docker.watching.observer import SharedStream
from launcher.schedulers.docker.watching.rendezvous import IN_CONTAINER, Connection, Listening, listen
from launcher.schedulers.docker.watching.samples import Sampler
from launcher.schedulers.docker.watching.services import (
    Calls,
    OnEnd,
    Pool,
    Rest,
    answer_about_turns,
    open_many,
    reporting,
)
from launcher.schedulers.loop import Loop
from launcher.schedulers.owner import this_process

if TYPE_CHECKING:
    from launcher.schedulers.docker.watching.hold import Needs
    from launcher.specs.attempt import StoodOn

_OTHERS = ("exec_", "health_status", "top", "attach")
"""The prefixes of actions that say nothing about the state of a container."""
_TIMER_S = 0.001
_FDS_OF_APP = 16  # descriptors of an app in line behind several others; most apps have three


class _Task:
    """An app in the loop.

    Attributes:
        until: when its rest ends, by the monotonic clock; None for a rest without a time.
        timed_at: the earliest time for which the loop has a timer; None for none.
        fds: the descriptors that the loop watches for it.
        is_given_up: the engine was away for too long: the app has not ended.
        awaits_hold: the client still waits for the state in which the app is held.
    """

    def __init__(self, client: Connection) -> None:
        self.client = client
        self.app: WatchedApp
        self.until: float | None = None
        self.timed_at: float | None = None
        self.fds: tuple[int, ...] = ()
        self.is_running = False
        self.is_due = False
        self.is_over = False
        self.is_given_up = False
        self.awaits_hold = False
        self.has_lost_client = False


class Watcher:
    """Watches the apps that clients hand over. `run` returns when no app is left.

    Args:
        patience_s: how long it waits for its first client; 0 for a watcher that has one. Such a watcher owns
            the records of its apps, and removes each at the end of the watch.
    """

    def __init__(
        self, engine: Engine, listening: Listening | None = None, *, patience_s: float = 0.0
    ) -> None:
        self.engine = engine
        self._listening = listening
        self._loop = Loop()
        self._pool = Pool(self._loop.after)
        self.post = Calls(self._loop).post
        self._stream = SharedStream(engine, self)
        self.sampler = None if engine.host.startswith("ssh://") else Sampler(engine, self.post)
        self._reader: Thread | None = None
        self._needs: Needs | None = None
        self._tasks: dict[str, _Task] = {}
        self._registry = Lock()  # for `_tasks`, which the thread of the event stream also reads
        self._over: list[_Task] = []  # apps whose locks are yet to be released
        self._new: set[Connection] = set()  # connections without a message yet
        self._is_lost = False
        self._owns_records = self._is_early = patience_s > 0.0
        self._loop.after(patience_s, self._stop_waiting)
        self._most = open_many() // _FDS_OF_APP
        if listening is not None:
            self._loop.watch(listening.listener.fileno(), self._accept)

    def run(self) -> None:
        """Watch until no app is left. The end of the process releases the locks of the last ones."""
        while not (self._is_lost or self._may_end()):
            self._let_go()
            self._loop.turn()
        if self._is_lost:  # the engine was away for so long that the next command is to revive the watch
            for task in self._tasks.values():
                if not task.is_running:
                    task.app.close()

    def close(self) -> None:
        """Release everything that the end of the process would release."""
        self._stream.close()
        self._let_go()

    def _may_end(self) -> bool:
        """Whether no app is left, and no client can hand over one any more."""
        if self._tasks or self._new or self._is_early:
            return False
        late = [] if self._listening is None else self._listening.retire()
        for each in late:
            self.serve(each)
        return not late

    def _stop_waiting(self) -> None:
        self._is_early = False

    def _let_go(self) -> None:
        """Release the locks of the apps whose watch is over, before any client learns of the end."""
        while self._over:
            task = self._over.pop()
            if self._owns_records and not task.is_given_up:
                record.remove(task.app.lock.app_dir)
            task.app.lock.release()
            self._leave(task.client)

    # -- requests of apps, in any thread -------------------------------------------------------------------

    def submit(self, call: Callable[[], object]) -> None:
        self.post(partial(self._pool.submit, call))

    def follow_need(self, need: StoodOn, on_end: OnEnd) -> None:
        self.post(partial(self._follow_need, need, on_end))

    def _follow_need(self, need: StoodOn, on_end: OnEnd) -> None:
        if self._needs is None:
            from launcher.schedulers.docker.watching.hold import Needs

            self._needs = Needs(self.engine, self)
        self._needs.follow(need, on_end)

    # -- the stream, in the thread that reads it -----------------------------------------------------------

    def _read_stream(self) -> None:
        with reporting(), suppress(EngineUnreachable):
            self._stream.read()
        self.post(self._lose)

    def _lose(self) -> None:
        self._is_lost = True

    def origin(self) -> float:
        with self._registry:
            return min((each.app.since for each in self._tasks.values()), default=time.time())

    def happened(self, event: Event) -> None:
        app_id = event.attributes.get(APP_ID, "")
        if event.action.startswith(_OTHERS):
            return
        with self._registry:
            task = self._tasks.get(app_id)
        if task is not None:
            task.app.put(event)
        if self._needs is not None:
            self.post(partial(self._needs.happened, app_id))

    def connected(self) -> None:
        self.post(self._look_at_all)

    def disconnected(self, error: EngineError) -> None:
        with self._registry:
            tasks = list(self._tasks.values())
        for task in tasks:
            task.app.put(error)

    def _look_at_all(self) -> None:
        for task in list(self._tasks.values()):
            self._wake(task)
        if self._needs is not None:
            self._needs.look()

    # -- clients -------------------------------------------------------------------------------------------

    def serve(self, client: Any) -> None:
        """Serve the client at the other end of a socket."""
        connection = Connection(client)
        self._new.add(connection)
        self._loop.watch(connection.fileno(), partial(self._read, connection))

    def _accept(self) -> None:
        assert self._listening is not None, "only a watcher with a socket accepts clients"
        for client in self._listening.accept():
            self.serve(client)

    def _read(self, connection: Connection) -> None:
        """Take the messages of a client. A client whose message fails, say on a full disk, is refused."""
        with reporting():
            self._obey(connection)
            return
        self._new.discard(connection)
        self._leave(connection)

    def _obey(self, connection: Connection) -> None:
        messages = list(connection.messages())
        if connection in self._new and {"op": "forget"} in messages:
            self._new.remove(connection)
            self._leave(connection)
            return
        for message in messages:
            if connection in self._new:
                self._new.remove(connection)
                self._meet(connection, message)
            elif connection.task is not None:
                connection.task.app.put(message)
                connection.task.awaits_hold |= message.get("op") == "wait" and self._owns_records
            if message.get("op") == "end":
                self._loop.forget(connection.fileno())
                self.post(partial(self._lose_client, connection))  # after the step that the end causes

    def _lose_client(self, connection: Connection) -> None:
        """Close a connection that the client has closed, once the app goes on without the client."""
        task = connection.task
        if task is None or not task.is_running:
            self._leave(connection)
        else:
            task.has_lost_client = True

    def _leave(self, connection: Connection) -> None:
        if connection.fileno() >= 0:
            self._loop.forget(connection.fileno())
            connection.close()

    def _meet(self, connection: Connection, message: Mapping[str, Any]) -> None:
        """Obey the first message of a client."""
        known = self._tasks.get(message.get("app_id", ""))
        if message.get("op") == "cancel" and known is not None:
            record.append(known.app.lock.app_dir, "cancel", **message["request"])
            connection.answer({})
            self._leave(connection)
            self._wake(known)
        elif self._owns_records and message.get("op") in ("turns", "now"):
            self._loop.forget(connection.fileno())
            self._pool.submit(partial(answer_about_turns, connection, message))
        elif "op" in message or known is not None or len(self._tasks) >= self._most:
            if self._owns_records and known is not None and message.get("resumed"):
                connection.answer({})  # another client has handed over this running app
            self._leave(connection)  # closed, so that a client that waits for an answer begins anew
            if known is not None:
                self._wake(known)  # its record may have been removed
        else:
            self._begin(connection, message)

    def _begin(self, connection: Connection, order: Mapping[str, Any]) -> None:
        """Take an app over from its client."""
        self._is_early = False
        bells: list[int] = []
        if connection.fds:
            lock_fd, *bells = connection.fds
            connection.fds = bells  # closed with the connection where the app cannot be taken
            lock = RecordLock(order["app_dir"], lock_fd)
            sys.path += [each for each in order["path"] if each not in sys.path]
        else:
            lock, order = own_record(self.engine, order)
        task = _Task(connection)
        wake = partial(self.post, partial(self._wake, task))
        try:
            task.app = WatchedApp(self, self._stream, lock, order, bells, wake)
        except BaseException:
            lock.release()  # else no client could hand over the app again
            raise
        lock.sign()
        connection.task, connection.fds = task, []
        with self._registry:
            self._tasks[task.app.app_id] = task
        connection.answer(task.app.taken())
        if self._reader is None:
            self._reader = Thread(target=self._read_stream, daemon=True)
            self._reader.start()
        self._wake(task)

    # -- apps ----------------------------------------------------------------------------------------------

    def _wake(self, task: _Task) -> None:
        """Schedule a step of an app, or another one after the present step."""
        if task.is_running:
            task.is_due = True
        elif not task.is_over:
            for fd in task.fds:
                self._loop.remove(fd)
            task.fds, task.is_running, task.is_due = (), True, False
            self._pool.submit(partial(self._step, task))

    def _step(self, task: _Task) -> None:
        rest = None
        try:
            rest = task.app.step()
            if rest is None:
                task.app.close()
        except EngineUnreachable:
            task.is_given_up = True  # the engine is away for too long
            task.app.close()
        except Exception:
            record.note_failure(task.app.lock.app_dir, traceback.format_exc())
            task.app.close()
        finally:
            self.post(partial(self._rest, task, rest))

    def _rest(self, task: _Task, rest: Rest | None) -> None:
        task.is_running = False
        if task.awaits_hold and (journal := record.journal(task.app.lock.app_dir)) is not None:
            task.awaits_hold = False
            task.client.answer({"state": journal.held[0] if journal.held is not None else "running"})
        if rest is None:
            self._drop(task)
        elif task.is_due:
            self._wake(task)
        else:
            task.until = None if rest.for_s is None else time.monotonic() + rest.for_s
            task.fds = rest.readable + rest.hung_up
            for fd in rest.readable:
                self._loop.watch(fd, partial(self._wake, task))
            for fd in rest.hung_up:
                self._loop.watch_end(fd, partial(self._wake, task))
            self._set_timer(task)
            if task.has_lost_client:
                self._leave(task.client)

    def _drop(self, task: _Task) -> None:
        """Forget an app."""
        task.is_over = True
        with self._registry:
            del self._tasks[task.app.app_id]
        self._over.append(task)

    def _set_timer(self, task: _Task) -> None:
        """Set a timer for the end of the rest, unless an earlier timer is set, which looks again."""
        at = task.until
        if at is not None and (task.timed_at is None or at < task.timed_at):
            task.timed_at = at
            self._loop.after(max(0.0, at - time.monotonic()), partial(self._look_at_time, task, at))

    def _look_at_time(self, task: _Task, at: float) -> None:
        if task.timed_at != at:
            return  # an earlier timer was set since
        task.timed_at = None
        if task.is_over or task.is_running or task.until is None:
            return
        if task.until <= time.monotonic() + _TIMER_S:
            self._wake(task)
        else:
            self._set_timer(task)


def main() -> None:
    name = sys.argv[2]
    os.chdir("/")
    os.set_inheritable(CONTROL_FD, False)
    listening = None
    if name:
        os.set_inheritable(LISTENER_FD, False)
        listening = Listening(socket.socket(fileno=LISTENER_FD))
    watcher = Watcher(connect(), listening)
    watcher.serve(socket.socket(fileno=CONTROL_FD))
    watcher.run()
    os._exit(0)  # a client may wait for this exit: tearing down the interpreter takes time


# -- in a container of the engine --------------------------------------------------------------------------

FIRST_CLIENT_S = 20.0
_UP_S = 10.0
"""How long, in seconds, a new watcher tries to reach an engine that refuses its connections. Its client,
which waits for longer, then reports why. An engine that takes them and is slow to answer is waited for."""


def main_on_engine(container: str) -> None:
    """Run the watcher. `container`: the name of its container."""
    os.chdir("/")
    engine = connect()
    for volume in (paths.home(), TURNS_FOLDER):
        # Else user namespaces, or a folder of the image, decide who owns it.
        os.chown(volume, os.geteuid(), -1)
        os.chmod(volume, 0o755)
    try:
        paths.ensure(record.apps_dir())
    except StateError as error:
        sys.exit(str(error))
    if (made := listen(IN_CONTAINER)) is None:
        sys.exit("another watcher runs here")
    listener = socket.socket(fileno=made.detach())
    try:
        Patience(engine.host, time.monotonic() + _UP_S, holds=True).persist(engine.answer_anew)
        engine.restart_always(container)  # now that it can run: else the engine would start it for ever
    except EngineError as error:
        sys.exit(f"{NO_ENGINE}: {error}")
    watcher = Watcher(engine, Listening(listener), patience_s=FIRST_CLIENT_S)
    for order in left_orders(engine):
        ours, theirs = socket.socketpair()
        watcher.serve(theirs)
        ours.sendall(json.dumps(order).encode() + b"\n")
        ours.close()
    with open(PROCESS, "w", encoding="utf-8") as file:
        file.write(this_process().to_json())
    watcher.run()
    watcher.close()
    if record.app_ids():  # the engine was away for too long: go on when it starts this again
        os._exit(1)
    engine.remove(container, force=True)
