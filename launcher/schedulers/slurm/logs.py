"""The output of replicas, read from the cluster in blocks: each request has the next block of every log."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from launcher.schedulers.ids import path_names
from launcher.schedulers.logs import (
    COMBINED,
    RESTART,
    STDOUT,
    LogRecord,
    lines,
    require_replica,
    since_ns,
    until_ns,
)
from launcher.schedulers.logs import tail as last_lines
from launcher.schedulers.slurm.cluster import Cluster
from launcher.schedulers.slurm.state import Facts, names_of

_BLOCK = 4 << 20  # bytes of one answer
_UNSURE_S = 10.0  # of silence, before the queue is asked whether the app still runs

OnMark = Callable[[str, int, int], None]
"""Called with role, replica and the time (ns) of a restart, before the output that follows it."""


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


class Source:
    """The logs of some replicas of one app.

    Args:
        facts: of the app.
        settle: called when an app that seems to run has been silent for long: it records how Slurm ended it.

    Raises SchedulerError for an unknown role or replica, with what there is.
    """

    def __init__(
        self,
        cluster: Cluster,
        facts: Facts,
        replicas: Sequence[tuple[str, int]],
        *,
        settle: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._app_id = str(facts["attempt"]["app_id"])
        self._settle = settle
        folders = _folders(facts)
        counts = Counter(role for role, _ in names_of(facts))
        for role, k in replicas:
            require_replica(self._app_id, counts, role, k)
        self._folders = [folders[role] for role, _ in replicas]
        self.replicas = list(replicas)
        self._parsers = [Parser() for _ in replicas]
        self.is_live = True

    def read(self, wait_s: float = 0.0) -> list[tuple[int, list[LogRecord]]]:
        """The next block: (index of the replica, its new records) of each with any.

        `is_live` is then whether the app may write more.

        Args:
            wait_s: how long to wait for anything new while the app is live.
        """
        parts = [
            [folder, k, parser.offset, parser.index_offset]
            for folder, (_, k), parser in zip(self._folders, self.replicas, self._parsers, strict=True)
        ]
        fields = {"app_id": self._app_id, "parts": parts, "limit": _BLOCK, "seconds": wait_s}
        answer = self._cluster.ask("read", **fields)
        self.is_live = bool(answer["live"])
        found = []
        for at, (data, index) in enumerate(answer["parts"]):
            if records := list(self._parsers[at].feed(b64decode(data), index)):
                found.append((at, records))
        return found

    def last_lines(self, count: int) -> list[bytes | None]:
        """The last lines of each log; None for a log of which they are too long for one answer."""
        parts = [[folder, k] for folder, (_, k) in zip(self._folders, self.replicas, strict=True)]
        answer = self._cluster.ask("tail", app_id=self._app_id, parts=parts, lines=count, limit=_BLOCK)
        return [None if part is None else b64decode(part) for part in answer["parts"]]

    def blocks(self, *, follow: bool) -> Iterator[tuple[int, list[LogRecord]]]:
        """`read`, to the end of the present logs or, followed, to the end of the app."""
        while True:
            found = self.read(_UNSURE_S if follow else 0.0)
            yield from found
            if not found:
                if not (follow and self.is_live):
                    return
                self._settle()


def records(
    source: Source,
    stream: str,
    since: float | None,
    until: float | None,
    *,
    follow: bool,
    on_mark: OnMark | None = None,
) -> Iterator[LogRecord]:
    """The records of a source of one replica."""
    first = 0 if since is None else since_ns(since)
    last = None if until is None else until_ns(until)
    (name,) = source.replicas
    for _, found in source.blocks(follow=follow):
        for record in found:
            if last is not None and record.time_ns > last:
                return
            is_wanted = stream in (COMBINED, record.stream) or record.stream == RESTART
            if record.time_ns < first or not is_wanted:
                continue
            if record.stream == RESTART and on_mark is not None:
                on_mark(*name, record.time_ns)
            yield record


def chunks(
    make: Callable[[Sequence[tuple[str, int]]], Source],
    replicas: Sequence[tuple[str, int]],
    stream: str,
    since: float | None,
    until: float | None,
    *,
    tail: int | None,
    follow: bool,
    on_mark: OnMark | None = None,
) -> Iterator[tuple[str, int, bytes]]:
    """(role, replica, bytes): one replica after the other, or as they write when they are followed.

    Args:
        make: the source of some replicas.
    """
    if follow and until is None:
        yield from _followed(make(replicas), stream, since, tail, on_mark)
        return
    if tail is not None and stream == COMBINED and since is None and until is None:
        yield from _tails(make, replicas, tail)
        return
    for role, k in replicas:
        found = _selected(make([(role, k)]), stream, since, until, follow=follow)
        for data in found if tail is None or follow else last_lines(found, tail):
            yield role, k, data


def _tails(
    make: Callable[[Sequence[tuple[str, int]]], Source], replicas: Sequence[tuple[str, int]], count: int
) -> Iterator[tuple[str, int, bytes]]:
    """The last lines of each replica, read from the end of its log where they are short enough."""
    for (role, k), found in zip(replicas, make(replicas).last_lines(count), strict=True):
        if found is None:
            whole = _selected(make([(role, k)]), COMBINED, None, None, follow=False)
            yield from ((role, k, data) for data in last_lines(whole, count))
        elif found:
            yield role, k, found


def _selected(
    source: Source, stream: str, since: float | None, until: float | None, *, follow: bool
) -> Iterator[bytes]:
    """The output of one replica, or of the lines that began in time."""
    every = records(source, stream, None, until, follow=follow)
    if since is None and until is None:
        yield from (record.data for record in every if record.data)
        return
    first = 0 if since is None else since_ns(since)
    yield from (line for time_ns, line in lines(every) if time_ns >= first)


class _Begin:
    """Where the followed output of one replica begins: at the first line that began in time."""

    def __init__(self, since: float | None) -> None:
        self._first = None if since is None else since_ns(since)
        self._is_in_line: dict[str, bool] = {}

    def cut(self, record: LogRecord) -> bytes:
        """What of a record is to be shown."""
        if self._first is None:
            return record.data
        within = self._is_in_line.get(record.stream, False)
        if record.time_ns < self._first:
            self._is_in_line[record.stream] = not record.data.endswith(b"\n")
            return b""
        if not within:
            return record.data
        _, newline, rest = record.data.partition(b"\n")
        self._is_in_line[record.stream] = not newline
        return rest


def _followed(
    source: Source, stream: str, since: float | None, tail: int | None, on_mark: OnMark | None
) -> Iterator[tuple[str, int, bytes]]:
    begins = [_Begin(since) for _ in source.replicas]

    def shown(at: int, found: Sequence[LogRecord], mark: OnMark | None) -> Iterator[bytes]:
        for record in found:
            if record.stream == RESTART:
                if mark is not None and record.time_ns >= since_ns(since or 0.0):
                    mark(*source.replicas[at], record.time_ns)
            elif stream in (COMBINED, record.stream) and (data := begins[at].cut(record)):
                yield data

    if tail is not None:  # the log as it is, and then what follows
        held: list[list[bytes]] = [[] for _ in source.replicas]
        while found := source.read():
            for at, each in found:
                held[at] = list(last_lines([*held[at], *shown(at, each, None)], max(tail, 1)))
        for at, parts in enumerate(held):
            for data in parts if tail else ():
                yield *source.replicas[at], data
    for at, each in source.blocks(follow=True):
        for data in shown(at, each, on_mark):
            yield *source.replicas[at], data


def _folders(facts: Facts) -> dict[str, str]:
    document: Any = facts["attempt"].get("document") or {}
    names = [role["name"] for role in document.get("roles") or ()]
    return dict(zip(names, path_names(names), strict=True))
