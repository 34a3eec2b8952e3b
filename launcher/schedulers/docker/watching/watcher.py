"""The watcher process of one app: what no engine provides, and the record of the end.

It restarts by policy, keeps time limits, starts roles when what they wait for holds, and stops services.

Run as `python -I -c '…; main()' APP_DIR` with the control socket at descriptor 0 and the app's lock at 3.
Containers do not depend on it: when it is killed they run on, and the next command that reads the app spawns
another one. All of its state is in the journal and at the engine: it reads both, decides, does one action,
and reads again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

from launcher.holding.hold import AGAIN_S, decide
from launcher.schedulers.docker import record
from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.client.errors import EngineError, EngineSilent, EngineUnreachable
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.wire import (
    GIVE_UP_S,
    LONGEST_PAUSE_S,
    SHORTEST_PAUSE_S,
    Patience,
)
from launcher.schedulers.docker.facts import containers_to_events, has_begun, open_app
from launcher.schedulers.docker.journal import HeldApp, Journal
from launcher.schedulers.docker.labels import APP_ID, Labels
from launcher.schedulers.docker.record import Recorder, RecordLock
from launcher.schedulers.docker.status import view
from launcher.schedulers.docker.watching import ends
from launcher.schedulers.docker.watching.actions import Actions
from launcher.schedulers.docker.watching.client import BELLS_FD, LOCK_FD
from launcher.schedulers.docker.watching.observer import AppObserver, EventQueue

if TYPE_CHECKING:
    from launcher.schedulers.docker.watching.probes import Prober
    from launcher.turns.table import Place

CONTROL_FD = 0
_LATE_S = 0.5


class Watcher:
    """Watches one app, from the client's first message to the end of the app."""

    def __init__(
        self, engine: Engine, lock: RecordLock, order: Mapping[str, Any], ops: Iterator[Mapping[str, Any]]
    ) -> None:
        self._engine = engine
        self._lock = lock
        self._app_dir = lock.app_dir
        self._app_id: str = order["app_id"]
        self._reads_client: bool = order["attached"]
        self._place = _inherited(order)
        self._resumed: bool = order["resumed"]
        self._ops = ops
        self._events = EventQueue(self._app_dir)
        self._observer = AppObserver(engine, self._app_id, self._events)
        self._prober: Prober | None = None  # only apps with probes have one
        self._found: list[Container] = []
        self._recorder = _Recorder(self._app_dir, self._write_end)
        self._actions = Actions(engine, self._app_dir, self._recorder)

    def run(self) -> None:
        try:
            self._run()
        finally:
            if self._place is not None:
                self._place.leave()

    def _run(self) -> None:
        if not self._resumed and not self._submission():
            return
        if not self._resumed and self._recorder.journal().started_at is None:  # the disk was full
            self._recorder.append({"e": "starting"})
        if self._reads_client:
            Thread(target=self._events.read_client, args=(self._ops,), daemon=True).start()
        try:
            Patience(self._engine.host, holds=True).persist(self._connect)
        except EngineUnreachable:
            return  # for so long that the next command is to revive the watch

    def _connect(self) -> None:
        """Follow the app on one connection.

        It begins with all events since the last one, or since the app was started: a container may have been
        stopped while this process loaded its modules, or while no watcher lived.
        """
        since = self._events.seen_until
        unheard = self._recorder.journal().started_at if since is None else since
        try:
            with self._engine.events(f"{APP_ID}={self._app_id}", since=unheard) as events:
                self._events.connected(self._engine.started_at())
                Thread(target=self._events.read_events, args=(events,), daemon=True).start()
                self._follow()
        except EngineUnreachable as error:
            self._actions.forget()
            self._events.disconnected(error)
            if not isinstance(error, EngineSilent):
                self._observer.invalidate()
            raise

    # -- during submission ---------------------------------------------------------------------------------

    def _submission(self) -> bool:
        """Wait until the client has started the app or has gone; False when the app was removed instead."""
        going = False
        for message in self._ops:
            op = message["op"]
            if op == "go":
                going = True
            elif op == "wait":
                return self._hold(message)
            elif op == "started":
                return True
            elif op == "abort":
                self._remove_app(force=True)
                return False
            elif op == "close":
                self._events.closed = True
        if going or self._recorder.journal().started_at is not None or not self._lock.is_valid:
            return self._lock.is_valid  # the watch loop starts the rest
        return not self._remove_app(force=False)

    def _hold(self, message: Mapping[str, Any]) -> bool:
        """Wait for other attempts and the app's turn, then create it; False when it has ended instead."""
        from launcher.schedulers.docker.watching.hold import Hold

        hold = Hold(self._engine, self._lock, self._app_id, message, self._place)
        if self._reads_client:
            self._reads_client = False
            hold.follow_client(self._wait_for_client)
        return hold.run()

    def _wait_for_client(self) -> str:
        """Wait until the client has ended; why that cancels the app, "" when the client has left it."""
        self._events.read_client(self._ops)
        return self._why_orphaned() if self._events.orphaned else ""

    def _why_orphaned(self) -> str:
        return "its Runner was closed" if self._events.closed else "its parent process ended"

    def _remove_app(self, *, force: bool) -> bool:
        """Remove the app; False when it was started, so that it must stay."""
        if not force:  # its client was killed: the engine may still be creating what it requested
            if not ends.remove_objects(self._engine, self._app_id, force=False):
                return False
            time.sleep(_LATE_S)  # we hold the lock meanwhile: no client recreates the app
        return not self._lock.is_valid or ends.remove_app(self._engine, self._app_id, force=force)

    # -- while it runs -------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Act until the app has ended. A request that the engine refuses is made again after a pause."""
        pause, since = SHORTEST_PAUSE_S, time.monotonic()
        while self._lock.is_valid:
            try:
                if self._has_ended():
                    return
                pause, since = SHORTEST_PAUSE_S, time.monotonic()
            except EngineUnreachable:
                raise
            except EngineError:
                if time.monotonic() - since > GIVE_UP_S:
                    raise
                self._actions.forget()
                self._observer.invalidate()
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)

    def _has_ended(self) -> bool:
        """Read the app once, record what is new, and carry out what follows; True when it has ended.

        Each time the machine is made anew: clients add to the record, too, and an engine that comes back
        shows what has happened meanwhile.
        """
        self._found = found = self._observer.containers()
        journal = self._recorder.journal()
        if journal.outcome is not None or not (found or journal.events):
            return True
        labels = self._labels()
        if labels.order and self._is_replaced(labels, journal):
            return True
        app = open_app(labels, found, journal, self._observer.expected_replicas)
        self._record_facts(app, journal)
        decide(app, self._recorder, time.time())
        if self._actions.stop(app, found):
            self._observer.invalidate()
            return False
        is_written = self._recorder.is_written()
        if is_written and app.wants_quiet and not any(each.live for each in found):
            self._take(app, {"e": "quiet"})
            decide(app, self._recorder, time.time())
        if app.has_ended:
            return True
        if is_written and self._actions.start(app, found):
            self._observer.invalidate()
            return False
        self._wait(app, labels, is_written=is_written)
        return False

    def _wait(self, app: HeldApp, labels: Labels, *, is_written: bool) -> None:
        """Wait for the next event, or until the app has something to do."""
        self._probe(app, labels)
        again_at = None if is_written else time.time() + AGAIN_S
        if app.stop is not None or app.to_stop:  # a stop that had no effect
            again_at = again_at or time.time() + LONGEST_PAUSE_S
        self._events.wait(min((at for at in (app.deadline(), again_at) if at is not None), default=None))

    def _record_facts(self, app: HeldApp, journal: Journal) -> None:
        """Record the events that the engine, the probes and the client show and the journal lacks."""
        for fact in self._prober.facts(app) if self._prober is not None else ():
            self._take(app, fact)  # before the ends: a replica that was ready before it ended was ready
        if self._events.orphaned and not app.orphaned:
            self._take(app, {"e": "orphaned", "why": self._why_orphaned()})
        if has_begun(self._found, app) or not self._found:
            for fact in containers_to_events(
                app, self._found, lambda each: self._observer.end_of(each, journal)
            ):
                if fact.get("by") == "engine":
                    fact["code"] = self._events.codes.get(fact["id"])
                self._take(app, fact)

    def _take(self, app: HeldApp, fact: dict[str, Any]) -> None:
        self._recorder.append(fact)
        app.take(fact)

    def _probe(self, app: HeldApp, labels: Labels) -> None:
        rules = {role: rules["ready"] for role, _, rules in labels.order if rules.get("ready")}
        if rules and self._prober is None:
            from launcher.schedulers.docker.watching.probes import Prober

            self._prober = Prober(self._engine, rules, self._events.wake, resumed=self._resumed)
        if self._prober is not None:
            self._prober.follow(self._found, app)

    def _labels(self) -> Labels:
        if self._found:
            return Labels(self._found[0].labels)
        return Labels((record.read_attempt(self._app_dir) or {}).get("labels") or {})

    def _is_replaced(self, labels: Labels, journal: Journal) -> bool:
        """Whether the app's own record has a watcher again, which alone is to start what waits."""
        return journal.adopted and record.is_locked_elsewhere(self._app_id, labels.owner)

    def _write_end(self, event: dict[str, Any]) -> None:
        if self._place is not None:
            self._place.leave()  # no container is left, and comparing input files takes a while
        seen = view(
            self._found,
            self._recorder.journal(),
            expected_replicas=self._observer.expected_replicas,
            labels=self._labels(),
        )
        assert seen is not None, "an app without containers and events does not end"
        end = replace(seen, state=event["state"], message=event["message"], exit_code=event["code"])
        ends.write_end(self._engine, self._app_dir, end, self._found[0].labels if self._found else {})


class _Recorder(Recorder):
    """Writes the end of the app at the engine, too, before its record has it."""

    def __init__(self, app_dir: str, write_end: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(app_dir)
        self._write_end = write_end

    def append(self, event: dict[str, Any]) -> bool:
        if event["e"] == "ended":
            self._write_end(event)
            return self.is_written()
        return super().append(event)


def _inherited(order: Mapping[str, Any]) -> Place | None:
    if "place" not in order:
        return None
    from launcher.schedulers.docker import share

    return share.from_json(order["place"], BELLS_FD)


def main() -> None:
    app_dir = sys.argv[1]
    for fd in (CONTROL_FD, LOCK_FD):
        os.set_inheritable(fd, False)  # an ssh process that inherited the lock would look like a watcher
    os.chdir("/")
    lock = RecordLock(app_dir, LOCK_FD)
    lock.sign()
    lines = iter(os.fdopen(CONTROL_FD, "rb", closefd=False).readline, b"")
    first = next(lines, None)
    if first is None:
        return
    order = json.loads(first)
    sys.path[:] = order["path"]
    Watcher(connect(), lock, order, (json.loads(line) for line in lines if line.endswith(b"\n"))).run()
    os._exit(0)  # a client may wait for our exit: tearing down the interpreter takes time
