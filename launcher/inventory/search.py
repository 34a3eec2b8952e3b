"""Search the kept logs of attempts for the lines that match, on every engine."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from launcher.dataclass import dataclass
from launcher.errors import LauncherError
from launcher.inventory import recorded
from launcher.inventory.attempts import Candidate, present
from launcher.inventory.find import Selected
from launcher.inventory.recorded import scheduler_of
from launcher.schedulers.logs import LineSearch, LogBlock, LogPart, LogsRemoved, LogsUnsupported
from launcher.schedulers.staged import StagedScheduler
from launcher.state.records import AppRecord

Written = Callable[[int], tuple[int, str, int]]
"""The time of each part of a block; see `LogBlock`."""
REMOVED = "their logs were removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The wanted lines.

    Attributes:
        before, after: the lines of context around each match.
        tail: only the last matches of each replica; None for all.
        role: only of replicas of this role; "" for all.
    """

    search: LineSearch
    stream: str = "combined"
    since: float | None = None
    before: int = 0
    after: int = 0
    tail: int | None = None
    role: str = ""


class FoundLine:
    """A line of output, a match or the context of one; or several matches with the same time.

    Attributes:
        begin, end: its offsets in the output read, which tell whether lines follow each other.
        text: includes the newline, which the last line of the output may lack.
    """

    __slots__ = ("begin", "end", "is_match", "stream", "text", "time_ns")

    def __init__(self, block: LogBlock, base: int, span: tuple[int, int], *, is_match: bool = True) -> None:
        start, end = span
        self.begin, self.end = base + start, base + end
        self.text = block.data[start:end]
        self.time_ns, self.stream, _ = block.written(start)
        self.is_match = is_match

    @property
    def count(self) -> int:
        return self.text.count(b"\n") + (not self.text.endswith(b"\n"))


