"""The output of replicas, read from the cluster in blocks: each request has the next block of every log."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from launcher.errors import SchedulerError
from launcher.schedulers.logs import (
    COMBINED,
    RESTART,
    STDOUT,
    LogPart,
    LogRecord,
    LogsRemoved,
    Where,
    require_replica,
    tail,
)
from launcher.schedulers.readback import RecordedLogs
from launcher.schedulers.restarts import Event, RestartNotes, RestartReader
from launcher.schedulers.slurm.cluster import Cluster
from launcher.schedulers.slurm.clusters import Clusters, seen, settled
from launcher.schedulers.slurm.state import Facts, has_no_logs, names_of
from launcher.text import path_names

_BLOCK = 4 << 20  # bytes of one answer
_AGAIN_S = 10.0  # how often the restarts of an app are read while it runs
_UNSURE_S = 10.0  # silence before the queue is asked whether the app still runs


def found(clusters: Clusters, app_id: str) -> tuple[Cluster, Facts]:
    """The cluster and the facts of an app that may have logs. Raises SchedulerError when there is none."""
    answer = clusters.find(app_id, look=False)  # the logs are in its folder, whatever the queue shows
    if answer is None:
        raise SchedulerError(f"there is no app `{app_id}`", hint="`launcher list` shows what there is")
    if has_no_logs(answer[1]):
        raise LogsRemoved(app_id)
    return answer


class Parser:
    """Parses blocks of a log into records. `offset`, `index_offset`: bytes read of the log and its index."""

    def __init__(self) -> None:
        self.offset = 0
        self.index_offset = 0
        self._entries: deque[tuple[int, int, str]] = deque()
        self._run = (0, STDOUT)  # time and stream of the next bytes

    def feed(self, data: bytes, index: str) -> Iterator[LogRecord]:
        """The records of the next block. `index`: whole lines, including those for all of `data`."""
        self.index_offset += len(index.encode())
        for line in index.splitlines():
            at, time_text, stream = line.split(" ", 2)
            self._entries.append((int(at), int(time_text), stream))
        begin, end = self.offset, self.offset + len(data)
        while True:
            while self._entries and self._entries[0][0] <= self.offset:
                _, time_ns, stream = self._entries.popleft()
                if stream == RESTART:
                    yield LogRecord(time_ns, RESTART, b"")
                else:
                    self._run = (time_ns, stream)
            if self.offset >= end:
                return
            until = min(end, self._entries[0][0]) if self._entries else end
            piece = data[self.offset - begin : until - begin]
            self.offset = until
            yield LogRecord(*self._run, piece)


class _Selected:
    """The selected records of one log; `is_over` once all further records are later than `until`.

    Args:
        by_line: whether a line that began before `since` is left out whole.
    """

    def __init__(self, part: LogPart, *, by_line: bool) -> None:
        self._part = part
        self._first_ns = part.first_ns
        self._last_ns = part.last_ns
        self._by_line = by_line
        self._is_in_line: dict[str, bool] = {}  # stream → whether it is within a line that began before
        self.is_over = False

    def of(self, records: Iterable[LogRecord]) -> Iterator[LogRecord]:
        for record in records:
            if self._last_ns is not None and record.time_ns > self._last_ns:
                self.is_over = True
            if self.is_over:
                return
            if self._part.stream not in (COMBINED, record.stream) and record.stream != RESTART:
                continue
            if record.time_ns < self._first_ns:
                self._is_in_line[record.stream] = self._by_line and not record.data.endswith(b"\n")
            elif self._is_in_line.get(record.stream):
                _, newline, rest = record.data.partition(b"\n")
                self._is_in_line[record.stream] = not newline
                yield LogRecord(record.time_ns, record.stream, rest)
            else:
                yield record


class _Blocks:
    """Reads the logs of replicas block by block.

    Args:
        asked: fields of each request.
        places: folder and number of each replica's log.
    """

    def __init__(
        self, cluster: Cluster, asked: Mapping[str, Any], places: Mapping[Where, tuple[str, int]]
    ) -> None:
        self._cluster = cluster
        self._asked = asked
        self._places = places
        self._parsers = {where: Parser() for where in places}
        self._is_live = True  # whether the app may write more output
        self._is_whole = False  # whether all output of an ended app was read

    def present(self, wait_s: float = 0.0) -> Iterator[tuple[Where, list[LogRecord]]]:
        """The logs up to now, or until they have been silent for `wait_s`."""
        while found := self._read(wait_s):
            yield from found
            if self._is_whole:  # saves a request, which over ssh takes most of the time of a short log
                return

    def to_the_end(self) -> Iterator[tuple[Where, list[LogRecord]]]:
        """The logs to the end of the app."""
        while True:
            yield from self.present(_UNSURE_S)
            if not self._is_live:
                return
            # The app may be over: record its end by Slurm.
            settled(self._cluster, seen(self._cluster, app_ids=[self._asked["app_id"]]))

    def _read(self, wait_s: float) -> list[tuple[Where, list[LogRecord]]]:
        parts = [
            [*place, self._parsers[where].offset, self._parsers[where].index_offset]
            for where, place in self._places.items()
        ]
        answer = self._cluster.ask("read", **self._asked, parts=parts, seconds=wait_s)
        self._is_live = bool(answer["live"])
        self._is_whole = bool(answer.get("whole"))
        found = [
            (where, list(self._parsers[where].feed(b64decode(data), index)))
            for where, (data, index) in zip(self._places, answer["parts"], strict=True)
        ]
        return [(where, records) for where, records in found if records]


class SlurmLogs(RecordedLogs):
    """The logs of an app. `has_ended(seconds)` waits for the app's end; returns whether the app has ended."""

    def __init__(self, cluster: Cluster, facts: Facts, has_ended: Callable[[str, float], bool]) -> None:
        self.app_id = str(facts["attempt"]["app_id"])
        self._cluster = cluster
        self._has_ended = has_ended
        document: Any = facts["attempt"].get("document") or {}
        self._roles: list[dict[str, Any]] = document.get("roles") or []
        self._counts = Counter(role for role, _ in names_of(facts))
        first = [*map(self._place, self.replicas()[:1])]
        self._asked = {"app_id": self.app_id, "limit": _BLOCK, "first": [*first[0]] if first else None}

    def present(self, replicas: Sequence[Where], part: LogPart) -> Iterator[tuple[Where, bytes]]:
        is_plain = part.stream == COMBINED and part.since is None and part.until is None
        tails = self._last_lines(replicas, part.tail) if is_plain and part.tail is not None else {}
        for where in replicas:
            if (last := tails.get(where)) is not None:
                found: Iterable[bytes] = [last] if last else []
            else:
                records = self._records(where, part, by_line=True)
                found = (record.data for record in records if record.data)
                found = found if part.tail is None else tail(found, part.tail)
            yield from ((where, data) for data in found)

    def _last_lines(self, replicas: Sequence[Where], count: int) -> dict[Where, bytes | None]:
        """The last lines of each log; None for a log whose last lines are too long for one answer."""
        parts = [*map(self._place, replicas)]
        answer = self._cluster.ask("tail", **self._asked, parts=parts, lines=count)
        lines = (None if each is None else b64decode(each) for each in answer["parts"])
        return dict(zip(replicas, lines, strict=True))

    def replicas(self) -> Sequence[Where]:
        return [(role, k) for role, count in self._counts.items() for k in range(count)]

    def present_records(self, where: Where, part: LogPart) -> Iterator[LogRecord]:
        return self._records(where, part, by_line=False)

    def _records(self, where: Where, part: LogPart, *, by_line: bool) -> Iterator[LogRecord]:
        selected = _Selected(part, by_line=by_line)
        for _, records in self._blocks([where]).present():
            yield from selected.of(records)
            if selected.is_over:
                return

    def followed(
        self, replicas: Sequence[Where], part: LogPart, notes: RestartNotes | None, *, marks: bool
    ) -> Iterator[tuple[Where, LogRecord]]:
        blocks = self._blocks(replicas)
        selected = {where: _Selected(part, by_line=not marks) for where in replicas}
        if part.tail is not None:  # the present last lines, then new output
            held: dict[Where, list[bytes]] = {where: [] for where in replicas}
            for where, records in blocks.present():
                new = (record.data for record in selected[where].of(records))
                held[where] = list(tail([*held[where], *new], part.tail))
            for where, lines in held.items():
                yield from ((where, LogRecord(0, STDOUT, line)) for line in lines)
        for where, records in blocks.to_the_end():
            for record in selected[where].of(records):
                yield where, record
            if all(each.is_over for each in selected.values()):
                return

    def _blocks(self, replicas: Sequence[Where]) -> _Blocks:
        return _Blocks(self._cluster, self._asked, {where: self._place(where) for where in replicas})

    def _place(self, where: Where) -> tuple[str, int]:
        """The folder of a replica's log, and its number there."""
        role, k = where
        require_replica(self.app_id, self._counts, role, k)
        names = [each["name"] for each in self._roles]
        return path_names(names)[names.index(role)], k

    def events(self) -> Callable[[], Iterable[Event]]:
        known = 0

        def new() -> list[Event]:
            nonlocal known
            events: list[Event] = self._cluster.ask("events", app_id=self.app_id)["events"]
            found, known = events[known:], len(events)
            return found

        return new

    def restart_reader(self) -> RestartReader:
        retries = [[role.get("max_retries") or 0, ""] for role in self._roles]
        roles = [[role["name"], role.get("num_replicas", 1)] for role in self._roles]
        return RestartReader(self.events(), {"e": "created", "t": 0, "roles": roles, "retries": retries})

    def rounds(self) -> Iterator[bool]:
        yield self._has_ended(self.app_id, 1.0)
        while True:
            yield self._has_ended(self.app_id, _AGAIN_S)
