"""The watcher of an attempt that waits: until it creates the app, or gives the attempt up."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from launcher.errors import SchedulerError
from launcher.schedulers.docker import record, tombstones, turn
from launcher.schedulers.docker.apps import list_containers
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineUnreachable, may_pass
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.persist import Patience
from launcher.schedulers.docker.labels import APP_ID, OWNER
from launcher.schedulers.docker.names import queued_name
from launcher.schedulers.docker.record import RecordLock
from launcher.schedulers.docker.replicas import is_replica
from launcher.schedulers.docker.status import GONE
from launcher.schedulers.docker.watching import give_up
from launcher.schedulers.docker.watching.inputs import compare
from launcher.schedulers.docker.watching.outcomes import ended, why_skipped
from launcher.schedulers.owner import this_process
from launcher.specs import needs
from launcher.specs.attempt import AttemptState
from launcher.specs.needs import StoodOn

if TYPE_CHECKING:
    from launcher.schedulers.leftovers import Clearing
    from launcher.turns.table import Place

T = TypeVar("T")

_TABLE_S = 1.0  # until a table that could not be written is tried again
_REMOVED, _CLIENT, _LINE = "removed", "client", "line"
_LATE_S = 2.0  # from the removal of the container by a client that takes the attempt over to its own


class Hold:
    """Holds one app, in memory, while other attempts run, and while it is in line for its turn.

    Args:
        message: `job` as from `handover.to_json`, the `labels` of its containers, but for their owner, which
            this process is, `needs`, and the ids of the containers `waiting`, which stands for the app, and
            `reservation`, "" for none.
        place: of the app among those that share the machine; None for an app that takes no turn.
    """

    def __init__(
        self,
        engine: Engine,
        lock: RecordLock,
        app_id: str,
        message: Mapping[str, Any],
        place: Place | None = None,
    ) -> None:
        self._engine = engine
        self._app_dir = lock.app_dir
        self._app_id = app_id
        self._job: Mapping[str, Any] = message["job"]
        self._labels: Mapping[str, str] = {**message["labels"], OWNER: this_process().to_json()}
        self._needs = needs.from_json(message["needs"])
        self._reservation: str = message["reservation"]
        self._waiting = Container(id=message["waiting"], name="", state="created", labels=self._labels)
        self._place = place
        self._queue: SimpleQueue[tuple[StoodOn | str, Any] | Exception] = SimpleQueue()
        self._is_starting = False  # it was decided that it starts
        self._is_created = False
        self._clearing: Clearing | None = None

    def run(self) -> bool:
        """True when all containers exist and are to be started; False when the attempt has ended instead."""
        if self._reservation:
            self._engine.remove(self._reservation)
        recorded = record.read_attempt(self._app_dir)
        if recorded is not None:
            record.write_attempt(self._app_dir, {**recorded, "labels": self._labels})
        jobs = [each.job for each in self._needs]
        if jobs and not self._accept("waiting", **{"for": jobs}):
            return False
        self._follow(_REMOVED, self._removed)
        for each in self._needs:
            self._follow(each, partial(ended, self._engine, each))
        if not (self._needs_are_met() and self._has_turn()):
            return False
        compare(self._app_dir, self._labels)
        return self._is_started()

    def follow_client(self, wait: Callable[[], str]) -> None:
        """Cancel the app once `wait` returns the reason, if any: its client has ended."""
        self._follow(_CLIENT, wait)

    def _accept(self, kind: str, **facts: Any) -> bool:
        """Record that the app waits from here on, for which its client waits.

        False, with nothing left of it, when it was cancelled before that, or the disk is full.
        """
        if record.append(self._app_dir, kind, **facts):
            return True
        self._engine.remove(self._waiting.id)
        return False

    # -- what it waits for ---------------------------------------------------------------------------------

    def _needs_are_met(self) -> bool:
        """Wait until all that it needs has succeeded; False when the attempt has ended instead."""
        pending = set(self._needs)
        while pending:
            happened = self._next()
            if happened is None:
                return False
            need, found = happened
            if found is None or found.state != "succeeded":
                self._give_up("skipped", why_skipped(need, found))
                return False
            pending.discard(need)
            record.append(self._app_dir, "met", job=need.job)
        return True

    def _has_turn(self) -> bool:
        """Wait in line until the app has its share; False when the attempt has ended instead."""
        if self._place is None:
            return True
        is_recorded = False
        while not self._look(self._place):
            if not is_recorded and not self._record_queued():
                return False
            is_recorded = True
            if self._next() is None:
                return False
        return True

    def _record_queued(self) -> bool:
        """Record that it is in line. False as `_accept`, where that was not accepted to wait before."""
        if not self._needs:
            return self._accept("queued")
        record.append(self._app_dir, "queued")
        self._persist(self._show_queued)
        return True

    def _look(self, place: Place) -> bool:
        """Whether the app has its share. Until then, a thread wakes this one when that may have changed."""
        again_s: float | None = None
        try:
            if place.look().starts:
                return True
        except OSError:
            again_s = _TABLE_S
        self._clear(place)
        fds, events = select.poll(), select.POLLHUP | select.POLLERR
        for fd in place.bells:
            fds.register(fd, select.POLLIN)
        for fd in place.watched:
            fds.register(fd, events)
        timeout_ms = None if again_s is None else 1000 * again_s
        self._follow(_LINE, lambda: fds.poll(timeout_ms))
        return False

    def _clear(self, place: Place) -> None:
        """Have the shares cleared that dead holders have left."""
        if not place.left:
            return
        from launcher.schedulers.leftovers import Clearing

        self._clearing = self._clearing or Clearing()
        if pid := self._clearing.start(place.left):
            Thread(target=os.waitpid, args=(pid, 0), daemon=True).start()

    def _show_queued(self) -> None:
        """Other state folders see by the name of its container that it does not wait for others any more."""
        try:
            self._engine.rename(self._waiting.id, queued_name(self._app_id))
        except EngineUnreachable:
            raise
        except EngineError:  # gone, as its event reports, or the name is taken
            return

    def _next(self) -> tuple[Any, Any] | None:
        """What has happened; None when the attempt has ended by that."""
        item = self._queue.get()
        if isinstance(item, Exception):
            raise item
        if item[0] == _REMOVED:
            self._end_removed()
        elif item[0] == _CLIENT and not item[1]:
            return self._next()
        elif item[0] == _CLIENT:
            self._give_up("cancelled", item[1])
        else:
            return item
        return None

    def _follow(self, what: StoodOn | str, wait: Callable[[], object]) -> None:
        """Queue what `wait` returns, once it does."""

        def follow() -> None:
            try:
                self._queue.put((what, self._persist(wait)))
            except Exception as error:
                self._queue.put(error)

        Thread(target=follow, daemon=True).start()

    def _removed(self) -> None:
        """Wait until the container that stands for the app is gone."""
        with self._engine.events(f"{APP_ID}={self._app_id}") as events:
            if self._engine.inspect(self._waiting.id) is not None:
                for event in events:
                    if event.container_id == self._waiting.id and event.action == "destroy":
                        return

    def _persist(self, call: Callable[[], T]) -> T:
        """See `Patience.persist`."""
        return Patience(self._engine.host, holds=True).persist(call)

    # -- how it goes on ------------------------------------------------------------------------------------

    def _give_up(self, state: AttemptState, why: str) -> None:
        if not self._persist(partial(give_up.end, self._engine, self._waiting, state, why)):
            self._end_removed()

    def _end_removed(self) -> None:
        """Record the end of an attempt whose container is gone: what was decided, else `cancelled`."""
        read = partial(tombstones.read, self._engine, self._app_id)
        stone = self._persist(read)
        if stone is None:
            time.sleep(_LATE_S)
            others = self._persist(partial(list_containers, self._engine, self._app_id))
            stone = self._persist(read)
            if stone is None and others:
                return  # another client has taken it over
        state, message = (stone.outcome.state, stone.outcome.message) if stone else ("cancelled", GONE)
        self._persist(partial(give_up.record_end, self._engine, self._waiting, state, message))
        self._persist(partial(turn.forget, self._engine, self._app_id))

    def _is_started(self) -> bool:
        """Create the app; False when the attempt has ended instead."""
        try:
            return self._persist(self._start)
        except EngineUnreachable:
            raise
        except EngineError as error:  # for as long as an engine is waited for, too
            return self._fail(error)

    def _fail(self, error: SchedulerError) -> bool:
        why = str(error).partition("\n")[0]
        self._persist(partial(give_up.carry_out, self._engine, self._waiting, turn.ending("failed", why)))
        return False

    def _start(self) -> bool:
        """Create the app, unless another process has ended the attempt first. May be called again."""
        if not self._is_starting:
            decided = turn.decide(self._engine, self._waiting, turn.START)
            if turn.is_end(decided):
                give_up.carry_out(self._engine, self._waiting, decided)
                return False
            if decided != turn.START:
                self._end_removed()
                return False
            self._is_starting = True
        try:
            self._create()
        except SchedulerError as error:
            if isinstance(error, EngineError) and may_pass(error):
                raise
            self._engine.answer_anew()  # one that stops refuses for reasons of its own
            return self._fail(error)
        record.append(self._app_dir, "starting")
        return True

    def _create(self) -> None:
        from launcher.schedulers.docker import handover
        from launcher.schedulers.docker.containers import ContainerSetup

        if not self._is_created:
            for each in list_containers(self._engine, self._app_id):  # of a call that lost the engine
                if is_replica(each) and each.labels.get(OWNER) == self._labels[OWNER]:
                    self._engine.remove(each.id)
            setup = ContainerSetup(self._engine, None)
            labels: Mapping[str, str] = self._labels
            dealt: tuple[str, ...] = ()
            if self._place is not None:
                from launcher.schedulers.docker import share

                labels, dealt = {**labels, **share.label_of(self._place)}, self._place.dealt
            setup.create(handover.from_json(self._job), labels, {}, dealt)
            self._is_created = True
        self._engine.remove(self._waiting.id)
        turn.forget(self._engine, self._app_id)
