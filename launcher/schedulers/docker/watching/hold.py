"""Hold an attempt that waits, in its watcher: until it creates the app, or gives the attempt up.

See `launcher.holding.waiting`. A thread for each thing that it waits for wakes this one.
"""

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
from launcher.holding.waiting import way_to_start
from launcher.schedulers.docker import apps, record, tombstones
from launcher.schedulers.docker.apps import list_containers
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineUnreachable, may_pass
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.labels import APP_ID, OWNER, SCHEDULER
from launcher.schedulers.docker.names import is_replica, queued_name
from launcher.schedulers.docker.record import RecordLock
from launcher.schedulers.docker.status import GONE
from launcher.schedulers.docker.watching import ends
from launcher.schedulers.docker.watching.waiting import wait_for_end
from launcher.schedulers.owner import this_process
from launcher.schedulers.registry import get_scheduler
from launcher.schedulers.staged import StagedScheduler
from launcher.schedulers.turns import Line
from launcher.specs import needs
from launcher.specs.attempt import Attempt, AttemptState
from launcher.specs.needs import StoodOn

if TYPE_CHECKING:
    from launcher.turns.table import Place

T = TypeVar("T")

_AGAIN_S = 1.0  # until a table that could not be written, or an attempt without a watcher, is looked at again
_MOST_MISSES = 10  # while an interrupted submission is resumed, an attempt has neither container nor record
_LATE_S = 2.0  # from the removal of the container by a client that takes the attempt over to its own
_REMOVED, _CLIENT, _NEXT = "removed", "client", "next"