class Searched:
    """The extent of a search: what it could read, and what it could not.

    Attributes:
        replicas: how many were searched.
        counts: reason → how many attempts could not be searched. A few names are kept for each.
    """

    MOST = 3

    def __init__(self) -> None:
        self.replicas = 0
        self.counts: dict[str, int] = {}
        self._ids: dict[str, list[str]] = {}

    def add(self, reason: str, app_id: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        ids = self._ids.setdefault(reason, [])
        if len(ids) < self.MOST:
            ids.append(app_id)

    def examples(self, reason: str) -> list[AppRecord | str]:
        """Return some of the apps with that reason; an app that is not recorded here as its id."""
        known = recorded.apps(self._ids[reason])
        return [known.get(app_id, app_id) for app_id in self._ids[reason]]


def search(
    candidates: Sequence[Candidate], query: Query, report: Searched
) -> Iterator[tuple[AppRecord, str, int, Iterator[FoundLine]]]:
    """Yield app, role and number of each replica whose output can be read, and its matching lines.

    Lines are searched as the caller takes them. Output that cannot be read is added to the report.
    """
    away: dict[str, str] = {}  # engine → the reason why it cannot be asked
    schedulers: dict[tuple[str, str], StagedScheduler[Any]] = {}
    for selected in present(candidates, lambda app_id: report.add(REMOVED, app_id)):
        app = selected.app
        engine = app.scheduler
        try:
            scheduler = schedulers.get((app.scheduler, app.session)) or _scheduler_of(app)
            schedulers[app.scheduler, app.session] = scheduler
            engine = scheduler.engine_of(app.app_id)
            if engine in away:
                report.add(away[engine], app.app_id)
                continue
            part, logs = LogPart(query.stream, query.since), scheduler.logs(app.app_id)
            known = logs.replicas()
            if known is None and (seen := scheduler.record(app.app_id)) is not None:
                known = [(each.role, each.k) for each in seen.replicas]
            if known is None:
                raise LogsRemoved(app.app_id)
            for where in known:
                if _is_wanted(query, selected, *where):
                    blocks = logs.blocks(where, part)
                    report.replicas += 1
                    yield app, *where, lines_of(blocks, query)
        except LogsRemoved:
            report.add(REMOVED, app.app_id)
        except LauncherError as error:
            reason = str(error)
            if app.app_id not in reason:  # the reason concerns the engine, not the app
                away[engine] = reason
            report.add(reason.replace(app.app_id, "it"), app.app_id)


def _scheduler_of(app: AppRecord) -> StagedScheduler[Any]:
    scheduler = scheduler_of(app)
    if not isinstance(scheduler, StagedScheduler):
        raise LogsUnsupported(f"{app.scheduler} does not support searching logs")
    return scheduler


def _is_wanted(query: Query, part: Selected, role: str, k: int) -> bool:
    is_named = part.role in ("", role) and (not part.replicas or k in part.replicas)
    return is_named and query.role in ("", role)


# -- the lines of one replica ------------------------------------------------------------------------------


def lines_of(blocks: Iterable[LogBlock], query: Query) -> Iterator[FoundLine]:
    """Yield the lines of one output that match, with their context, in order."""
    if query.before or query.after or query.tail is not None:
        found = _around(blocks, query)
        return found if query.tail is None else _last(found, query.tail, query.after)
    return _matches(blocks, query.search)


def _matches(blocks: Iterable[LogBlock], search: LineSearch) -> Iterator[FoundLine]:
    """Yield the matches. Consecutive ones of the same time come together, which is five times as fast."""
    for base, block in _whole_lines(blocks):
        spans = search.spans(block.data)
        done = 0
        while done < len(spans):
            line = FoundLine(block, base, spans[done])
            same = bisect_left(spans, (block.written(spans[done][0])[2],), done + 1)
            line.text = b"".join([block.data[start:end] for start, end in spans[done:same]])
            yield line
            done = same


def _around(blocks: Iterable[LogBlock], query: Query) -> Iterator[FoundLine]:
    held: deque[FoundLine] = deque(maxlen=query.before)  # the last lines of earlier blocks, not shown yet
    left = 0  # lines of context that are still to be shown after the last match
    for base, block in _whole_lines(blocks):
        context = partial(_context, block, base)
        shown = 0
        for start, end in query.search.spans(block.data):
            for line in context(_first_lines(block.data, shown, start, left)):
                yield line
                shown = line.end - base
            before = list(context(_last_lines(block.data, shown, start, query.before)))
            if not shown and len(before) < query.before:
                yield from list(held)[len(before) - query.before :]
            held.clear()
            yield from before
            yield FoundLine(block, base, (start, end))
            shown, left = end, query.after
        for line in context(_first_lines(block.data, shown, len(block.data), left)):
            yield line
            shown, left = line.end - base, left - 1
        held.extend(context(_last_lines(block.data, shown, len(block.data), query.before)))


def _context(block: LogBlock, base: int, spans: Iterable[tuple[int, int]]) -> Iterator[FoundLine]:
    return (FoundLine(block, base, span, is_match=False) for span in spans)


def _first_lines(data: bytes, start: int, end: int, count: int) -> Iterator[tuple[int, int]]:
    while start < end and count > 0:
        until = data.find(b"\n", start, end) + 1 or end
        yield start, until
        start, count = until, count - 1


def _last_lines(data: bytes, start: int, end: int, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while start < end and len(found) < count:
        begin = max(data.rfind(b"\n", start, end - 1) + 1, start)
        found.append((begin, end))
        end = begin
    return found[::-1]


def _last(lines: Iterable[FoundLine], count: int, after: int) -> Iterator[FoundLine]:
    """Return the last matches, each with its context."""
    groups: deque[list[FoundLine]] = deque(maxlen=count)
    begun: list[FoundLine] = []  # context before the next match
    left = 0
    for line in lines:
        if line.is_match:
            groups.append([*begun, line])
            begun, left = [], after
        elif left and groups:
            groups[-1].append(line)
            left -= 1
        else:
            begun.append(line)
    for group in groups:
        yield from group


def _whole_lines(blocks: Iterable[LogBlock]) -> Iterator[tuple[int, LogBlock]]:
    """Yield blocks with their offsets in the output; each but the last ends at a newline.

    Args:
        blocks: an empty block is the last; the source of the times may be closed after it.
    """
    base = 0
    held: list[bytes] = []
    first: Written | None = None  # gives the time of the incomplete line in `held`
    for block in blocks:
        end = block.data.rfind(b"\n") + 1
        if end:
            whole = _joined(held, first, block, end) if first else LogBlock(block.data[:end], block.written)
            yield base, whole
            base += len(whole.data)
            held, first = [], None
        if end < len(block.data):
            held.append(block.data[end:])
            first = first or partial(_written, block, end)
        elif not block.data and first:
            yield base, _joined(held, first, block, 0)
            first = None
    if first:
        yield base, _joined(held, first, LogBlock(b"", first), 0)


def _written(block: LogBlock, start: int, offset: int) -> tuple[int, str, int]:
    return block.written(start + offset)


def _joined(held: Sequence[bytes], first: Written, block: LogBlock, end: int) -> LogBlock:
    """Join a line begun in earlier blocks with the block that completes it."""
    data = b"".join([*held, block.data[:end]])
    shift = len(data) - end

    def written(offset: int) -> tuple[int, str, int]:
        time_ns, stream, until = block.written(offset - shift) if offset >= shift else first(0)
        return time_ns, stream, until + shift if offset >= shift else 1

    return LogBlock(data, written)
