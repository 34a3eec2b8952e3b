"""The output of replicas, read from the cluster in blocks: each request has the next block of every log."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from launcher.errors import SchedulerError
from launcher.schedulers.ids import path_names
from launcher.schedulers.logs import COMBINED, RESTART, STDOUT, LogRecord, require_replica, tail
from launcher.schedulers.readback import AppLogs, Selection
from launcher.schedulers.restarts import Event, RestartNotes, RestartReader
from launcher.schedulers.slurm.cluster import Cluster
from launcher.schedulers.slurm.observe import Clusters, find, is_removed, seen, settled
from launcher.schedulers.slurm.state import Facts, names_of

_BLOCK = 4 << 20  # bytes of one answer
_UNSURE_S = 10.0  # of silence, before the queue is asked whether the app still runs


def found(clusters: Clusters, app_id: str) -> tuple[Cluster, Facts]:
    """The cluster and the facts of an app that may have logs. Raises SchedulerError when there is none."""
    answer = find(clusters, app_id)
    if answer is None:
        raise SchedulerError(f"there is no app `{app_id}`", hint="`launcher list` shows what there is")
    if is_removed(answer[1]):
        raise SchedulerError(f"the logs of {app_id} were removed", hint="only its outcome is still recorded")
    return answer


class RecordedEvents:
    """The events of an app in its record on the cluster. A call returns those that are new."""

    def __init__(self, cluster: Cluster, app_id: str) -> None:
        self._cluster = cluster
        self._app_id = app_id
        self._count = 0

    def __call__(self) -> list[Event]:
        events: list[Event] = self._cluster.ask("events", app_id=self._app_id)["events"]
        new, self._count = events[self._count :], len(events)
        return new


class Parser:
    """Blocks of one log, with the lines of its index, as records.

    Attributes:
        offset, index_offset: what was read so far, in bytes.
    """

    def __init__(self) -> None:
        self.offset = 0
        self.index_offset = 0
        self._entries: deque[tuple[int, int, str]] = deque()
        self._run = (0, STDOUT)  # time and stream of what comes next

    def feed(self, data: bytes, index: str) -> Iterator[LogRecord]:
        """The records of the next block.

        Args:
            index: whole lines, those of all of `data` among them.
        """
        self.index_offset += len(index.encode())
        for line in index.splitlines():
            at, time_ns, stream = line.split(" ", 2)
            self._entries.append((int(at), int(time_ns), stream))
        begin, end = self.offset, self.offset + len(data)
        while True:
            yield from self._reached()
            if self.offset >= end:
                return
            until = min(end, self._entries[0][0]) if self._entries else end
            piece = data[self.offset - begin : until - begin]
            self.offset = until
            yield LogRecord(*self._run, piece)

    def _reached(self) -> Iterator[LogRecord]:
        while self._entries and self._entries[0][0] <= self.offset:
            _, time_ns, stream = self._entries.popleft()
            if stream == RESTART:
                yield LogRecord(time_ns, RESTART, b"")
            else:
                self._run = (time_ns, stream)


class _Selected:
    """The selected records of one log.

    Args:
        by_line: whether a line that began before `since` is left out whole.

    Attributes:
        is_over: whether all that comes is later than `until`.
    """

    def __init__(self, want: Selection, *, by_line: bool) -> None:
        self._want = want
        self._first_ns = want.first_ns
        self._last_ns = want.last_ns
        self._by_line = by_line
        self._is_in_line: dict[str, bool] = {}  # stream → whether it is within a line that began before
        self.is_over = False

    def of(self, records: Iterable[LogRecord]) -> Iterator[LogRecord]:
        for record in records:
            if self._last_ns is not None and record.time_ns > self._last_ns:
                self.is_over = True
            if self.is_over:
                return
            if not self._want.has(record):
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
    """The logs of some replicas, block by block: (index of the replica, its new records).

    Args:
        parts: folder and number of each replica.

    Attributes:
        is_live: whether the app may write more than was read.
    """

    def __init__(self, cluster: Cluster, app_id: str, parts: Sequence[tuple[str, int]]) -> None:
        self._cluster = cluster
        self._app_id = app_id
        self._parts = parts
        self._parsers = [Parser() for _ in parts]
        self.is_live = True

    def present(self, wait_s: float = 0.0) -> Iterator[tuple[int, list[LogRecord]]]:
        """The logs as they are, or until they have been silent for so long."""
        while blocks := self._read(wait_s):
            yield from blocks

    def to_the_end(self) -> Iterator[tuple[int, list[LogRecord]]]:
        """The logs to the end of the app."""
        while True:
            yield from self.present(_UNSURE_S)
            if not self.is_live:
                return
            # It is perhaps over: record how Slurm ended it.
            settled(self._cluster, seen(self._cluster, app_ids=[self._app_id], ended=True))

    def _read(self, wait_s: float) -> list[tuple[int, list[LogRecord]]]:
        parts = [
            [folder, k, parser.offset, parser.index_offset]
            for (folder, k), parser in zip(self._parts, self._parsers, strict=True)
        ]
        fields = {"app_id": self._app_id, "parts": parts, "limit": _BLOCK, "seconds": wait_s}
        answer = self._cluster.ask("read", **fields)
        self.is_live = bool(answer["live"])
        read = (
            (at, list(self._parsers[at].feed(b64decode(data), index)))
            for at, (data, index) in enumerate(answer["parts"])
        )
        return [(at, records) for at, records in read if records]


class SlurmLogs(AppLogs):
    """The logs of replicas on a cluster. Raises SchedulerError for an unknown one, with what there is.

    Args:
        facts: of the app.
    """

    def __init__(self, cluster: Cluster, facts: Facts, replicas: Sequence[tuple[str, int]]) -> None:
        super().__init__(str(facts["attempt"]["app_id"]), replicas)
        self._cluster = cluster
        self._facts = facts
        names = [role["name"] for role in _roles(facts)]
        folders = dict(zip(names, path_names(names), strict=True))
        counts = Counter(role for role, _ in names_of(facts))
        for role, k in replicas:
            require_replica(self.app_id, counts, role, k)
        self._parts = [(folders[role], k) for role, k in replicas]

    def present(self, want: Selection) -> Iterator[tuple[int, bytes]]:
        is_plain = want.stream == COMBINED and want.since is None and want.until is None
        tails = self._last_lines(want.tail) if is_plain and want.tail is not None else []
        for at, part in enumerate(self._parts):
            if tails and (last := tails[at]) is not None:
                found: Iterable[bytes] = [last] if last else []
            else:
                found = self._selected(part, want)
                found = found if want.tail is None else tail(found, want.tail)
            yield from ((at, data) for data in found)

    def _last_lines(self, count: int) -> list[bytes | None]:
        """The last lines of each log; None for a log of which they are too long for one answer."""
        answer = self._cluster.ask("tail", app_id=self.app_id, parts=self._parts, lines=count, limit=_BLOCK)
        return [None if part is None else b64decode(part) for part in answer["parts"]]

    def _selected(self, part: tuple[str, int], want: Selection) -> Iterator[bytes]:
        selected = _Selected(want, by_line=True)
        for _, records in _Blocks(self._cluster, self.app_id, [part]).present():
            yield from (record.data for record in selected.of(records) if record.data)
            if selected.is_over:
                return

    def records(self, want: Selection) -> Iterator[LogRecord]:
        selected = _Selected(want, by_line=False)
        for _, records in _Blocks(self._cluster, self.app_id, self._parts).present():
            yield from selected.of(records)
            if selected.is_over:
                return

    def followed(
        self, want: Selection, notes: RestartNotes | None, *, marks: bool
    ) -> Iterator[tuple[int, LogRecord]]:
        blocks = _Blocks(self._cluster, self.app_id, self._parts)
        selected = [_Selected(want, by_line=not marks) for _ in self._parts]
        if want.tail is not None:  # the logs as they are, and then what follows
            held: list[list[bytes]] = [[] for _ in self._parts]
            for at, records in blocks.present():
                new = (record.data for record in selected[at].of(records))
                held[at] = list(tail([*held[at], *new], want.tail))
            for at, last in enumerate(held):
                yield from ((at, LogRecord(0, STDOUT, line)) for line in last)
        for at, records in blocks.to_the_end():
            yield from ((at, record) for record in selected[at].of(records))
            if all(each.is_over for each in selected):
                return

    def restart_reader(self) -> RestartReader:
        return restart_reader(self._cluster, self._facts)


def restart_reader(cluster: Cluster, facts: Facts) -> RestartReader:
    """Reads the restarts of an app; one whose roles have no retries is not asked about."""
    retries = [[role.get("max_retries") or 0, ""] for role in _roles(facts)]
    roles = [[role["name"], role.get("num_replicas", 1)] for role in _roles(facts)]
    declared = {"e": "created", "t": 0, "roles": roles, "retries": retries}
    return RestartReader(RecordedEvents(cluster, str(facts["attempt"]["app_id"])), declared)


def _roles(facts: Facts) -> list[dict[str, Any]]:
    document: Any = facts["attempt"].get("document") or {}
    return document.get("roles") or []
