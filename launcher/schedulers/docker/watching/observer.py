"""Observe an app for its watcher: the events that wake it, and the current state of the containers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from launcher.schedulers.api import LogsUnsupported
from launcher.schedulers.docker import record
from launcher.schedulers.docker.app_logs import starts_of
from launcher.schedulers.docker.apps import list_containers
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineSilent, EngineUnreachable
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import Event, EventStream
from launcher.schedulers.docker.facts import alone, why_lost
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.log_reader import shortly_before
from launcher.schedulers.docker.names import expected_replicas, is_replica
from launcher.schedulers.last_line import TAIL_BYTES, last_line
from launcher.schedulers.logs import STDERR
from launcher.specs.secret import reference_in
from launcher.specs.sensitive import SHORTEST_LITERAL, is_sensitive

_LATE_S = 0.5  # by how much the event of an end may lag behind `inspect`
_DEADLY = ("2", "3", "9", "15")
_BY_SIGNAL = frozenset(128 + int(signal) for signal in _DEADLY)
_KILLED = 137
_SAID_LINES = 500  # how many lines of a log are read for the last one of its stderr
_UNKNOWN = 255  # also the code of an end that the engine has missed: it was stopping, or had been killed


class EventQueue:
    """The engine's events about the app: filled by the reader threads, drained by the watcher loop.

    Attributes:
        changed: containers with an event since they were last inspected.
        oom: containers with an out-of-memory event; a busy engine reports it in the event alone.
        stopped_externally: containers that another program stopped, whose end is not on record yet.
        killed: containers that got a signal which launcher did not send, since their last start.
        codes: container → exit code of its last end, None where the event does not say.
        by_itself: containers that ended without one, while the engine was up → time, and exit code if known.
        seen_until: time of the last event, by the engine's clock; None before the first.
        watched: the engine has gone away, and this process has seen it.
        engine_started_at: as of this connection, see `EngineView.started_at`.
        connected_at: when this connection was made, epoch seconds.
        orphaned: the connection to the client that attached the app to itself has ended.
        closed: that client has closed the connection on purpose.
    """

    def __init__(self, app_dir: str) -> None:
        self.changed: set[str] = set()
        self.oom: set[str] = set()
        self.stopped_externally: set[str] = set()
        self.killed: set[str] = set()
        self.codes: dict[str, int | None] = {}
        self.by_itself: dict[str, tuple[float, int | None]] = {}
        self.seen_until: float | None = None
        self.watched = False
        self.engine_started_at: float | None = None
        self.connected_at = 0.0
        self.orphaned = False
        self.closed = False
        self._app_dir = app_dir
        self._dead: set[str] = set()
        self._complete: set[str] = set()  # ended, and all events of the end were received
        self._queue: SimpleQueue[Event | Exception | None] = SimpleQueue()

    def read_events(self, events: EventStream) -> None:
        """Queue the engine's events until the stream breaks; the last item is the error that broke it."""
        queue = self._queue
        try:
            for event in events:
                if not event.action.startswith(("exec_", "health_status", "top", "attach")):
                    queue.put(event)
        except Exception as error:
            queue.put(error)

    def read_client(self, ops: Iterator[Mapping[str, Any]]) -> None:
        """Read the client's messages until the client ends, and wake the watcher then.

        A client that leaves does not end the app.
        """
        for message in ops:
            if message["op"] == "leave":
                return
            self.closed = self.closed or message["op"] == "close"
        self.orphaned = True
        self._queue.put(None)

    def wake(self) -> None:
        """Wake the watcher. May be called from any thread."""
        self._queue.put(None)

    def connected(self, engine_started_at: float | None) -> None:
        """Note that a connection was made."""
        self.engine_started_at, self.connected_at = engine_started_at, time.time()

    def disconnected(self, error: Exception) -> None:
        """Forget the connection. The next one begins with the events that came meanwhile."""
        self._drain()
        self.watched = self.watched or not isinstance(error, EngineSilent)
        self._dead.clear()
        self._complete.clear()
        self._queue = SimpleQueue()  # what still arrives on the last connection is dropped

    def _drain(self) -> None:
        """Apply the events that arrived before the connection broke."""
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return
            if isinstance(item, Event):
                self._apply(item)

    def wait(self, deadline: float | None) -> None:
        """Sleep until the next event, or until `deadline` (epoch seconds).

        Raises the error that broke the connection.
        """
        timeout_s = None if deadline is None else max(0.0, deadline - time.time())
        try:
            self._apply(self._queue.get(timeout=timeout_s))
            while True:
                self._apply(self._queue.get_nowait())
        except Empty:
            return

    def is_by_itself(self, ended: Container) -> bool:
        """Whether this run of the container ended without a signal, while the engine was up."""
        at, _ = self.by_itself.get(ended.id, (0.0, None))
        return bool(at) and at >= (ended.started_at or 0.0)

    def code_of_itself(self, ended: Container) -> int | None:
        """The exit code of such an end; None where no event had it."""
        return self.by_itself[ended.id][1] if self.is_by_itself(ended) else None

    def wait_for_cause(self, ended: Container) -> None:
        """Wait for the late events of an end: a signal from outside, or out of memory."""
        is_new = (ended.ended_at or 0.0) >= self.connected_at
        if ended.id in self._complete or not (is_new or ended.exit_code in _BY_SIGNAL):
            return
        self._complete.add(ended.id)
        now = time.time()
        self._wait_until(now + _LATE_S, lambda: ended.id in self._dead)
        if ended.exit_code == _KILLED and not ended.oom and ended.id not in self.stopped_externally:
            self._wait_until(min(now, ended.ended_at or now) + _LATE_S, lambda: ended.id in self.oom)

    def _wait_until(self, deadline: float, is_done: Callable[[], bool]) -> None:
        while not is_done():
            try:
                self._apply(self._queue.get(timeout=max(0.0, deadline - time.time())))
            except Empty:
                return

    def _apply(self, item: Event | Exception | None) -> None:
        if item is None:
            return
        if isinstance(item, Exception):
            raise item
        container = item.container_id
        self.changed.add(container)
        self.seen_until = item.time
        if item.action == "kill":
            self._note_kill(item)
        deadly = item.action == "kill" and item.attributes.get("signal") in _DEADLY
        if deadly or item.action == "stop":
            journal = record.journal(self._app_dir)
            if journal is None or container not in journal.app.stop_requested:
                self.stopped_externally.add(container)
        elif item.action == "die":
            self._dead.add(container)
            self.codes[container] = _code_in(item)
            # As it starts, an engine may report the ends of its last run.
            if container not in self.killed and item.time >= (self.engine_started_at or 0.0):
                self.by_itself[container] = (item.time, _code_in(item))
        elif item.action == "oom":
            self.oom.add(container)
        elif item.action == "start":
            for ids in (self.oom, self.stopped_externally, self._dead, self._complete):
                ids.discard(container)
            self.killed.discard(container)
            self.by_itself.pop(container, None)

    def _note_kill(self, event: Event) -> None:
        """Record a signal that is not ours: the engine may be stopping, and this process may be killed."""
        journal = record.journal(self._app_dir)
        if journal is None or event.container_id not in journal.app.stop_requested:
            self.killed.add(event.container_id)
            if journal is not None and journal.app.killed.get(event.container_id, 0.0) < event.time:
                record.append(self._app_dir, "kill", id=event.container_id, at=event.time)


