"""Read the logs of an app, at present or as they grow, with reports of the restarts between."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from launcher.schedulers.logs import RESTART, LogPart, LogsUnsupported, tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from launcher.schedulers.logs import LogBlock, LogRecord, Where
    from launcher.schedulers.restarts import Event, Restart, RestartNotes, RestartReader


class AppLogs(ABC):
    """The logs of one app.

    Attributes:
        scheduler: the name of its scheduler, for errors.
        on_restart: called with each restart of replicas whose logs are followed, where those are known.
    """

    scheduler = "its scheduler"
    on_restart: Callable[[Restart], None] | None = None

    @abstractmethod
    def records(self, where: Where, part: LogPart) -> Iterator[LogRecord]:
        """The output of one replica: chunks of bytes with their time and stream."""

    def chunks(self, replicas: Sequence[Where], part: LogPart) -> Iterator[tuple[str, int, bytes]]:
        """The output of replicas, one after the other, to be copied: (role, replica, bytes cut anywhere)."""
        for where in replicas:
            found = (record.data for record in self.records(where, part))
            for data in found if part.tail is None or part.follow else tail(found, part.tail):
                yield *where, data

    def blocks(self, where: Where, part: LogPart) -> Iterator[LogBlock]:
        """The present output of one replica."""
        from launcher.schedulers.logs import in_blocks

        return in_blocks(self.records(where, part))

    def replicas(self) -> Sequence[Where] | None:
        """The replicas that may have logs; None where only the record of the app names them."""
        return None

    def run_starts(self, replicas: Sequence[Where]) -> Mapping[Where, Sequence[tuple[int, float]]]:
        """The runs of each replica: (number of the restart, start in epoch seconds), or LogsUnsupported."""
        raise LogsUnsupported(
            f"{self.scheduler} cannot tell the output of one restart from that of another",
            hint="select by time, with --since and --until",
        )

    def records_of_run(self, where: Where, restart: int, part: LogPart) -> Iterator[LogRecord] | None:
        """The records of one run of a replica, the first run being 0; None if it had no such restart.

        Raises LogsUnsupported where the times of restarts are not known.
        """
        from launcher.schedulers.restarts import run_between, until_restart, within

        times = run_between(self.run_starts([where])[where], restart)
        if times is None:
            return None
        window, follow = within(times, part.since, part.until), part.follow and times[1] is None
        return until_restart(self.records(where, LogPart(part.stream, *window, follow=follow)))

    def restarts(self) -> Iterator[Restart]:
        """The restarts of the app, each as it comes, until it has ended; none where they are not known."""
        return iter(())

    def events(self) -> Callable[[], Iterable[Event]]:
        """A function whose calls return the new events of the record, if there is one."""
        return tuple


class NoLogs(AppLogs):
    """The logs of an app whose scheduler cannot read them back."""

    def __init__(self, scheduler: str) -> None:
        self.scheduler = scheduler

    def records(self, where: Where, part: LogPart) -> Iterator[LogRecord]:
        raise LogsUnsupported(f"{self.scheduler} does not support reading logs back")

    def chunks(self, replicas: Sequence[Where], part: LogPart) -> Iterator[tuple[str, int, bytes]]:
        raise LogsUnsupported(f"{self.scheduler} does not support reading logs back")


class LineLogs(AppLogs):
    """The logs of a scheduler with a `log_iter` of its own, as those of TorchX have: lines without times."""

    def __init__(self, scheduler: str, log_iter: Callable[..., Iterable[str]], app_id: str) -> None:
        self.scheduler = scheduler
        self._log_iter = log_iter
        self._app_id = app_id

    def records(self, where: Where, part: LogPart) -> Iterator[LogRecord]:
        from datetime import datetime, timezone

        from launcher.schedulers.logs import COMBINED, STDOUT, LogRecord, stream_of

        since, until = (
            None if moment is None else datetime.fromtimestamp(moment, timezone.utc)
            for moment in (part.since, part.until)
        )
        combined = part.stream == COMBINED
        stream = None if combined else stream_of(part.stream)
        for line in self._log_iter(self._app_id, *where, None, since, until, part.follow, streams=stream):
            yield LogRecord(time.time_ns(), STDOUT if combined else part.stream, line.encode())


class RecordedLogs(AppLogs):
    """The logs of an app that has a record of events. A subclass reads the logs and the record."""

    # To be implemented

    @abstractmethod
    def present(self, replicas: Sequence[Where], part: LogPart) -> Iterator[tuple[Where, bytes]]:
        """The output up to now, one replica after the other."""

    @abstractmethod
    def present_records(self, where: Where, part: LogPart) -> Iterator[LogRecord]:
        """The records of a replica up to now, with a mark of each restart."""

    @abstractmethod
    def followed(
        self, replicas: Sequence[Where], part: LogPart, notes: RestartNotes | None, *, marks: bool
    ) -> Iterator[tuple[Where, LogRecord]]:
        """The records of replicas as they are written, until the app has ended, or every log is past `until`.

        Args:
            notes: reports restarts. The caller reports those before the mark of a restart.
            marks: whether each restart is marked, and `since` selects records, not lines.
        """

    @abstractmethod
    def events(self) -> Callable[[], Iterable[Event]]:
        """A function whose calls return the new events of the record, from the first one on."""

    @abstractmethod
    def rounds(self) -> Iterator[bool]:
        """Block until the record may have new events; yield whether it will have no more after these."""

    def restart_reader(self) -> RestartReader:
        from launcher.schedulers.restarts import RestartReader

        return RestartReader(self.events())

    # The logs

    def records(self, where: Where, part: LogPart) -> Iterator[LogRecord]:
        if not part.follow:
            return self.present_records(where, part)
        # Where several replicas are read one by one, the log of the failed one reports the restart.
        return (record for _, record in self._noted([where], part, part.since, of_cause=True))

    def chunks(self, replicas: Sequence[Where], part: LogPart) -> Iterator[tuple[str, int, bytes]]:
        if not part.follow:
            return ((*where, data) for where, data in self.present(replicas, part))
        # Earlier restarts have no place among the last lines.
        found = self._noted(replicas, part, part.since if part.tail is None else time.time())
        return ((*where, record.data) for where, record in found if record.data)

    def _noted(
        self, replicas: Sequence[Where], part: LogPart, since: float | None, *, of_cause: bool = False
    ) -> Iterator[tuple[Where, LogRecord]]:
        """The followed records, and between them the reports of restarts from `since` on."""
        notes = None
        if self.on_restart is not None:
            from launcher.schedulers.restarts import RestartNotes

            reader = self.restart_reader()
            notes = RestartNotes(reader, self.on_restart, replicas, since, of_cause=of_cause)
        for where, record in self.followed(replicas, part, notes, marks=of_cause):
            if notes and record.stream == RESTART:
                notes.before(where, record.time_ns)
            yield where, record

    def run_starts(self, replicas: Sequence[Where]) -> Mapping[Where, Sequence[tuple[int, float]]]:
        from launcher.schedulers.restarts import run_starts

        return run_starts(self.events()(), replicas)

    def restarts(self) -> Iterator[Restart]:
        from launcher.schedulers.restarts import followed

        return followed(self.restart_reader(), self.rounds())
