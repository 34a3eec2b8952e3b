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
from collections.abc import Iterator, Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any

from launcher.schedulers.docker import network, record
from launcher.schedulers.docker.apps import list_containers
from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.client.errors import (
    EngineError,
    EngineSilent,
    EngineUnreachable,
    NotFound,
    is_half_started,
    may_pass,
)
from launcher.schedulers.docker.client.parallel import run_parallel
from launcher.schedulers.docker.client.persist import (
    GIVE_UP_S,
    LONGEST_PAUSE_S,
    SHORTEST_PAUSE_S,
    Patience,
)
from launcher.schedulers.docker.journal import Journal, RecordedStop
from launcher.schedulers.docker.labels import APP_ID, Labels
from launcher.schedulers.docker.progress import Progress, progress
from launcher.schedulers.docker.record import RecordLock
from launcher.schedulers.docker.replicas import where
from launcher.schedulers.docker.status import DockerAppView, view
from launcher.schedulers.docker.unasked import ENGINE_STOPPED
from launcher.schedulers.docker.watching import stop
from launcher.schedulers.docker.watching.client import BELLS_FD, LOCK_FD
from launcher.schedulers.docker.watching.decide import (
    Action,
    End,
    Halt,
    Leave,
    Restart,
    Start,
    Stop,
    aim,
    decide,
    unended,
)
from launcher.schedulers.docker.watching.observer import AppObserver, EventQueue
from launcher.schedulers.docker.watching.write_end import write_end