class AppObserver:
    """The containers of one app: those with an event since the last inspect are inspected again."""

    def __init__(self, engine: Engine, app_id: str, events: EventQueue) -> None:
        self.expected_replicas: list[tuple[str, int]] = []
        self._engine = engine
        self._app_id = app_id
        self._events = events
        self._inspected: dict[str, Container] = {}

    def invalidate(self) -> None:
        """Inspect every container again next time."""
        self._inspected.clear()

    def containers(self) -> list[Container]:
        """The containers of replicas, each inspected."""
        listed = [each for each in list_containers(self._engine, self._app_id) if is_replica(each)]
        if listed and not self.expected_replicas:
            self.expected_replicas = expected_replicas(Labels(listed[0].labels))
        while self._events.changed:
            self._inspected.pop(self._events.changed.pop(), None)
        # The list lags behind the events of a moment ago, inspect does not.
        ask = [each.id for each in listed if each.id not in self._inspected]
        self._inspected.update((each.id, each) for each in self._engine.inspect_all(ask))
        return [self._inspected.get(each.id, each) for each in listed]

    def end_of(self, ended: Container, journal: Journal) -> Mapping[str, Any]:
        """The facts of the end of a run that is not on record, and for which launcher did not ask.

        Raises EngineUnreachable where the engine may be what ended it.
        """
        events, start = self._events, ended.started_at
        if ended.id not in journal.app.stop_requested:
            events.wait_for_cause(ended)
        facts = dict(alone(ended))
        facts["oom"] = ended.oom or ended.id in events.oom
        if (by_event := events.code_of_itself(ended)) is not None:
            facts["code"] = by_event
        lost = self._why_lost(ended, journal, facts["code"])
        by_hand = ended.id in events.stopped_externally or journal.app.was_stopped_by_hand(ended.id, start)
        events.stopped_externally.discard(ended.id)
        if lost:
            return {"code": None, "lost": lost}
        if by_hand:
            return {**facts, "hand": True}
        if facts["code"] and not facts["oom"] and ended.id not in journal.app.stop_requested:
            facts["said"] = said(self._engine, ended, journal)
        return facts

    def _why_lost(self, ended: Container, journal: Journal, code: int) -> str:
        """See `facts.why_lost`."""
        is_unknown = code == _UNKNOWN
        if is_unknown or ended.id in self._events.killed:
            self._engine.answer_anew()
        return why_lost(
            ended,
            journal.app,
            self._engine.started_at(),
            watched=self._events.watched,
            by_itself=not is_unknown and (self._events.is_by_itself(ended) or self._ran_on(ended, journal)),
        )

    def _ran_on(self, ended: Container, journal: Journal) -> bool:
        """Whether the engine was away, and has let this run go on until it ended."""
        events = self._events
        is_killed = ended.id in events.killed or journal.app.was_killed(ended.id, ended.started_at)
        return events.watched and not is_killed and self._engine.keeps_containers()


