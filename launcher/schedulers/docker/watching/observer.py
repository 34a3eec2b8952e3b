"""Observe apps for their watcher: the one event stream, the events of each app, and its containers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from launcher.schedulers.docker import record
from launcher.schedulers.docker.app_logs import starts_of
from launcher.schedulers.docker.apps import list_containers
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineRefused, EngineSilent
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import Event, EventStream
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.facts import ENGINE_STOPPED, UNKNOWN_CODE, alone, why_lost
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.labels import APP_ID, Labels
from launcher.schedulers.docker.log_reader import shortly_before
from launcher.schedulers.docker.names import expected_replicas, is_replica
from launcher.schedulers.docker.watching.services import WatchingProcess
from launcher.schedulers.ended_process import TAIL_BYTES, last_line
from launcher.schedulers.logs import STDERR, LogsUnsupported
from launcher.specs.secret import SHORTEST_LITERAL, is_sensitive, reference_in

_LATE_S = 0.5  # how far the event of an end may lag behind `inspect`
_AGAIN_S = 1.0  # how long an engine may take from a stop to the start that it makes next
_DEADLY = ("2", "3", "9", "15")
_BY_SIGNAL = frozenset(128 + int(signal) for signal in _DEADLY)
_KILLED = 137
_SAID_LINES = 500  # how many lines of a log are read to find the last line of its stderr


class SharedStream:
    """Reads the events of the containers of all apps for a watcher, in the thread that calls `read`.

    Attributes:
        is_open: whether events from now on will be handed on.
        since: the time from which on each event is handed on; None before the first connection.
    """

    def __init__(self, engine: Engine, watcher: WatchingProcess) -> None:
        self.is_open = False
        self.since: float | None = None
        self._engine = engine
        self._watcher = watcher
        self._seen_until: float | None = None
        self._stream: EventStream | None = None
        self._patience = Patience(engine.host, holds=True)

    def read(self) -> None:
        """Read until the engine has been away for too long, as EngineUnreachable says."""
        self._patience.persist(self._connect)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _connect(self) -> None:
        """Read one connection to its end. It begins with all events since the last one."""
        if self.since is None:
            self.since = self._watcher.origin()
        since = self.since if self._seen_until is None else self._seen_until
        try:
            with self._engine.events(APP_ID, since=since) as events:
                self._stream = events
                self._engine.check_same()  # an empty one would show that all containers were removed
                self._patience.answered()
                self._open()
                for event in events:
                    self._seen_until = event.time
                    self._watcher.happened(event)
        except EngineSilent as error:
            if not self._engine.host.startswith("unix://"):  # its peer cannot vanish without an end
                self._close(error)
            raise
        except EngineError as error:
            self._close(error)
            raise

    def _open(self) -> None:
        if not self.is_open:
            self.is_open = True
            self._watcher.connected()

    def _close(self, error: EngineError) -> None:
        if self.is_open:
            self.is_open = False
            self._watcher.disconnected(error)


class EventQueue:
    """The engine's events about the app: filled by the reader of the stream, drained by each step of the app.

    Attributes:
        changed: containers with an event since they were last inspected.
        oom: containers with an out-of-memory event; a busy engine reports it in the event alone.
        stopped_externally: containers that another program stopped or killed, whose end is not recorded yet.
        stopped: those of them that the engine has stopped as `docker stop` does, whatever the exit code.
        killed: containers that got a signal which launcher did not send, since their last start.
        codes: container → exit code of its last end, None where the event does not say.
        by_itself: containers that ended without a signal, while the engine was up → time, exit code if known.
        watched: the engine has gone away, and this process has seen that.
        engine_started_at: see `EngineView.started_at`, read at the last connection.
        connected_at: the time from which each event arrives, epoch seconds.
        orphaned: the connection to the client that attached the app to itself has ended.
        closed: that client has closed the connection on purpose.
    """

    def __init__(self, app_dir: str) -> None:
        self.changed: set[str] = set()
        self.oom: set[str] = set()
        self.stopped_externally: set[str] = set()
        self.stopped: set[str] = set()
        self.killed: set[str] = set()
        self.codes: dict[str, int | None] = {}
        self.by_itself: dict[str, tuple[float, int | None]] = {}
        self.watched = False
        self.engine_started_at: float | None = None
        self.connected_at = 0.0
        self.orphaned = False
        self.closed = False
        self._app_dir = app_dir
        self._dead: set[str] = set()
        self._complete: set[str] = set()  # ended containers with all events of the end received
        self._queue: SimpleQueue[Event | EngineError] = SimpleQueue()
        self._past: set[tuple[float, str, str]] = set()  # the events before this process read the stream
        self._is_broken = False

    def put(self, item: Event | EngineError) -> None:
        """Queue an event, or the error that broke the stream. May be called from any thread."""
        self._queue.put(item)

    def replay(self, events: Iterable[Event]) -> None:
        """Take the events from before this process read the stream, ahead of the events that it has read."""
        for event in events:
            self._past.add((event.time, event.action, event.container_id))
            self._note(event)

    def connected(self, engine_started_at: float | None, at: float | None = None) -> None:
        """Note that the engine answers, for the first time or again, and that events arrive from `at` on."""
        self.engine_started_at = engine_started_at
        self.connected_at = time.time() if at is None else at

    def disconnected(self, error: Exception) -> None:
        """Note that the engine is away. Events of this connection count; those of the next one wait."""
        with suppress(Empty, EngineError):
            while not self._is_broken:
                self._apply(self._queue.get_nowait())
        self._is_broken = False
        self.watched = self.watched or not isinstance(error, EngineSilent)
        self._dead.clear()
        self._complete.clear()

    def drain(self) -> None:
        """Take all queued events. Raises the error that broke the stream."""
        with suppress(Empty):
            while True:
                self._apply(self._queue.get_nowait())

    def is_by_itself(self, ended: Container) -> bool:
        """Whether this run of the container ended without a signal, while the engine was up."""
        at, _ = self.by_itself.get(ended.id, (0.0, None))
        return bool(at) and at >= (ended.started_at or 0.0)

    def wait_for_cause(self, ended: Container) -> None:
        """Wait for the late events of an end: a signal from outside, or out of memory."""
        is_new = (ended.ended_at or 0.0) >= self.connected_at
        if ended.id in self._complete or not (is_new or ended.exit_code in _BY_SIGNAL):
            return
        self._complete.add(ended.id)
        now = time.time()
        self._wait_until(now + _LATE_S, lambda: ended.id in self._dead)
        is_clear = bool(ended.exit_code) and ended.id in self.stopped_externally
        if ended.id in self.killed and not is_clear:  # the event of a stop follows that of the end
            self._wait_until(now + _LATE_S, lambda: ended.id in self.stopped)
        if ended.exit_code == _KILLED and not ended.oom and ended.id not in self.stopped_externally:
            self._wait_until(min(now, ended.ended_at or now) + _LATE_S, lambda: ended.id in self.oom)

    def wait_for_start(self, container: str) -> None:
        """Wait a moment for the start that may follow the end of a container at once."""
        self._wait_until(time.time() + _AGAIN_S, lambda: container not in self._dead)

    def code_of_last_end(self, container: str) -> int | None:
        """The exit code of the run after which the engine restarted a container. Its event may be late."""
        self._wait_until(time.time() + _LATE_S, lambda: container in self.codes)
        return self.codes.get(container)

    def _wait_until(self, deadline: float, is_done: Callable[[], bool]) -> None:
        with suppress(Empty):
            while not is_done():
                self._apply(self._queue.get(timeout=max(0.0, deadline - time.time())))

    def _apply(self, item: Event | EngineError) -> None:
        if isinstance(item, Exception):
            self._is_broken = True
            raise item
        if (item.time, item.action, item.container_id) not in self._past:
            self._note(item)

    def _note(self, item: Event) -> None:
        container = item.container_id
        self.changed.add(container)
        if item.action in ("kill", "stop"):
            self._note_signal(item)
        elif item.action == "die":
            self._dead.add(container)
            self.codes[container] = _code_in(item)
            # A starting engine may report ends from before its start.
            if container not in self.killed and item.time >= (self.engine_started_at or 0.0):
                self.by_itself[container] = (item.time, _code_in(item))
        elif item.action == "oom":
            self.oom.add(container)
        elif item.action == "start":
            killed = (self.killed, self.stopped_externally, self.stopped)
            for ids in (self.oom, *killed, self._dead, self._complete):
                ids.discard(container)
            self.by_itself.pop(container, None)

    def _note_signal(self, event: Event) -> None:
        """Note a signal that launcher did not send. A kill is recorded: engine and watcher may be ending."""
        container, journal = event.container_id, record.journal(self._app_dir)
        if journal is not None and container in journal.app.stop_requested:
            return
        if event.action == "kill":
            self.killed.add(container)
            if journal is not None and journal.app.killed.get(container, 0.0) < event.time:
                record.append(self._app_dir, "kill", id=container, at=event.time)
        if event.action == "stop":
            self.stopped.add(container)
        if event.action == "stop" or event.attributes.get("signal") in _DEADLY:
            self.stopped_externally.add(container)


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
        """The containers of replicas, each inspected. Removed ones that the list has are left out."""
        listed = [each for each in list_containers(self._engine, self._app_id) if is_replica(each)]
        if listed and not self.expected_replicas:
            self.expected_replicas = expected_replicas(Labels(listed[0].labels))
        while self._events.changed:
            self._inspected.pop(self._events.changed.pop(), None)
        # The list lags behind the events of a moment ago, inspect does not.
        ask = [each.id for each in listed if each.id not in self._inspected]
        self._inspected.update((each.id, each) for each in self._engine.inspect_all(ask))
        return [self._inspected[each.id] for each in listed if each.id in self._inspected]

    def end_of(self, ended: Container, journal: Journal) -> Mapping[str, Any]:
        """The facts of an unrecorded end of a run, for which launcher did not ask.

        Raises EngineUnreachable where the engine may have ended the run.
        """
        events, start = self._events, ended.started_at
        if ended.id not in journal.app.stop_requested:
            events.wait_for_cause(ended)
        facts = dict(alone(ended))
        facts["oom"] = ended.oom or ended.id in events.oom
        if events.is_by_itself(ended) and (by_event := events.by_itself[ended.id][1]) is not None:
            facts["code"] = by_event
        lost = self._why_lost(ended, journal, facts["code"])
        # A program may go on after a signal, and succeed; an end at `docker stop` is not its own.
        stopped = events.stopped_externally if facts["code"] else events.stopped
        by_hand = ended.id in stopped or journal.app.was_stopped_by_hand(ended.id, start)
        events.stopped_externally.discard(ended.id)
        events.stopped.discard(ended.id)
        if lost:
            return {"code": None, "lost": lost}
        if by_hand:
            return {**facts, "hand": True}
        if facts["code"] and not facts["oom"] and ended.id not in journal.app.stop_requested:
            facts["said"] = said(self._engine, ended, journal)
        return facts

    def runs_again(self, ended: Container) -> bool:
        """Whether the engine starts the container again after its stop, as for `docker restart`."""
        self._events.wait_for_start(ended.id)
        now = self._engine.inspect(ended.id)  # an engine that is about to start it answers when it has
        return now is not None and (now.started_at or 0.0) > (ended.started_at or 0.0)

    def _why_lost(self, ended: Container, journal: Journal, code: int) -> str:
        """See `facts.why_lost`."""
        events, is_unknown = self._events, code == UNKNOWN_CODE
        is_killed = ended.id in events.killed
        if is_unknown or is_killed:
            self._engine.answer_anew()
        by_itself = events.is_by_itself(ended)
        is_killed = is_killed or journal.app.was_killed(ended.id, ended.started_at)
        is_unseen = events.watched and not (by_itself or is_killed)  # the run may have outlived the engine
        if is_unseen and is_unknown:
            return ENGINE_STOPPED
        by_itself = not is_unknown and (by_itself or (is_unseen and self._engine.keeps_containers()))
        now = self._engine.started_at()
        return why_lost(ended, journal.app, now, watched=events.watched, by_itself=by_itself)


def _code_in(die: Event) -> int | None:
    """The exit code in the event of an end, which an engine does not store if it is killed just then.

    None where the engine has missed the end, or does not report the code.
    """
    text = die.attributes.get("exitCode", "")
    return int(text) if text.isdecimal() and int(text) != UNKNOWN_CODE else None


# -- the last line of stderr, for the message of a failure -------------------------------------------------


def said(engine: Engine, ended: Container, journal: Journal) -> str:
    """The last line that the last run of a container wrote to stderr; "" where its log cannot be read.

    Raises EngineUnreachable.
    """
    try:
        tail, whole = _stderr(engine, ended, journal)
        return last_line(tail, _secrets(engine, ended), whole=whole) if tail else ""
    except EngineRefused:
        return ""


def _stderr(engine: Engine, ended: Container, journal: Journal) -> tuple[bytes, bool]:
    """The end of the container's stderr, and whether that is the whole stderr."""
    try:
        begun: float | None = starts_of(ended, journal)[-1][1]
    except (LogsUnsupported, IndexError):
        begun = None if ended.started_at is None else shortly_before(ended.started_at)
    since = None if begun is None else int(begun * 1e9)
    tail, count, size = b"", 0, 0
    with engine.log_frames(ended.id, since=since, tail=_SAID_LINES) as frames:
        for stream, payload in frames:  # both streams: the engine counts the lines of both
            count += 1
            if stream == STDERR:
                size += len(payload)
                tail = (tail + payload)[-TAIL_BYTES:]
    return tail, count < _SAID_LINES and size <= TAIL_BYTES


def _secrets(engine: Engine, ended: Container) -> tuple[str, ...]:
    """The values of the container's secrets, and of literals under names of secrets, from the engine."""
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
