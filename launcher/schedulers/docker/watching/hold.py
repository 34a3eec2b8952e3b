"""Hold an attempt that waits, in its watcher, until it creates the app, or gives the attempt up.

See `launcher.holding.way`. Between two steps no thread waits for it. Each attempt that held apps need is
followed once, for all apps of the watcher.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from launcher.dataclass import replace
from launcher.errors import SchedulerError, StateError
from launcher.holding.events import cancelled
from launcher.holding.way import way_to_start
from launcher.schedulers.docker import apps, record, tombstones
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineRefused, may_pass
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import Event
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.labels import (
    HOLDER,
    IMAGES,
    OWNER,
    PART,
    SCHEDULER,
    WAITING_PART,
    WAITS_FOR,
    not_inherited,
)
from launcher.schedulers.docker.names import RUNS_NOTHING, is_replica, queued_name, waiting_name
from launcher.schedulers.docker.record import RecordLock
from launcher.schedulers.docker.status import GONE
from launcher.schedulers.docker.watching import ends
from launcher.schedulers.docker.watching.services import OnEnd, Rest, WatchingProcess
from launcher.schedulers.docker.watching.waiting import look_for_end
from launcher.schedulers.leftovers import Line
from launcher.schedulers.owner import this_process
from launcher.schedulers.registry import get_scheduler
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.attempt import Attempt, AttemptState, StoodOn, needs_from_json, needs_to_json

if TYPE_CHECKING:
    from launcher.turns.table import Place

T = TypeVar("T")

_AGAIN_S = 1.0  # time between two looks at a table that could not be written
_LOOK_S = 1.0  # time between two looks at an attempt without a watcher
_MOST_MISSES = 10  # while an interrupted submission is resumed, an attempt has neither container nor record


class Hold:
    """Holds one app in memory while it waits for other attempts or for its turn.

    Args:
        message: `job`, a `DockerJob` with all values; the `labels` of its containers, without their owner,
            which this process is; the event `declared`; its `needs`; and the id of the container
            `reservation`, "" for none.
        place: the app's place among the apps that share the machine; None for an app that takes no turn.
        wake: schedules another call of `step`. May be called from any thread.
    """

    def __init__(
        self,
        process: WatchingProcess,
        lock: RecordLock,
        app_id: str,
        message: Mapping[str, Any],
        place: Place | None,
        wake: Callable[[], None],
    ) -> None:
        self._process = process
        self._engine: Engine = process.engine
        self._app_dir = lock.app_dir
        self._app_id = app_id
        self._job: Mapping[str, Any] = message["job"]
        self._given_labels: Mapping[str, str] = message["labels"]
        self._labels: Mapping[str, str] = {**self._given_labels, OWNER: this_process().to_json()}
        self._declared: dict[str, Any] = message["declared"]
        self._needs = needs_from_json(message["needs"])
        self._reservation: str = message["reservation"]
        self._waiting = Container(id="", name="", state="created", labels=self._labels)
        self._line = None if place is None else Line(place)
        self._wake = wake
        self._way = way_to_start([each.job for each in self._needs], self)
        self._happened: SimpleQueue[Any] = SimpleQueue()
        self._is_begun = False
        self._is_in_line = False
        self._is_removed = False
        self._is_accepted = False
        self._is_created = False

    def step(self, orphaned: str = "") -> Rest | bool:
        """Go on as far as possible: True when all containers exist and are to be started, False at its end.

        Args:
            orphaned: the reason to cancel the app, whose client has ended; "" for an app that goes on.
        """
        looks, self._is_in_line = self._is_in_line, False  # in line, each step is a reason to look again
        try:
            if not self._is_begun:
                if not self._begin():
                    return False
                next(self._way)
            while not (self._is_removed or orphaned):
                if not self._happened.empty():
                    happened = self._happened.get_nowait()
                    if isinstance(happened, Exception):
                        raise happened
                    self._way.send(happened)
                elif looks:
                    looks = False
                    self._way.send(None)
                else:
                    return self._rest()
        except StopIteration as over:
            return bool(over.value) and bool(self._or_fail(self._create))
        if self._is_removed:
            self._end_removed()
        else:
            self._end("cancelled", orphaned)
        return False

    def take(self, event: Event) -> None:
        """Take an event of the app's containers."""
        if event.container_id == self._waiting.id and event.action == "destroy":
            self._is_removed = True

    def look(self) -> None:
        """Look for the container that represents the app: the event of its removal may have been missed."""
        if self._is_begun and self._persist(partial(self._engine.inspect, self._waiting.id)) is None:
            self._is_removed = True

    def _begin(self) -> bool:
        """Make the container that represents the app; False where the engine refuses that.

        The container names this process as the holder, so no other one makes it: a container of a client that
        was killed might come late, when this process has removed all others of the app.
        """
        images = list(dict.fromkeys(each["image"] for each in self._job["containers"]))
        about = {HOLDER: this_process().to_json(), PART: WAITING_PART, IMAGES: json.dumps(images)}
        about[WAITS_FOR] = json.dumps(needs_to_json(self._needs))
        image = self._persist(partial(self._engine.image, images[0]))
        labels = not_inherited(image.labels if image else {}, {**self._given_labels, **about})
        body = {"Image": images[0], **RUNS_NOTHING, "Labels": labels}
        name_of = waiting_name if self._needs else queued_name
        try:
            made = self._engine.create(name_of(self._app_id), body)
        except EngineRefused as error:
            record.note_failure(self._app_dir, f"{error}\n")
            return False
        self._waiting = replace(self._waiting, id=made)
        self._is_begun = True
        if self._reservation:
            self._engine.remove(self._reservation)
        recorded = record.read_attempt(self._app_dir)
        if recorded is not None:
            record.write_attempt(self._app_dir, {**recorded, "labels": self._labels})
        return True

    def _add(self, happened: object) -> None:
        self._happened.put(happened)
        self._wake()

    def _rest(self) -> Rest:
        line = self._line
        if line is None or not self._is_in_line:
            return Rest()
        return Rest(None if line.error is None else _AGAIN_S, line.place.bells, line.place.watched)

    def _persist(self, call: Callable[[], T]) -> T:
        """See `Patience.persist`."""
        return Patience(self._engine.host, holds=True).persist(call)

    # -- the methods of `way.Holder` -----------------------------------------------------------------------

    def note(self, kind: str, **fields: Any) -> None:
        record.append(self._app_dir, kind, **fields)

    def accept(self, kind: str, **fields: Any) -> bool:
        """Record that the app waits: its client waits for that record.

        False, with nothing left of the app, when it was cancelled before, or the disk is full.
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
        """Rename the container, by which other state folders see that the app no longer waits for others."""
        try:
            self._engine.rename(self._waiting.id, queued_name(self._app_id))
        except EngineRefused:  # the container is gone, as its event reports, or the name is taken
            return

    def follow_needs(self) -> None:
        for each in self._needs:
            self._process.follow_need(each, self._add)

    def ends_of_needs(self) -> dict[str, str]:
        return {each.job: self._persist(partial(end_of, self._engine, each)) for each in self._needs}

    def give_up(self, why: str) -> None:
        self._end("skipped", why)

    def has_share(self) -> bool:
        line = self._line
        if line is None or line.look():
            return True
        if line.clearer:
            self._process.submit(partial(os.waitpid, line.clearer, 0))
        self._is_in_line = True
        return False

    def compare(self) -> bool:
        self._process.submit(self._compare)
        return True

    def _compare(self) -> None:
        try:
            self._add(self._persist(partial(ends.changed_inputs, self._app_dir, self._labels)))
        except Exception as error:
            self._add(error)

    def decide(self) -> bool:
        decided = self._or_fail(partial(tombstones.decide, self._engine, self._waiting, tombstones.START))
        if decided is None or decided == tombstones.START:
            return decided is not None
        if tombstones.is_end(decided):
            self._persist(partial(ends.carry_out, self._engine, self._waiting, decided))
        else:
            self._end_removed()
        return False

    # -- the next step -------------------------------------------------------------------------------------

    def _end(self, state: AttemptState, why: str) -> None:
        if not self._persist(partial(ends.end, self._engine, self._waiting, state, why)):
            self._end_removed()

    def _end_removed(self) -> None:
        """Record the end of an attempt whose container is gone: the decided end, else `cancelled`."""
        stone = self._persist(partial(tombstones.read, self._engine, self._app_id))
        if stone is None and self._persist(self._is_taken_over):
            return
        state, message = (stone.outcome.state, stone.outcome.message) if stone else ("cancelled", GONE)
        self._persist(partial(ends.record_unstarted, self._engine, self._waiting, state, message))
        self._persist(partial(tombstones.forget, self._engine, self._waiting))

    def _is_taken_over(self) -> bool:
        """Whether another client submits the attempt again, or has done so."""
        return tombstones.is_resumed(self._engine, self._waiting) or bool(
            apps.list_containers(self._engine, self._app_id)
        )

    def _or_fail(self, call: Callable[[], T]) -> T | None:
        """Make a call, repeated while the engine is away; None where a final error has failed the attempt."""
        try:
            return self._persist(call)
        except EngineRefused as error:
            self._fail(error)
            return None

    def _fail(self, error: SchedulerError) -> bool:
        return self._give_up("failed", str(error).partition("\n")[0])

    def _give_up(self, state: AttemptState, why: str) -> bool:
        """End the attempt although its start was decided: nothing of it was started. Returns False."""
        self._persist(partial(ends.carry_out, self._engine, self._waiting, tombstones.ending(state, why)))
        return False

    def _create(self) -> bool:
        """Create the app; False when that failed or was cancelled, and the attempt with it.

        May be called again, after an error that may pass.
        """
        try:
            if not self._is_created:
                self._remove_left()
                journal = record.journal(self._app_dir)
                if journal is not None and journal.app.cancel is not None:
                    return self._give_up("cancelled", cancelled(journal.app.cancel))
            self._create_all()
        except SchedulerError as error:
            if isinstance(error, EngineError) and may_pass(error):
                raise
            self._engine.answer_anew()  # a stopping engine refuses for reasons of its own
            return self._fail(error)
        record.append(self._app_dir, "starting")
        return True

    def _remove_left(self) -> None:
        """Remove the containers that a call which lost the engine may have left."""
        for each in apps.list_containers(self._engine, self._app_id):
            if is_replica(each) and each.labels.get(OWNER) == self._labels[OWNER]:
                self._engine.remove(each.id)

    def _create_all(self) -> None:
        from launcher.schedulers.docker.containers import ContainerSetup
        from launcher.schedulers.docker.job import DockerContainer, DockerJob

        if not self._is_created:
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
        tombstones.forget(self._engine, self._waiting)


# -- needs -------------------------------------------------------------------------------------------------


class Needs:
    """The attempts that the held apps of one watcher need. All methods are called in the loop of the process.

    A need of this scheduler is looked at after each event of its containers, without a waiting thread. For
    each need of another scheduler, one thread waits.
    """

    def __init__(self, engine: Engine, process: WatchingProcess) -> None:
        self._engine = engine
        self._process = process
        self._followed: dict[tuple[str, str], _Need] = {}

    def follow(self, need: StoodOn, on_end: OnEnd) -> None:
        """Call `on_end` once the attempt has ended."""
        key = need.scheduler, need.app_id
        if key not in self._followed:
            forget = partial(self._followed.pop, key, None)
            self._followed[key] = _Need(self._engine, self._process, need, forget)
        found = self._followed[key]
        found.waiting.append((need.job, on_end))
        found.look()

    def happened(self, app_id: str) -> None:
        """Look at an app with a new event, if the app is needed."""
        if (found := self._followed.get((SCHEDULER, app_id))) is not None:
            found.look()

    def look(self) -> None:
        """Look at all needs: events may have been missed."""
        for each in self._followed.values():
            each.look()


class _Need:
    """A needed attempt, and the apps that wait for it, each with its own name for the attempt's job."""

    def __init__(
        self, engine: Engine, process: WatchingProcess, need: StoodOn, forget: Callable[[], object]
    ) -> None:
        self.waiting: list[tuple[str, OnEnd]] = []
        self._engine = engine
        self._process = process
        self._need = need
        self._forget = forget
        self._is_looking = False
        self._is_due = False
        self._misses = 0

    def look(self) -> None:
        if self._is_looking:
            self._is_due = True
        else:
            self._is_looking = True
            if self._need.scheduler == SCHEDULER:
                self._process.submit(self._read)
            else:  # wait in a thread for as long as that app runs
                Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            persist = Patience(self._engine.host, holds=True).persist
            found: Any = persist(partial(ended, self._engine, self._need))
        except Exception as error:
            found = error
        self._process.post(partial(self._seen, found))

    def _seen(self, found: Attempt | Exception | None) -> None:
        self._is_looking, is_due, self._is_due = False, self._is_due, False
        self._misses = self._misses + 1 if found is None else 0
        if isinstance(found, Exception):
            self._report(found)
        elif found is not None and not found.is_live:
            self._report(found.state)
        elif self._misses >= _MOST_MISSES:
            self._report("removed")
        elif is_due:
            self.look()
        elif found is None or self._need.scheduler != SCHEDULER:
            self._process.post(self.look, _LOOK_S)

    def _report(self, result: str | Exception) -> None:
        self._forget()
        for job, on_end in self.waiting:
            on_end(result if isinstance(result, Exception) else (job, result))


def ended(engine: Engine, need: StoodOn) -> Attempt | None:
    """The needed attempt, ended or not; None where nothing is left of it.

    It waits for an attempt of another scheduler to end, and for watchers that are about to record an end.
    """
    if need.scheduler != SCHEDULER:
        other = get_scheduler(need.scheduler, "")
        return other.ended_attempt(need.app_id) if isinstance(other, StagedScheduler) else None
    while (app := look_for_end(engine, need.app_id)) is not None:
        attempt = apps.attempt_of(app)
        if attempt is None or not attempt.is_live or not (app.view.ended or app.paused_by):
            return attempt
        time.sleep(_LOOK_S)
    return None


def end_of(engine: Engine, need: StoodOn) -> str:
    """The state in which the needed attempt has ended, as far as it can be seen now; "" before."""
    found = None
    if need.scheduler == SCHEDULER:
        app = apps.find(engine, need.app_id)
        found = None if app is None else apps.attempt_of(app)
    elif isinstance(other := get_scheduler(need.scheduler, ""), StagedScheduler):
        with suppress(SchedulerError, StateError):
            found = other.attempt(need.app_id)
    return "" if found is None or found.is_live else found.state
