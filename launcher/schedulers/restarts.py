"""The restarts of an app and the runs of its replicas: folded from its events, for every scheduler."""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from launcher.dataclass import dataclass
from launcher.holding.replica import ENDED, UNKNOWN_RETRIES
from launcher.holding.state import AppState
from launcher.schedulers.logs import RESTART, LogRecord, Where

Event = dict[str, Any]

POLICIES: Final = {"replica": "REPLICA", "role": "ROLE", "app": "APPLICATION"}
"""The scope of a restart → the retry policy that causes it."""

_LAST_S = 1e-6  # log lines have times in microseconds: subtract this for the last time before another
_CHUNK = 1 << 16
_ALL = -1  # in place of the number of a replica: the whole role
_APP = ("", _ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """One restart of a replica, of its role, or of the whole app.

    Attributes:
        role, k: the replica whose failure it follows.
        scope: the restarted part: replica, role or app.
        number: the number of the restart, from 1, counted against `most`, the role's `max_retries`.
        delay_s: the pause before it, in seconds.
        cause: how that replica failed: "exited with 1".
        at: the time of the decision, epoch seconds.
    """

    role: str
    k: int
    scope: str
    number: int
    most: int
    delay_s: float
    cause: str
    at: float

    @property
    def policy(self) -> str:
        return POLICIES[self.scope]

    def __str__(self) -> str:
        pause = f" in {self.delay_s:g} s" if self.delay_s else ""
        return f"{self.role}/{self.k} {self.cause}; restart {self.number} of {self.most}{pause}"


# -- reading them from a record ----------------------------------------------------------------------------


class RecordedEvents:
    """Reads the events in the file of a record. Each call returns the new ones; `parse` gets whole lines."""

    def __init__(self, path: str, parse: Callable[[bytes], Iterable[Event]]) -> None:
        self._path = path
        self._parse = parse
        self._offset = 0

    def __call__(self) -> Iterator[Event]:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                while lines := file.readlines(_CHUNK):
                    rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
                    whole = b"".join(lines)
                    self._offset += len(whole)
                    yield from self._parse(whole)
                    if rest:  # the last line is still being written
                        return
        except OSError:
            return


class RestartReader:
    """Reads the restarts of an app from its growing record: each `read` continues where the last one ended.

    Args:
        events: returns the new events of the record.
        declared: the event `created` for an app whose record has none.
    """

    def __init__(self, events: Callable[[], Iterable[Event]], declared: Event | None = None) -> None:
        self._events = events
        self._app = AppState()
        if declared is not None:
            self._app.take(declared)

    @property
    def is_over(self) -> bool:
        """Whether there will be no restart: the app has ended, or none of its roles has retries."""
        return self._app.has_ended or not self._has_retries

    @property
    def _has_retries(self) -> bool:
        return self._app.created_at is None or any(role.retries for role in self._app.roles.values())

    def read(self) -> Iterator[Restart]:
        for event in () if self.is_over else self._events():
            try:
                is_counted = event["e"] == "restart" and event.get("by") != "hand"
                restart = self._restart(event) if is_counted else None
                self._app.take(event)
            except (LookupError, TypeError, ValueError, AttributeError):  # a torn line, or a later version's
                continue
            if restart is not None:
                yield restart
            if not self._has_retries:
                return  # the rest of the record has no restarts

    def _restart(self, event: Event) -> Restart:
        replica = self._app.replica(event)
        most = replica.role.retries
        return Restart(
            role=replica.role.name,
            k=replica.k,
            scope=event["scope"],
            number=event["n"],
            most=event["n"] if most == UNKNOWN_RETRIES else most,
            delay_s=event.get("delay_s") or 0.0,
            cause=replica.cause if replica.state == ENDED else "exited",
            at=event["t"] / 1e9,
        )


def followed(reader: RestartReader, rounds: Iterable[bool]) -> Iterator[Restart]:
    """All restarts of an app, each as it comes, until it has ended. `rounds`: see `RecordedLogs.rounds`."""
    if reader.is_over:
        return
    for is_last in rounds:
        yield from reader.read()
        if is_last or reader.is_over:
            return


class RestartNotes:
    """Reports the restarts of followed replicas, each between the outputs that it separates. Thread-safe.

    Args:
        report: called with each restart, once.
        names: the followed replicas.
        since: restarts before this time (epoch seconds) are not reported.
        of_cause: report only restarts caused by a failure of one of them.
    """

    def __init__(
        self,
        reader: RestartReader,
        report: Callable[[Restart], None],
        names: Collection[Where],
        since: float | None = None,
        *,
        of_cause: bool = False,
    ) -> None:
        self._reader = reader
        self._report = report
        self._names = set(names)
        self._roles = {role for role, _ in names}
        self._since = since or 0.0
        self._of_cause = of_cause
        self._pending: dict[Where, deque[Restart]] = {}  # by `_scope`
        self._lock = allocate_lock()

    def look(self) -> float:
        """Read new events; returns the time of the last unreported restart, 0.0 for none."""
        with self._lock:
            self._read()
            return max((queue[-1].at for queue in self._pending.values()), default=0.0)

    def _read(self) -> None:
        for restart in self._reader.read():
            if restart.at >= self._since and self._concerns(restart):
                self._pending.setdefault(_scope(restart), deque()).append(restart)

    @property
    def is_over(self) -> bool:
        """Whether there will be no further restart, and none is left to report."""
        return self._reader.is_over and not self._pending

    def waiting(self) -> set[Where]:
        """The followed replicas with unreported restarts."""
        if _APP in self._pending:
            return self._names
        roles = {role for role, k in self._pending if k == _ALL}
        return {where for where in self._pending if where[1] != _ALL} | (
            {where for where in self._names if where[0] in roles} if roles else set()
        )

    def before(self, where: Where, time_ns: int) -> None:
        """Report the restarts that come before the output of a replica that was restarted at `time_ns`."""
        with self._lock:
            self._read()
            self._flush([where, (where[0], _ALL), _APP], time_ns / 1e9)

    def flush(self, until: float) -> None:
        """Report the restarts up to a time."""
        with self._lock:
            self._flush([*self._pending], until)

    def _flush(self, scopes: Iterable[Where], until: float) -> None:
        due = []
        for scope in scopes:
            queue = self._pending.get(scope)
            while queue and queue[0].at <= until:
                due.append(queue.popleft())
            if queue is not None and not queue:
                del self._pending[scope]
        for restart in sorted(due, key=lambda each: each.at):
            self._report(restart)

    def _concerns(self, restart: Restart) -> bool:
        if self._of_cause or restart.scope == "replica":
            return (restart.role, restart.k) in self._names
        return restart.scope == "app" or restart.role in self._roles


def _scope(restart: Restart) -> Where:
    """The restarted part: a replica, a whole role, or the whole app."""
    if restart.scope == "replica":
        return restart.role, restart.k
    return (restart.role, _ALL) if restart.scope == "role" else _APP


# -- the output of one run ---------------------------------------------------------------------------------


def run_starts(events: Iterable[Event], replicas: Iterable[Where]) -> dict[Where, list[tuple[int, float]]]:
    """(number of the restart, epoch seconds) of each run of each replica, in order; the first run is 0."""
    starts: dict[Where, list[tuple[int, float]]] = {where: [] for where in replicas}
    for event in events:
        if event["e"] == "spawn" and (event["role"], event["k"]) in starts:
            starts[event["role"], event["k"]].append((event.get("restart") or 0, event["t"] / 1e9))
    return starts


def run_between(starts: Sequence[tuple[int, float]], restart: int) -> tuple[float, float | None] | None:
    """The first and the last moment (None if it goes on) of a run in `run_starts`; None if it is missing."""
    for index, (number, at) in enumerate(starts):
        if number == restart:
            return at, starts[index + 1][1] - _LAST_S if index + 1 < len(starts) else None
    return None


def within(
    times: tuple[float, float | None], since: float | None, until: float | None
) -> tuple[float, float | None]:
    """`since` and `until` for the output of a run, restricted to the given times."""
    began, ended = times
    if ended is not None:
        until = ended if until is None else min(until, ended)
    return began if since is None else max(since, began), until


def until_restart(records: Iterable[LogRecord]) -> Iterator[LogRecord]:
    """The records up to the mark of the next run, which may begin while they are read."""
    for record in records:
        if record.stream == RESTART:
            return
        yield record
