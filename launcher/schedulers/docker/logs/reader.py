"""Read one container's log with times; each read continues after the last one.

The engine ends a followed log with the run of the container, even if it is started again. So a follower waits
for the next event, and continues after the last record that it has read.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable, Iterator

from launcher.errors import SchedulerError
from launcher.schedulers.backend import LogPart
from launcher.schedulers.docker.client.errors import EngineError, NotFound
from launcher.schedulers.docker.client.persist import Patience
from launcher.schedulers.docker.client.streams import LogStream, ResponseStream
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.logs.follow import FollowedApp
from launcher.schedulers.logs import COMBINED, RESTART, STDERR, STDOUT, LogRecord

# A process may print before the engine records its start; a restart takes longer than this.
_EARLY_S = 0.1
_SECONDS = len("2026-01-02T03:04:05")
_STAMP = len("2026-01-02T03:04:05.123456789Z ")


def shortly_before(started_at: float) -> float:
    """See `LogReader`: all that is known of a start that the engine made by itself."""
    return started_at - _EARLY_S


class LogsGone(SchedulerError):
    """The log was removed with its container."""


def gone(what: str) -> LogsGone:
    return LogsGone(f"the log of {what} was removed with its container", hint="the container was removed")


def open_log(
    engine: EngineView,
    container: str,
    part: LogPart,
    *,
    since: int = 0,
    follow: bool = False,
    timestamps: bool = False,
    tail: int | None = None,
) -> LogStream:
    """Open a log at the engine, which selects by stream and time.

    Args:
        since: nanoseconds since the epoch, in place of that of `part`; 0 for none.
        tail: lines of both streams together, in place of that of `part`.

    Raises LogsGone for a container that was removed.
    """
    try:
        return engine.log_frames(
            container,
            stdout=part.stream in (COMBINED, STDOUT),
            stderr=part.stream in (COMBINED, STDERR),
            timestamps=timestamps,
            since=since or part.first_ns or None,
            until=part.last_ns,
            follow=follow,
            tail=tail,
            tty=False,
        )
    except NotFound:
        raise gone(container[:12]) from None


class LogReader:
    """Reads one container's log. May be closed from any thread, which ends the read.

    Args:
        marks: whether restarts are marked, which takes one more request for each read.
        begun: a time before the first output of the run that the engine says was started then, and after the
            last one of the run before it; both in epoch seconds.
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
        self._of_latest = 0  # records of that time, which the engine sends again
        self._started_at: float | None = None
        self._starts: list[int] = []  # starts without a record yet
        self._whole = False  # all output before the latest known start was read
        self._ahead = False  # a restart was marked before the engine had recorded it
        self._open: ResponseStream | None = None
        self._followed: FollowedApp | None = None
        self._closed = False

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        if self._open is not None:
            self._open.close()
        if self._followed is not None:
            self._followed.wake()

    def follow(self, followed: FollowedApp) -> Iterator[LogRecord]:
        """Records as they come, until the app is over or they are later than `until`."""
        self._followed = followed
        patience = Patience(
            self._engine.host, sleep=lambda seconds: followed.pause(seconds, lambda: self._closed)
        )
        patience.persist(followed.begin)
        while not self._closed:
            # Checked before the read, which then returns all output.
            last = followed.over or self._is_past()
            starts = followed.starts(self._container)
            whole = not starts and followed.had_ended(self._container)
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
                return  # it had ended before the first read

    def read(self, *, follow: bool = False) -> Iterator[LogRecord]:
        """The records that were not read yet; with `follow`, until this run of the container ends."""
        had_ended = self._marked and self._check_start()
        resumed_ns, again = self._latest_ns, self._of_latest
        stream = open_log(
            self._engine, self._container, self._part, since=resumed_ns, follow=follow, timestamps=True
        )
        with self._opened(stream):
            for name, payload in stream:
                time_ns, data = split_timestamp(payload)
                if again and time_ns == resumed_ns:
                    again -= 1
                    continue
                if self._whole:
                    yield from self._mark_next_run(time_ns)
                elif self._starts and time_ns >= self._starts[0]:
                    yield from self._marks(time_ns)
                self._note(time_ns)
                yield LogRecord(time_ns, name, data)
        self._whole = self._marked and (had_ended or follow) and not self._closed

    def _is_past(self) -> bool:
        """Whether output from now on is later than `until`."""
        return self._part.until is not None and time.time() > self._part.until

    def _opened(self, stream: ResponseStream) -> ResponseStream:
        self._open = stream
        if self._closed:  # meanwhile, by another thread
            stream.close()
        return stream

    def _note(self, time_ns: int) -> None:
        if time_ns > self._latest_ns:
            self._latest_ns, self._of_latest = time_ns, 1
        elif time_ns == self._latest_ns:
            self._of_latest += 1

    def _check_start(self) -> bool:
        """Read when the container was started; returns whether that run has ended."""
        found = self._engine.inspect(self._container)
        if found is None or found.started_at is None:
            return False
        # Of a short run, an earlier time may be known after its end.
        if self._started_at is None or found.started_at > self._started_at:
            self._started_at = found.started_at
            if not self._ahead:
                self._starts.append(int(self._begun(found.started_at) * 1e9))
            self._ahead = False
        return found.ended

    def _mark_next_run(self, time_ns: int) -> Iterator[LogRecord]:
        """Mark the first record after all output of the runs before, whenever the engine records its start.

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
    if payload[:_SECONDS] != text:  # most lines are of the same second as the one before
        text, epoch = payload[:_SECONDS], _epoch(payload)
        _seen = text, epoch
    try:
        return epoch * 10**9 + int(payload[_SECONDS + 1 : _STAMP - 2]), payload[_STAMP:]
    except ValueError:
        raise _broken(payload) from None


def _epoch(payload: bytes) -> int:
    try:
        day, hour = payload[:_SECONDS].split(b"T")
        return calendar.timegm((*map(int, day.split(b"-")), *map(int, hour.split(b":"))))
    except (ValueError, TypeError):
        raise _broken(payload) from None


def _broken(payload: bytes) -> EngineError:
    said = payload.decode("utf-8", "replace").strip()
    return EngineError(f"the engine cannot read on in the log: {said}")