class Hold:
    """Holds one app, in memory, while other attempts run, and while it is in line for its turn.

    Args:
        message: `job`, a `DockerJob` with all values, the `labels` of its containers, but for their owner,
            which this process is, the app as it is `declared`, its `needs`, and the ids of the containers
            `waiting`, which stands for the app, and `reservation`, "" for none.
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
        self._declared: dict[str, Any] = message["declared"]
        self._needs = needs.from_json(message["needs"])
        self._reservation: str = message["reservation"]
        self._waiting = Container(id=message["waiting"], name="", state="created", labels=self._labels)
        self._line = None if place is None else Line(place)
        self._queue: SimpleQueue[tuple[str, Any] | Exception] = SimpleQueue()
        self._is_accepted = False
        self._is_created = False

    def run(self) -> bool:
        """True when all containers exist and are to be started; False when the attempt has ended instead."""
        if self._reservation:
            self._engine.remove(self._reservation)
        recorded = record.read_attempt(self._app_dir)
        if recorded is not None:
            record.write_attempt(self._app_dir, {**recorded, "labels": self._labels})
        self._follow(_REMOVED, self._removed)
        way = way_to_start([each.job for each in self._needs], self)
        try:
            next(way)
            while (happened := self._next()) is not None:
                way.send(happened[1])
        except StopIteration as over:
            return bool(over.value) and bool(self._or_fail(self._create))
        return False

    def follow_client(self, wait: Callable[[], str]) -> None:
        """Cancel the app once `wait` returns the reason, if any: its client has ended."""
        self._follow(_CLIENT, wait)

    def _next(self) -> tuple[str, Any] | None:
        """Return the event that has happened; None when it has ended the attempt."""
        item = self._queue.get()
        if isinstance(item, Exception):
            raise item
        what, found = item
        if what == _REMOVED:
            self._end_removed()
        elif what == _NEXT:
            return item
        elif found:  # the client
            self._end("cancelled", found)
        else:
            return self._next()
        return None

    def _follow(self, what: str, wait: Callable[[], object]) -> None:
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

    # -- what the way asks for -----------------------------------------------------------------------------

    def note(self, kind: str, **fields: Any) -> None:
        record.append(self._app_dir, kind, **fields)

    def accept(self, kind: str, **fields: Any) -> bool:
        """Record that the app waits from here on, for which its client waits.

        False, with nothing left of it, when it was cancelled before that, or the disk is full.
        """
        is_recorded = record.begin(self._app_dir, self._declared, kind, **fields)
        if self._is_accepted:
            self._persist(self._show_queued)
            return True
        self._is_accepted = True
        if not is_recorded:
            self._engine.remove(self._waiting.id)
        return is_recorded

    def _show_queued(self) -> None:
        """Other state folders see by the name of its container that it does not wait for others any more."""
        try:
            self._engine.rename(self._waiting.id, queued_name(self._app_id))
        except EngineUnreachable:
            raise
        except EngineError:  # gone, as its event reports, or the name is taken
            return

    def follow_needs(self) -> None:
        for each in self._needs:
            self._follow(_NEXT, partial(_outcome, self._engine, each))

    def give_up(self, why: str) -> None:
        self._end("skipped", why)

    def has_share(self) -> bool:
        line = self._line
        if line is None or line.look():
            return True
        if line.clearer:
            Thread(target=os.waitpid, args=(line.clearer, 0), daemon=True).start()
        fds, events = select.poll(), select.POLLHUP | select.POLLERR
        for fd in line.place.bells:
            fds.register(fd, select.POLLIN)
        for fd in line.place.watched:
            fds.register(fd, events)
        timeout_ms = None if line.error is None else 1000 * _AGAIN_S
        self._follow(_NEXT, lambda: fds.poll(timeout_ms))
        return False

    def compare(self) -> bool:
        self._follow(_NEXT, partial(ends.changed_inputs, self._app_dir, self._labels))
        return True

    def decide(self) -> bool:
        decided = self._or_fail(partial(tombstones.decide, self._engine, self._waiting, tombstones.START))
        if decided is None or decided == tombstones.START:
            return decided is not None
        if tombstones.is_end(decided):
            self._persist(partial(ends.carry_out, self._engine, self._waiting, decided))
        else:
            self._end_removed()
        return False

    # -- how it goes on ------------------------------------------------------------------------------------

    def _end(self, state: AttemptState, why: str) -> None:
        if not self._persist(partial(ends.end, self._engine, self._waiting, state, why)):
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
        self._persist(partial(ends.record_unstarted, self._engine, self._waiting, state, message))
        self._persist(partial(tombstones.forget, self._engine, self._app_id))

    def _or_fail(self, call: Callable[[], T]) -> T | None:
        """Make a call, for as long as an engine is waited for; None where the attempt has failed by that."""
        try:
            return self._persist(call)
        except EngineUnreachable:
            raise
        except EngineError as error:
            self._fail(error)
            return None

    def _fail(self, error: SchedulerError) -> bool:
        why = str(error).partition("\n")[0]
        self._persist(partial(ends.carry_out, self._engine, self._waiting, tombstones.ending("failed", why)))
        return False

    def _create(self) -> bool:
        """Create the app; False when the attempt has failed by that. May be called again."""
        try:
            self._create_all()
        except SchedulerError as error:
            if isinstance(error, EngineError) and may_pass(error):
                raise
            self._engine.answer_anew()  # one that stops refuses for reasons of its own
            return self._fail(error)
        record.append(self._app_dir, "starting")
        return True

    def _create_all(self) -> None:
        from launcher.schedulers.docker.containers import ContainerSetup
        from launcher.schedulers.docker.request.job import DockerContainer, DockerJob

        if not self._is_created:
            for each in list_containers(self._engine, self._app_id):  # of a call that lost the engine
                if is_replica(each) and each.labels.get(OWNER) == self._labels[OWNER]:
                    self._engine.remove(each.id)
            setup = ContainerSetup(self._engine, None)
            labels: Mapping[str, str] = self._labels
            dealt: tuple[str, ...] = ()
            if self._line is not None:
                from launcher.schedulers.docker import share

                labels, dealt = {**labels, **share.label_of(self._line.place)}, self._line.place.dealt
            containers = [DockerContainer(**each) for each in self._job["containers"]]
            setup.create(DockerJob(**{**self._job, "containers": containers}), labels, {}, dealt)
            self._is_created = True
        self._engine.remove(self._waiting.id)
        tombstones.forget(self._engine, self._app_id)


def _outcome(engine: Engine, need: StoodOn) -> tuple[str, str]:
    """Block until a needed attempt has ended, also while it has no watcher: its job, and its state."""
    misses = 0
    while misses < _MOST_MISSES:
        found = _ended(engine, need)
        if found is not None and not found.is_live:
            return need.job, found.state
        misses = misses + 1 if found is None else 0
        time.sleep(_AGAIN_S)
    return need.job, "removed"


def _ended(engine: Engine, need: StoodOn) -> Attempt | None:
    if need.scheduler == SCHEDULER:
        app = wait_for_end(engine, need.app_id, None)
        return apps.attempt_of(app) if app is not None else None
    other = get_scheduler(need.scheduler, "")
    return other.ended_attempt(need.app_id) if isinstance(other, StagedScheduler) else None