if TYPE_CHECKING:
    from launcher.schedulers.docker.watching.readiness import Prober
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
        self._observer = AppObserver(engine, self._app_dir, self._app_id, self._events)
        self._prober: Prober | None = None  # only apps whose roles wait or serve have one
        self._restarts = True
        self._stopping: RecordedStop | None = None  # also where the journal could not be written
        self._aim: object = None  # the aim of the last action, see `decide.aim`

    def run(self) -> None:
        try:
            self._run()
        finally:
            if self._place is not None:
                self._place.leave()

    def _run(self) -> None:
        if not self._resumed and not self._submission():
            return
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
        unheard = self._read_journal().going_at if since is None else since
        try:
            with self._engine.events(f"{APP_ID}={self._app_id}", since=unheard) as events:
                self._events.connected(self._engine.started_at())
                Thread(target=self._events.read_events, args=(events,), daemon=True).start()
                self._follow()
        except EngineUnreachable as error:
            self._aim = None  # the action that failed may be repeated
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
        if going or self._read_journal().going_at is not None or not self._lock.is_valid:
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
            if not stop.remove_objects(self._engine, self._app_id, force=False):
                return False
            time.sleep(_LATE_S)  # we hold the lock meanwhile: no client recreates the app
        return not self._lock.is_valid or stop.remove_app(self._engine, self._app_id, force=force)

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
                self._aim = None  # the action that failed may be repeated
                self._observer.invalidate()
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)

    def _has_ended(self) -> bool:
        """Read the app once and do its next action; True when none is left to do."""
        found = self._observer.containers()
        if self._prober is not None:
            self._prober.record()  # before the ends: what was ready before it ended was ready
        journal = self._read_journal()
        if self._observer.record_exits(found, journal):
            journal = self._read_journal()
        seen = view(found, journal, expected_replicas=self._observer.expected_replicas)
        roles = progress(found, journal)
        if roles is not None:
            if self._is_replaced(found, journal):
                return True
            self._probe(found, journal, roles)
        action = self._next(seen, found, journal)
        if isinstance(action, (End, Leave)):
            if isinstance(action, End) and seen is not None:
                if self._place is not None:
                    self._place.leave()  # no container is left, and comparing input files takes a while
                write_end(self._engine, self._app_dir, seen, found[0].labels if found else {})
            return True
        new = aim(action, found)
        if new is None or new != self._aim:
            self._aim = new or self._aim
            self._act(action, found)
        else:
            self._aim = None
            self._do_not_repeat(action)
        return False

    def _probe(self, found: list[Container], journal: Journal, roles: Progress) -> None:
        if self._prober is None:
            from launcher.schedulers.docker.watching.readiness import Prober

            self._prober = Prober(self._engine, self._app_dir, self._events.wake, resumed=self._resumed)
        self._prober.follow(found, journal, roles)

    def _is_replaced(self, found: list[Container], journal: Journal) -> bool:
        """Whether the app's own record has a watcher again, which alone is to start what waits."""
        owner = Labels(found[0].labels).owner
        return journal.adopted and record.is_locked_elsewhere(self._app_id, owner)

    def _next(self, seen: DockerAppView | None, found: list[Container], journal: Journal) -> Action:
        goes_on = seen is not None and not (seen.ended or seen.done)
        if self._events.orphaned and journal.stop is None and goes_on:
            return Stop(unended(found, journal), "parent", self._why_orphaned())
        return self._decide(seen, found, journal)

    def _do_not_repeat(self, action: Action) -> None:
        """Give up an action that the engine accepted without effect: it would be repeated for ever."""
        if isinstance(action, (Start, Restart)):
            self._give_up(f"{_label(action.containers[0])} could not be started: it never began to run")
        else:
            self._events.wait(time.time() + LONGEST_PAUSE_S)

    def _read_journal(self) -> Journal:
        journal = record.journal(self._app_dir) or Journal()
        journal.stop = journal.stop or self._stopping
        journal.adopted = journal.adopted or not self._restarts
        if self._prober is not None:
            self._prober.complete(journal)
        return journal

    def _decide(self, seen: DockerAppView | None, found: list[Container], journal: Journal) -> Action:
        labels = Labels(found[0].labels if found else {})
        started = journal.going_at or (seen.started_at if seen else None)
        limit = labels.timeout_s
        return decide(
            seen,
            found,
            journal,
            retries=labels.retries,
            deadline=started + limit if started and limit else None,
            now=time.time(),
        )

    def _act(self, action: Action, found: list[Container]) -> None:
        if isinstance(action, Stop):
            self._stop(action, found)
        elif isinstance(action, Restart):
            self._restart(action)
        elif isinstance(action, Halt):
            self._halt(action.containers)
        elif isinstance(action, Start):
            self._start(action.containers)
        elif not isinstance(action, (End, Leave)):
            self._events.wait(action.deadline)

    def _stop(self, action: Stop, found: list[Container]) -> None:
        message = action.message
        if action.why == "timeout":
            message = f"timed out after {Labels(found[0].labels).timeout_s} s"
        journal = record.journal(self._app_dir)
        asked = journal.grace_s if journal else None  # a cancellation may set another grace period
        grace = _grace(found) if asked is None else asked
        self._stopping = self._stopping or RecordedStop(why=action.why, message=message, at=time.time())
        stop.stop(self._engine, self._app_dir, found, action.why, message, grace)
        self._observer.invalidate()

    def _restart(self, action: Restart) -> None:
        """Restart containers. Journal first: if this watcher is killed, the next one completes it."""
        delay = {"delay_s": action.delay_s} if action.delay_s else {}
        todo = self._engine.inspect_all(each.id for each in action.containers)
        if not action.again and not record.append(
            self._app_dir,
            "restart",
            role=action.role,
            policy=action.policy,
            was={each.id: each.started_at for each in todo},
            again=[list(where(each)) for each in todo],
            **delay,
        ):
            self._restarts = False  # a restart that cannot be counted is not made
            return
        if delay:
            self._observer.invalidate()
            return  # the next read stops those that run
        self._halt([each for each in todo if each.live])
        self._start([each for each in todo if each.id not in action.held])

    def _halt(self, live: Sequence[Container]) -> None:
        grace = _grace(live)
        record.append(self._app_dir, "stop", why="restart", of=[each.id for each in live])
        run_parallel(lambda each: stop.stop_one(self._engine, each.id, grace), live)
        self._observer.invalidate()

    def _start(self, todo: Sequence[Container]) -> None:
        self._observer.invalidate()
        journal = record.journal(self._app_dir)
        if journal is not None and journal.cancelled_by is not None:
            return
        failed = [why for why in run_parallel(self._start_one, todo) if why]
        if failed:
            self._give_up(failed[0])

    def _start_one(self, container: Container) -> str:
        """Why it could not be started; "" when it was, or is gone, as the next read will show."""
        if not container.was_started and self._was_started_since(container):
            return ""
        if why := self._taken_port(container):
            return f"{_label(container)} could not be started: {why}"
        try:
            network.start(self._engine, container.id)
        except EngineError as error:
            if isinstance(error, NotFound) and self._engine.inspect(container.id) is None:
                return ""
            if may_pass(error):
                raise
            self._engine.answer_anew()  # one that stops refuses for reasons of its own
            if is_half_started(error):
                return ENGINE_STOPPED
            again = "restarted" if container.was_started else "started"
            return f"{_label(container)} could not be {again}: {error.cause}"
        return ""

    def _was_started_since(self, container: Container) -> bool:
        """Whether a role that waited was started by another process meanwhile: it must not run twice."""
        if not Labels(container.labels).order:
            return False
        now = self._engine.inspect(container.id)
        return now is not None and now.was_started

    def _taken_port(self, container: Container) -> str:
        """See `probes.taken_port`: of replica 0, before its first start."""
        role, k = where(container)
        if container.network != "host" or k or container.was_started:
            return ""
        from launcher.schedulers.docker.watching.probes import taken_port

        rules = {name: rules for name, _, rules in Labels(container.labels).order}
        return taken_port(self._engine, container.network, rules.get(role, {}).get("ready"))

    def _give_up(self, message: str) -> None:
        """End the app as failed, or lost: it cannot run without one of its replicas."""
        found = self._engine.inspect_all(each.id for each in list_containers(self._engine, self._app_id))
        why = "lost" if message == ENGINE_STOPPED else "start"
        self._stop(Stop(unended(found, self._read_journal()), why, message), found)


def _grace(containers: Sequence[Container]) -> float:
    return Labels(containers[0].labels).grace_s if containers else 0.0


def _inherited(order: Mapping[str, Any]) -> Place | None:
    if "place" not in order:
        return None
    from launcher.schedulers.docker import share

    return share.from_json(order["place"], BELLS_FD)


def _label(container: Container) -> str:
    role, k = where(container)
    return f"{role}/{k}"


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