def _code_in(die: Event) -> int | None:
    """The exit code in the event of an end, which an engine that is killed just then does not note.

    None where it has missed the end, or does not say.
    """
    text = die.attributes.get("exitCode", "")
    return int(text) if text.isdecimal() and int(text) != _UNKNOWN else None


# -- the last line of stderr, for the message of a failure -------------------------------------------------


def said(engine: Engine, ended: Container, journal: Journal) -> str:
    """The last line that the last run of a container wrote to stderr; "" where its log cannot be read.

    Raises EngineUnreachable.
    """
    try:
        tail, whole = _stderr(engine, ended, journal)
        return last_line(tail, _secrets(engine, ended), whole=whole) if tail else ""
    except EngineUnreachable:
        raise
    except EngineError:
        return ""


def _stderr(engine: Engine, ended: Container, journal: Journal) -> tuple[bytes, bool]:
    """The end of the container's stderr, and whether that is all of it."""
    since = None if (begun := _begun(ended, journal)) is None else int(begun * 1e9)
    tail, count, size = b"", 0, 0
    with engine.log_frames(ended.id, since=since, tail=_SAID_LINES, tty=ended.tty) as frames:
        for stream, payload in frames:  # both streams: the engine counts the lines of both
            count += 1
            if stream == STDERR:
                size += len(payload)
                tail = (tail + payload)[-TAIL_BYTES:]
    return tail, count < _SAID_LINES and size <= TAIL_BYTES


def _begun(ended: Container, journal: Journal) -> float | None:
    try:
        return starts_of(ended, journal)[-1][1]
    except (LogsUnsupported, IndexError):
        return None if ended.started_at is None else shortly_before(ended.started_at)


def _secrets(engine: Engine, ended: Container) -> tuple[str, ...]:
    """The values of its secrets, and of literals under names of secrets, as the engine keeps them."""
    names = {
        name
        for role in Labels(ended.labels).document.get("roles", ())
        for name, value in (role.get("env") or {}).items()
        if reference_in(value)
    }
    return tuple(
        value
        for name, value in engine.environment(ended.id).items()
        if name in names or (len(value) >= SHORTEST_LITERAL and is_sensitive(name))
    )
