"""Read the logs of an app back: a selection of them, followed or not, with reports of restarts between."""

from __future__ import annotations

import time

from launcher.schedulers.logs import COMBINED, RESTART, STREAMS, since_ns, stream_name, stream_of, until_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from queue import Queue
    from threading import Thread
    from typing import Any, TypeVar

    from launcher.schedulers.api import OnRestart
    from launcher.schedulers.logs import LogRecord
    from launcher.schedulers.responses import Stream
    from launcher.schedulers.restarts import RestartNotes, RestartReader

    T = TypeVar("T")
    Where = tuple[str, int]

_QUEUED = 64  # pieces of all sources that wait for the reader
_LEAVE_S = 2.0


class Selection:
    """The part of each log to read.

    Attributes:
        stream: stdout, stderr or combined.
        since, until: only the lines that began between these, epoch seconds, both inclusive.
        tail: only so many last lines of the log as it is when reading starts.
    """

    __slots__ = ("since", "stream", "tail", "until")

    def __init__(
        self,
        stream: Stream | str | None = None,
        since: float | None = None,
        until: float | None = None,
        tail: int | None = None,
    ) -> None:
        """Raises UsageError for an unknown stream."""
        name = stream_name(stream)
        self.stream = name if name in STREAMS else stream_of(name).value
        self.since = since
        self.until = until
        self.tail = tail

    def has(self, record: LogRecord) -> bool:
        """Whether a record is of the stream, or marks a restart."""
        return self.stream in (COMBINED, record.stream) or record.stream == RESTART

    @property
    def first_ns(self) -> int:
        return 0 if self.since is None else since_ns(self.since)

    @property
    def last_ns(self) -> int | None:
        return None if self.until is None else until_ns(self.until)


class AppLogs:
    """The logs of some replicas of one app. A subclass for each scheduler reads them.

    Attributes:
        replicas: role and number of each.
    """

    def __init__(self, app_id: str, replicas: Sequence[Where]) -> None:
        self.app_id = app_id
        self.replicas = replicas

    # To be implemented by a subclass

    def present(self, want: Selection) -> Iterator[tuple[int, bytes]]:
        """The selected output as far as it is written, one replica after the other, in chunks.

        Of each chunk the place of its replica in `replicas`, and the bytes.
        """
        raise NotImplementedError

    def records(self, want: Selection) -> Iterator[LogRecord]:
        """The records of the only replica as far as they are written, with a mark of each restart."""
        raise NotImplementedError

    def followed(
        self, want: Selection, notes: RestartNotes | None, *, marks: bool
    ) -> Iterator[tuple[int, LogRecord]]:
        """The records of all replicas as they are written, each with its place in `replicas`.

        Ends when the app has ended, or when every log has come to `until`.

        Args:
            notes: reports restarts. Those before a mark of a restart are reported without the subclass.
            marks: whether each restart is marked, and `since` selects records, not lines.
        """
        raise NotImplementedError

    def restart_reader(self) -> RestartReader:
        raise NotImplementedError

    # For the façades

    def read_chunks(
        self, want: Selection, *, follow: bool, on_restart: OnRestart | None = None
    ) -> Iterator[tuple[str, int, bytes]]:
        """See `Scheduler.log_chunks`."""
        if not follow:
            return ((*self.replicas[at], data) for at, data in self.present(want))
        # Restarts of before have no place among the last lines.
        since = want.since if want.tail is None else time.time()
        found = self._noted(want, since, on_restart, marks=False)
        return ((*self.replicas[at], record.data) for at, record in found if record.data)

    def read_records(
        self, want: Selection, *, follow: bool, on_restart: OnRestart | None = None
    ) -> Iterator[LogRecord]:
        """See `Scheduler.log_records`: of the only replica."""
        if not follow:
            return self.records(want)
        return (record for _, record in self._noted(want, want.since, on_restart, marks=True))

    def _noted(
        self, want: Selection, since: float | None, on_restart: OnRestart | None, *, marks: bool
    ) -> Iterator[tuple[int, LogRecord]]:
        """What is followed, and between it the reports of restarts from `since` on.

        Of several replicas that are read one by one, the one that failed reports the restart.
        """
        notes = None
        if on_restart is not None:
            from launcher.schedulers.restarts import RestartNotes

            report, app_id = on_restart, self.app_id
            notes = RestartNotes(
                self.restart_reader(),
                lambda restart: report(app_id, restart),
                self.replicas,
                since,
                of_cause=marks,
            )
        for at, record in self.followed(want, notes, marks=marks):
            if notes and record.stream == RESTART:
                notes.before(*self.replicas[at], record.time_ns)
            yield at, record


def as_they_come(
    sources: Sequence[Iterable[T]], close: Callable[[], None] | None = None
) -> Iterator[tuple[int, T]]:
    """Merge sources in the order of arrival: (number of the source, piece). Several have a thread each.

    Args:
        close: ends the reading of all sources; called when the caller stops, or a source fails.
    """
    from queue import Queue
    from threading import Thread

    waiting: Queue[tuple[int, T | BaseException | None]] = Queue(_QUEUED)
    threads: list[Thread] = []
    try:
        if len(sources) == 1:
            for piece in sources[0]:
                yield 0, piece
            return
        for number, source in enumerate(sources):
            threads.append(Thread(target=_pump, args=(number, source, waiting), daemon=True))
            threads[-1].start()
        left = len(sources)
        while left:
            number, found = waiting.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                left -= 1
            else:
                yield number, found
    finally:
        if close is not None:
            close()
            _drain(waiting, threads)


def _pump(number: int, source: Iterable[T], into: Queue[tuple[int, T | BaseException | None]]) -> None:
    try:
        for piece in source:
            into.put((number, piece))
    except BaseException as error:
        into.put((number, error))
    else:
        into.put((number, None))


def _drain(waiting: Queue[Any], threads: Sequence[Thread]) -> None:
    """Let threads end that wait for room in the queue. One whose source does not end by then is left."""
    from queue import Empty

    until = time.monotonic() + _LEAVE_S
    while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
        try:
            waiting.get(timeout=0.05)
        except Empty:
            continue
