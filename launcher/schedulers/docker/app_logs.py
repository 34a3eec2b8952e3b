"""Read the logs of an app from the engine: up to now, or followed until the app has ended."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial

from launcher.errors import SchedulerError
from launcher.holding.journal import read_events
from launcher.schedulers import logs
from launcher.schedulers.docker import apps, record
from launcher.schedulers.docker.apps import DockerApp
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import LogStream
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.journal import Journal, OldJournal, translated
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.log_reader import (
    FollowedApp,
    LogReader,
    LogsGone,
    gone,
    open_log,
    shortly_before,
)
from launcher.schedulers.docker.names import expected_replicas, where as name_of
from launcher.schedulers.docker.watching.client import wait_for_exit
from launcher.schedulers.logs import STDOUT, LogPart, LogRecord, LogsRemoved, LogsUnsupported, Where
from launcher.schedulers.many import as_they_come
from launcher.schedulers.readback import RecordedLogs
from launcher.schedulers.restarts import Event, RecordedEvents, RestartNotes, RestartReader

_CHUNK = 1 << 18
_LOOK_S = 0.25  # between two looks at the journal
_LAST_S = 2.0  # how long to look for the last restarts once the logs are complete


class DockerLogs(RecordedLogs):
    """The logs of an app at the engine.

    Reading them raises SchedulerError for an unknown app, role or replica, LogsGone for one whose container
    was removed.
    """

    def __init__(self, engine: EngineView, app_id: str) -> None:
        self._engine = engine
        self.app_id = app_id

    def present(self, replicas: Sequence[Where], part: LogPart) -> Iterator[tuple[Where, bytes]]:
        for where, container in self.containers(replicas).items():
            found: Iterable[bytes]
            if part.tail is None:
                found = _joined(open_log(self._engine, container, part))
            else:
                found = last_lines(self._engine, container, part, part.tail)
            for data in found:
                yield where, data

    def present_records(self, where: Where, part: LogPart) -> Iterator[LogRecord]:
        """The records, with a mark for the last restart only."""
        container = self.containers([where])[where]
        *known, coming = _runs(record.journal(record.folder(self.app_id)) or Journal(), *where)
        _, ended_at, due_at = coming if coming[2] or not known else known[-1]
        begun = partial(_begun, ended_at=ended_at, due_at=due_at)
        with closing(LogReader(self._engine, container, part, begun=begun)) as reader:
            yield from reader.read()

    def followed(
        self, replicas: Sequence[Where], part: LogPart, notes: RestartNotes | None, *, marks: bool
    ) -> Iterator[tuple[Where, LogRecord]]:
        containers = self.containers(replicas)
        app = FollowedApp(self._engine, self.app_id, self.is_over)
        readers = {
            where: LogReader(self._engine, each, part, marks=marks) for where, each in containers.items()
        }

        def close() -> None:
            for reader in readers.values():
                reader.close()

        sources = [self._follow(where, reader, app, part.tail) for where, reader in readers.items()]
        try:
            with self._reported(notes):  # reports restarts that are still to come
                yield from as_they_come(sources, close)
        finally:
            app.close()

    def _follow(
        self, where: Where, reader: LogReader, app: FollowedApp, tail: int | None
    ) -> Iterator[tuple[Where, LogRecord]]:
        try:
            if tail is not None:
                for line in logs.tail((record.data for record in reader.read()), tail):
                    yield where, LogRecord(0, STDOUT, line)
            yield from ((where, each) for each in reader.follow(app))
        except LogsGone:
            raise self._gone(where) from None

    def _gone(self, where: Where) -> LogsGone:
        return gone(f"{where[0]}/{where[1]} of {self.app_id}")

    def replicas(self) -> Sequence[Where]:
        return [(each.role, each.k) for each in self._app_with_logs().view.replicas if each.id]

    def _app_with_logs(self) -> DockerApp:
        app = _app(self._engine, self.app_id)
        if app.has_no_logs:
            raise LogsRemoved(self.app_id)
        return app

    def containers(self, replicas: Sequence[Where]) -> dict[Where, str]:
        """Replica → the id of its container."""
        app = self._app_with_logs()
        there = {(each.role, each.k): each.id for each in app.view.replicas}
        counts: dict[str, int] = {}
        for role, k in (*expected_replicas(app.labels), *there):
            counts[role] = max(counts.get(role, 0), k + 1)
        for role, k in replicas:
            logs.require_replica(self.app_id, counts, role, k)
            if not there.get((role, k)):
                raise self._gone((role, k))
        return {where: there[where] for where in replicas}

    def is_over(self) -> bool:
        """Whether the app has ended, so that no more output follows."""
        app = apps.find(self._engine, self.app_id)
        return app is None or app.view.ended

    # -- restarts ------------------------------------------------------------------------------------------

    def events(self) -> Callable[[], Iterable[Event]]:
        old = OldJournal()
        path = record.journal_path(record.folder(self.app_id))
        return RecordedEvents(path, lambda lines: translated(read_events(lines), old))

    def restart_reader(self) -> RestartReader:
        """Read the restarts in the journal, made by the watcher or by the engine.

        There are none for an app without a record in this state folder.
        """
        labels = Labels(record.recorded_labels(record.folder(self.app_id)))
        rules = labels.retries
        counts = dict.fromkeys(rules, 0) | Counter(role for role, _ in expected_replicas(labels))
        retries = [rules.get(role, (0, ""))[:2] for role in counts]
        return RestartReader(
            self.events(), {"e": "created", "t": 0, "roles": list(counts.items()), "retries": retries}
        )

    def rounds(self) -> Iterator[bool]:
        """Yield at intervals whether the watcher has ended."""
        app_dir, wait_s = record.folder(self.app_id), 0.0
        while True:
            yield wait_for_exit(app_dir, wait_s) or not record.exists(app_dir)
            wait_s = _LOOK_S

    @contextmanager
    def _reported(self, notes: RestartNotes | None) -> Iterator[None]:
        """Report restarts in a thread, beside the output."""
        if notes is None:
            yield
            return
        left = threading.Event()

        def report() -> None:
            for is_last in self.rounds():
                latest = notes.look()
                if left.is_set():
                    return
                notes.flush(latest)
                if is_last or notes.is_over:
                    return

        thread = threading.Thread(target=report, daemon=True)
        thread.start()
        try:
            yield
            thread.join(_LAST_S)
        finally:
            left.set()

    def run_starts(self, replicas: Sequence[Where]) -> dict[Where, list[tuple[int, float]]]:
        """Read the start of each run from the journal.

        Raises LogsUnsupported where the engine restarted a container by itself, or the record is elsewhere.
        """
        found = _app(self._engine, self.app_id, inspected=True)
        journal = found.journal
        if journal is None or journal.adopted:
            raise LogsUnsupported(f"the restarts of {self.app_id} are not on record here", hint=_BY_TIME)
        there = {name_of(each): each for each in found.containers}
        return {name: starts_of(there[name], journal) if name in there else [] for name in replicas}


# -- the bytes of one log ----------------------------------------------------------------------------------


def _joined(stream: LogStream) -> Iterator[bytes]:
    """The payloads joined into larger pieces: the engine sends line by line."""
    held: list[bytes] = []
    size = 0
    with stream:
        for _, payload in stream:
            held.append(payload)
            size += len(payload)
            if size >= _CHUNK:
                yield b"".join(held)
                held, size = [], 0
    if held:
        yield b"".join(held)


def last_lines(engine: EngineView, container: str, part: LogPart, count: int) -> list[bytes]:
    """The last `count` lines.

    The engine counts pieces of 16 KiB, of both streams, before it applies `until`. One piece more than
    wanted shows whether the first line is whole. Where a line has several pieces, or the engine would count
    differently, the whole log is read.
    """
    if count <= 0:
        return []
    if part.stream == logs.COMBINED and part.until is None:
        with open_log(engine, container, part, tail=count + 1) as stream:
            found = [payload for _, payload in stream]
        if all(payload.endswith(b"\n") for payload in found[:-1]):
            return found[-count:]
    return list(logs.tail(_joined(open_log(engine, container, part)), count))


# -- the runs of a replica ---------------------------------------------------------------------------------


_BY_TIME = "select by time, with --since and --until"
_OURS = "with `retry_delay: 1s` in its role, launcher restarts it and records when; or " + _BY_TIME

Run = tuple[float | None, float | None, float]
"""The times of a run: its start, the end of the previous run, when it was due; the last two 0.0 at first."""


def starts_of(container: Container, journal: Journal) -> list[tuple[int, float]]:
    """The time at which each run of a container began to write. See `Scheduler.run_starts`."""
    role, k = name_of(container)
    if container.restarts:
        message = f"the engine restarted {role}/{k} by itself, and keeps no times of that"
        raise LogsUnsupported(message, hint=_OURS)
    *runs, (_, ended_at, due_at) = _runs(journal, role, k)
    if not runs or (container.started_at or 0.0) > (runs[-1][0] or 0.0):
        runs.append((container.started_at, ended_at, due_at))
    return list(enumerate(_begun(start, end, due) for start, end, due in runs if start is not None))


def _runs(journal: Journal, role: str, k: int) -> list[Run]:
    """The recorded runs of a replica, and the next run, whose start is not recorded."""
    runs: list[Run] = []
    ended_at: float | None = None
    due_at = 0.0
    for event in journal.events:
        is_of = event.get("role") == role and event.get("k") == k
        if event["e"] == "spawn" and is_of:
            runs.append((event.get("start"), ended_at, due_at))
            ended_at, due_at = None, 0.0
        elif event["e"] == "exit" and is_of:
            ended_at = event.get("t", 0) / 1e9
        elif event["e"] == "restart" and (
            is_of or event["scope"] == "app" or (event["scope"], event["role"]) == ("role", role)
        ):
            due_at = event.get("t", 0) / 1e9 + event.get("delay_s", 0)
    return [*runs, (None, ended_at, due_at)]


def _begun(started_at: float, ended_at: float | None = None, due_at: float = 0.0) -> float:
    """A time between the last output of the previous run and the first output of this one.

    The engine takes the time of a start after the process began, on a busy machine long after. For its own
    restarts the watcher knows a better time, if its clock is the engine's.
    """
    if ended_at is not None and ended_at <= due_at <= started_at:
        return due_at
    return shortly_before(started_at)


def _app(engine: EngineView, app_id: str, *, inspected: bool = False) -> DockerApp:
    found = apps.find(engine, app_id, inspected=inspected)
    if found is None:
        record.refuse_logs_elsewhere(engine, app_id)
        raise SchedulerError(f"there is no app {app_id} at {engine.host}")
    return found
