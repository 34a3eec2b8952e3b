"""Read one container's log with times; each read continues after the last read.

The engine ends a followed log with the run of the container, even if the container is started again. So a
follower waits for the next event, and continues after the last record that it has read. All followers of an
app share one event stream, `FollowedApp`.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable, Iterator
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Any

from launcher.errors import SchedulerError
from launcher.schedulers.docker.client.errors import Conflict, EngineError, NotFound, may_pass
from launcher.schedulers.docker.client.streams import Event, EventStream, LogStream
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.labels import APP_ID
from launcher.schedulers.logs import RESTART, LogPart, LogRecord

if TYPE_CHECKING:
    from launcher.schedulers.docker.client.objects import Container


# A process may print before the engine records its start; a restart takes longer than this.
_EARLY_S = 0.1
_SECONDS = len("2026-01-02T03:04:05")
_STAMP = len("2026-01-02T03:04:05.123456789Z ")


def shortly_before(started_at: float) -> float:
    """See `begun` of `LogReader`: the best known time for a start that the engine made by itself."""
    return started_at - _EARLY_S


class LogsGone(SchedulerError):
    """The log was removed with its container."""


def gone(what: str) -> LogsGone:
    return LogsGone(f"the log of {what} was removed with its container")


def open_log(engine: EngineView, container: str, part: LogPart, **how: Any) -> LogStream:
    """See `EngineView.log_frames`. Raises LogsGone for a container that was removed, or is being removed."""
    try:
        return engine.log_frames(container, part, **how)
    except (NotFound, Conflict):
        raise gone(container[:12]) from None


class LogReader:
    """Reads one container's log. May be closed from any thread, which ends the read.

    Args:
        marks: whether restarts are marked, which takes one more request for each read.
        begun: the engine's start time of a run → a time before the first output of that run, and after the
            last output of the run before it; both in epoch seconds.
    """

    def __init__(
        self,
        engine: EngineView,
        container: str,
        part: LogPart,
        *,
        marks: bool = True,
        begun: Callable[[float], float] = shortly_before,
    ) -> None:
        self._engine = engine
        self._container = container
        self._part = part
        self._marked = marks
        self._begun = begun
        self._latest_ns = 0
        self._of_latest = 0  # number of records of that time, which the engine sends again
        self._started_at: float | None = None
        self._starts: list[int] = []  # starts without a record yet
        self._whole = False  # all output before the latest known start was read
        self._ahead = False  # a restart was marked before the engine had recorded it
        self._open: LogStream | None = None
        self._followed: FollowedApp | None = None
        self._closed = False

    def close(self) -> None:
        self._closed = True
        if self._open is not None:
            self._open.close()
        if self._followed is not None:
            self._followed.wake()

    def follow(self, followed: FollowedApp) -> Iterator[LogRecord]:
        """Yield records as they come, until the app is over or a record is later than `until`."""
        self._followed = followed
        patience = Patience(
            self._engine.host, sleep=lambda seconds: followed.pause(seconds, lambda: self._closed)
        )
        patience.persist(followed.begin)
        while not self._closed:
            # Checked before the read, which then returns all output.
            is_past = self._part.until is not None and time.time() > self._part.until
            last = followed.over or is_past
            starts = followed.starts(self._container)
            whole = not starts and self._container in followed.ended_before
            try:
                yield from self.read(follow=not (last or whole))
            except EngineError as error:
                if not self._closed:
                    patience.wait(error)
                continue
            patience.answered()
            if last or self._closed:
                return
            happened = followed.wait(
                self._container, starts, until=self._part.until, is_closed=lambda: self._closed
            )
            if happened == "removal":
                raise gone(self._container[:12])
            if happened is None and whole:
                return  # the container had ended before the first read

    def read(self, *, follow: bool = False) -> Iterator[LogRecord]:
        """Yield the unread records; with `follow`, until this run of the container ends."""
        had_ended = self._marked and self._check_start()
        resumed_ns, again = self._latest_ns, self._of_latest
        stream = open_log(
            self._engine, self._container, self._part, since=resumed_ns, follow=follow, timestamps=True
        )
        self._open = stream
        if self._closed:  # another thread closed it meanwhile
            stream.close()
        with stream:
            for name, payload in stream:
                time_ns, data = split_timestamp(payload)
                if again and time_ns == resumed_ns:
                    again -= 1
                    continue
                if self._whole:
                    yield from self._mark_next_run(time_ns)
                elif self._starts and time_ns >= self._starts[0]:
                    yield from self._marks(time_ns)
                if time_ns > self._latest_ns:
                    self._latest_ns, self._of_latest = time_ns, 0
                self._of_latest += time_ns == self._latest_ns
                yield LogRecord(time_ns, name, data)
        self._whole = self._marked and (had_ended or follow) and not self._closed

    def _check_start(self) -> bool:
        """Read when the container was started; returns whether that run has ended."""
        found = self._engine.inspect(self._container)
        if found is None or found.started_at is None:
            return False
        # For a short run, the engine may report an earlier time after its end.
        if self._started_at is None or found.started_at > self._started_at:
            self._started_at = found.started_at
            if not self._ahead:
                self._starts.append(int(self._begun(found.started_at) * 1e9))
            self._ahead = False
        return found.ended

    def _mark_next_run(self, time_ns: int) -> Iterator[LogRecord]:
        """Mark the first record after all output of earlier runs, whenever the engine records the start.

        On a loaded machine that can be long after the first output.
        """
        self._whole = False
        if self._starts:
            yield from self._marks(max(time_ns, self._starts[-1]))
        elif self._latest_ns:
            self._ahead = True
            yield LogRecord(time_ns, RESTART, b"")

    def _marks(self, time_ns: int) -> Iterator[LogRecord]:
        """A mark for each start since the last record; the first start is no restart."""
        while self._starts and time_ns >= self._starts[0]:
            start_ns = self._starts.pop(0)
            if self._latest_ns:
                yield LogRecord(start_ns, RESTART, b"")


_seen: tuple[bytes, int] = (b"", 0)


def split_timestamp(payload: bytes) -> tuple[int, bytes]:
    """Nanoseconds since the epoch, and the text after the time that the engine puts in front of each line.

    Raises EngineError for a line without a time: that is an error of the engine, not a part of the log.
    """
    global _seen
    text, epoch = _seen
    try:
        if payload[:_SECONDS] != text:  # most lines are of the same second as the line before
            day, hour = payload[:_SECONDS].split(b"T")
            epoch = calendar.timegm((*map(int, day.split(b"-")), *map(int, hour.split(b":"))))
            _seen = payload[:_SECONDS], epoch
        return epoch * 10**9 + int(payload[_SECONDS + 1 : _STAMP - 2]), payload[_STAMP:]
    except (ValueError, TypeError):
        said = payload.decode("utf-8", "replace").strip()
        raise EngineError(f"the engine cannot read on in the log: {said}") from None


_FIRST_CHECK_S, _LAST_CHECK_S = 1.0, 30.0
_LEAVE_S = 2.0


class FollowedApp:
    """An app whose logs are followed, by any number of readers in any threads.

    One connection receives the events of its containers, and one check of the app's end serves all readers:
    when no container runs any more, and periodically, since the watcher's records cause no event.

    Args:
        is_over: returns whether the app has ended, so that no more output follows.

    Attributes:
        over: the last check has found that the app has ended.
        ended_before: containers that had ended before `begin`: all output of this run can be read.
    """

    def __init__(self, engine: EngineView, app_id: str, is_over: Callable[[], bool]) -> None:
        self._engine = engine
        self._app_id = app_id
        self._is_over = is_over
        self._changed = Condition()
        self._begun = Lock()
        self._events: EventStream | None = None
        self._listener: Thread | None = None
        self.over = False
        self._closed = False
        self._error: EngineError | None = None
        self.ended_before: frozenset[str] = frozenset()
        self._known: set[str] = set()
        self._live: set[str] = set()
        self._removed: set[str] = set()
        self._starts: dict[str, int] = {}
        self._pause_s = _FIRST_CHECK_S
        self._next_check = 0.0

    def begin(self) -> None:
        """Subscribe to events, and read the app. Every reader calls it first; the first call does it."""
        with self._begun:
            if self._listener is not None or self.over or self._closed:
                return
            events, found = self._subscribe()
            self.ended_before = frozenset(each.id for each in found if each.ended)
            if self.over:
                events.close()
                return
            self._next_check = time.monotonic() + self._pause_s
            self._listener = Thread(target=self._listen, args=(events,), daemon=True)
            self._listener.start()

    def _subscribe(self) -> tuple[EventStream, list[Container]]:
        """Subscribe to events, and read the containers; live ones may have started unnoticed."""
        events = self._engine.events(f"{APP_ID}={self._app_id}")
        try:
            found = self._engine.containers(f"{APP_ID}={self._app_id}")  # subscribed first: nothing is missed
            live = {each.id for each in found if each.live}
            over = not live and self._is_over()
        except BaseException:
            events.close()
            raise
        with self._changed:
            again = self._events is not None
            self._removed.update(self._known.difference(each.id for each in found))
            self._known.update(each.id for each in found)
            for container in live if again else ():
                self._starts[container] = self.starts(container) + 1
            self._live, self.over, self._events = live, over, events
            self._changed.notify_all()
        if self._closed:
            events.close()
        return events, found

    def starts(self, container: str) -> int:
        """The number of starts of a container since `begin`."""
        return self._starts.get(container, 0)

    def wait(
        self, container: str, starts: int, *, until: float | None, is_closed: Callable[[], bool]
    ) -> str | None:
        """Wait for the app's end (None), or the container's next start or removal ("start", "removal").

        Args:
            starts: the number of starts of the container before its log was read.
            until: epoch seconds; the wait ends then at the latest.

        Raises EngineError when the event stream has failed, and could not be reopened for long.
        """
        while True:
            with self._changed:
                if self._error is not None:
                    raise self._error
                if self.starts(container) != starts:
                    return "start"
                if self.over or self._closed or is_closed() or (until is not None and time.time() > until):
                    return None
                if container in self._removed:
                    return "removal"
                left_s = self._next_check - time.monotonic()
                if left_s > 0:
                    rest_s = left_s if until is None else min(left_s, max(0.0, until - time.time()) + 0.001)
                    self._changed.wait(rest_s)
                    continue
                self._next_check += _LAST_CHECK_S  # this thread checks, the others wait
            self._check_end()

    def wake(self) -> None:
        """Wake the waiting readers, so that closed ones end."""
        with self._changed:
            self._changed.notify_all()

    def pause(self, seconds: float, is_closed: Callable[[], bool] = lambda: False) -> None:
        """Sleep, until the app or the reader is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or is_closed(), seconds)

    def close(self) -> None:
        """Close the event stream, and end the wait of every reader."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with self._begun:
            if self._events is not None:
                self._events.close()
            if self._listener is not None:
                self._listener.join(_LEAVE_S)

    def _listen(self, events: EventStream) -> None:
        patience = Patience(self._engine.host, sleep=self.pause)
        try:
            while not (self.over or self._closed):
                try:
                    for event in events:
                        if self._apply(event):
                            self._pause_s = _FIRST_CHECK_S
                            self._check_end()
                    return
                except EngineError as error:
                    patience.wait(error)
                if not self._closed:
                    events, _ = patience.persist(self._subscribe)
        except EngineError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _apply(self, event: Event) -> bool:
        """Apply an event. Returns whether the event may be the end of the app."""
        container = event.container_id
        with self._changed:
            if event.action == "start":
                self._live.add(container)
                self._starts[container] = self.starts(container) + 1
            elif event.action in ("die", "destroy"):
                self._live.discard(container)
                if event.action == "destroy":
                    self._removed.add(container)
            elif event.action != "rename":
                return False
            self._changed.notify_all()
            # An app does not end while a container runs: no check is needed.
            return not self._live

    def _check_end(self) -> None:
        """Check for all readers whether the app has ended."""
        over, failed = False, None
        try:
            over = self._is_over()
        except EngineError as error:
            if not may_pass(error):  # else the event stream shows whether the engine has gone
                failed = error
        with self._changed:
            self.over, self._error = self.over or over, self._error or failed
            self._next_check = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LAST_CHECK_S)
            self._changed.notify_all()
