"""Live progress of apps on a terminal. The only module that imports rich."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

from rich.console import Console as RichConsole, Group
from rich.live import Live
from rich.text import Text

from launcher.cli.console import visible
from launcher.cli.render.values import STATE_STYLES, duration, is_waiting, shortened, state_cell
from launcher.dataclass import dataclass
from launcher.state.records import ENDED, LIVE, WAITING
from launcher.text import natural, plural

if TYPE_CHECKING:
    from launcher.specs.launch import JobKey
    from launcher.state.records import AppRecord, ReplicaRecord

RECENT_S = 60.0
"""How long a job that has ended keeps its row."""

_INDENT = "  "
_BESIDE = 3  # rows for other lines: two headings, and the count of jobs without a row
_LEAST = 2
"""The fewest jobs with a common beginning of their names that form a family, like the jobs of a matrix."""


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """One line of the table.

    Attributes:
        kind: a job; the heading of a family; a group of jobs that have not started; a note.
        text: the text to show; for a job of a family, the part of its name that differs from the others.
        job: the name of the job, or of the first one of a group.
        state, count: state and size of a group.
    """

    kind: Literal["job", "heading", "group", "note"]
    text: str
    job: str = ""
    state: str = ""
    count: int = 0


def rows(states: Mapping[str, str], recent: Sequence[str], height: int) -> list[ProgressRow]:
    """Return the running jobs, `recent`, a row for each group that has not started, and the counts.

    Args:
        states: name of each job → its state.
        recent: the names of the jobs that have ended a moment ago, the newest first.
        height: how many rows there may be, at least 3.
    """
    families = _families(states)
    held = [name for name in states if states[name] in WAITING]
    groups = _groups(held, states, families)
    counts = [ProgressRow("note", counted(states))] if len(states) > 1 else []
    room = max(1, height - len(counts))
    groups = _cut(groups, max(1, room // 3 if len(groups) < len(states) else room), "groups")
    running = [name for name in states if states[name] not in (*WAITING, *ENDED)]
    newest = recent[: max(0, room - len(groups) - len(running) - _BESIDE)]
    shown = [*_sorted(running), *_sorted(newest)]
    jobs = _jobs(shown, families, room - len(groups), len(recent) - len(newest))
    return [*jobs, *groups, *counts]


def counted(states: Mapping[str, str]) -> str:
    """`200 jobs: 8 running, 3 succeeded, 189 queued`."""
    known = [*states.values()]
    order = [state for state in LIVE if state not in WAITING] + [*ENDED, *WAITING]
    order += sorted({*known}.difference(order))
    counts = [f"{known.count(state):,} {state}" for state in order if state in known]
    return f"{plural(len(known), 'job')}: {', '.join(counts)}"


def _jobs(names: Sequence[str], families: Mapping[str, str], room: int, left: int) -> list[ProgressRow]:
    """Return the rows of jobs, families below headings; the last row counts `left` and jobs without a row."""
    made: list[ProgressRow] = []
    heading = ""
    for name in names:
        family = families.get(name, "")
        if family and family != heading:
            made.append(ProgressRow("heading", f"{family}*"))
        heading = family
        made.append(ProgressRow("job", _INDENT + name[len(family) :] if family else name, name))
    return _cut(made, room, "jobs", left)


def _cut(made: list[ProgressRow], room: int, what: str, left: int = 0) -> list[ProgressRow]:
    if not left and len(made) <= room:
        return made
    kept = made[: max(0, room - 1)]
    if kept and kept[-1].kind == "heading":
        kept.pop()
    left += sum(each.kind != "heading" for each in made) - sum(each.kind != "heading" for each in kept)
    return [*kept, ProgressRow("note", f"… and {left:,} more {what if left > 1 else what[:-1]}")]


def _groups(held: Sequence[str], states: Mapping[str, str], families: Mapping[str, str]) -> list[ProgressRow]:
    found: dict[tuple[str, str], list[str]] = {}
    for name in _sorted(held):
        found.setdefault((families.get(name) or name, states[name]), []).append(name)
    return [
        ProgressRow("group", f"{family}*" if len(names) > 1 else names[0], names[0], state, len(names))
        for (family, state), names in found.items()
    ]


def _families(names: Mapping[str, str]) -> dict[str, str]:
    """Return name → the common beginning of its family, `sweep-lr-`; names without a family are absent."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.partition("-")[0], []).append(name)
    found = {}
    for each in alike.values():
        common = _common(min(each), max(each))
        if len(each) >= _LEAST and common:
            found.update(dict.fromkeys(each, common))
    return found


def _common(first: str, last: str) -> str:
    """Return the common beginning of two names, up to a dash."""
    same = 0
    while same < len(first) and first[same] == last[same : same + 1]:
        same += 1
    return first[: first.rfind("-", 0, same) + 1]


def _sorted(names: Sequence[str]) -> list[str]:
    return sorted(names, key=natural)


_MOST_DOTS = 32  # replicas of a role shown one by one; beyond that they are counted
_LEAST_ROWS = 3
_DOT = {"succeeded": "✔", "failed": "✘", "lost": "✘", "cancelled": "✘", "running": "●"}


class Progress:
    """A live table on stderr of images being pulled or built and of running apps: state, replicas, time."""

    def __init__(self) -> None:
        self._seen: dict[JobKey, AppRecord] = {}
        self._began: dict[JobKey, float] = {}
        self._ended: dict[JobKey, float] = {}
        self._images: dict[tuple[JobKey, str], str] = {}
        self._lock = threading.Lock()
        self._console = console = RichConsole(file=sys.stderr, highlight=False)
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Progress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, key: JobKey, app: AppRecord) -> None:
        """Show the present state of an app. Called from any thread."""
        with self._lock:
            self._seen[key] = app
            if not app.is_held:
                self._began.setdefault(key, app.started_at or time.time())
            if app.has_ended:
                self._ended.setdefault(key, app.ended_at or time.time())

    def image(self, key: JobKey, image: str, doing: str) -> bool:
        """Show what is being done with an image of a job, "" when done. Returns whether anything is shown."""
        with self._lock:
            self._images.pop((key, image), None)
            if doing:
                self._images[key, image] = doing
            return bool(self._images or self._seen)

    def forget(self, key: JobKey) -> None:
        """Remove the images of a job."""
        with self._lock:
            for which in [which for which in self._images if which[0] == key]:
                del self._images[which]

    def say(self, line: str) -> None:
        """Print a line above the table."""
        self._live.console.print(Text.from_ansi(visible(line, color=True)))

    def _table(self) -> Group:
        size = self._console.size
        with self._lock:
            lines = self._lines(max(_LEAST_ROWS, size.height - 1))
        beside = max((sum(2 + cell.cell_len for cell in cells) for _, cells in lines), default=0)
        for name, cells in lines:
            if cells:
                name.plain = shortened(name.plain, max(size.width // 3, size.width - beside))
        return Group(*_aligned(lines))

    def _lines(self, height: int) -> list[tuple[Text, list[Text]]]:
        """Name and cells of each row: images, then jobs (see `live_rows`)."""
        names = Counter(key.job for key in self._seen)
        keys = {key.job if names[key.job] == 1 else str(key): key for key in self._seen}
        states = {name: self._seen[key].state for name, key in keys.items()}
        since = time.time() - RECENT_S
        ended = [(self._ended[key], name) for name, key in keys.items() if key in self._ended]
        recent = [name for at, name in sorted(ended, reverse=True) if at > since]
        most = height - (_LEAST_ROWS if keys else 0)
        images = [
            (Text(key.job, "bold"), [Text(visible(doing), "dim", no_wrap=True, overflow="ellipsis")])
            for (key, _), doing in self._images.items()
        ][:most]
        return [*images, *(self._line(row, keys) for row in rows(states, recent, height - len(images)))]

    def _line(self, row: ProgressRow, keys: Mapping[str, JobKey]) -> tuple[Text, list[Text]]:
        if row.kind == "job":
            return Text(row.text, "bold"), self._cells(keys[row.job])
        if row.kind != "group":
            return Text(row.text, "bold" if row.kind == "heading" else "dim", no_wrap=True), []
        state, why = self._cells(keys[row.job])
        if row.count > 1:
            why = Text(f"{plural(row.count, 'job')}, the first {why.plain}", "dim")
            why.no_wrap, why.overflow = True, "ellipsis"
        return Text(row.text, "bold"), [state, why]

    def _cells(self, key: JobKey) -> list[Text]:
        """The state, and the replicas with the time that they have run, or why nothing has started."""
        app = self._seen[key]
        state = Text(*state_cell(app.state))
        if app.is_held:
            return [state, Text(visible(app.message), "dim", no_wrap=True, overflow="ellipsis")]
        took = self._ended.get(key, time.time()) - self._began[key]
        clock = duration(took) if took >= 1 else f"{took:.1f}s"  # no flicker of milliseconds
        return [state, Text.assemble(_roles(app), "  ", (clock, "dim"))]


def _aligned(lines: list[tuple[Text, list[Text]]]) -> Iterator[Text]:
    """Align the cells of the lines in columns; a line without cells has no limit of width."""
    columns = zip_longest(*([name, *cells] for name, cells in lines if cells))
    widths = [max(cell.cell_len for cell in column if cell is not None) for column in columns]
    for name, cells in lines:
        line = Text(no_wrap=True, overflow="ellipsis")
        for cell, size in zip([name, *cells], widths, strict=False) if cells else [(name, 0)]:
            line += cell
            line += Text(" " * max(0, size - cell.cell_len) + "  ")
        line.rstrip()
        yield line


def _roles(app: AppRecord) -> Text:
    """Every role with a mark per replica, or with counts if there are many."""
    roles: dict[str, list[ReplicaRecord]] = {}
    for each in app.replicas:
        roles.setdefault(each.role, []).append(each)
    text = Text()
    for role, replicas in roles.items():
        if text:
            text.append("  ")
        text.append(f"{visible(role)} ")
        states = [each.state for each in replicas]
        if len(states) <= _MOST_DOTS:
            for state in states:
                text.append(_DOT.get(state, "○"), STATE_STYLES.get(state, "dim"))
        else:
            counts = [(each, states.count(each)) for each in sorted(set(states))]
            parts = [Text(f"{count:,} {each}", STATE_STYLES.get(each, "")) for each, count in counts]
            text.append(Text(", ").join(parts))
        waiting = next((each.message for each in replicas if is_waiting(each.message)), "")
        if waiting:
            text.append(f" {visible(waiting)}", "dim")
    if app.num_restarts > 0:
        text.append(f"  {plural(app.num_restarts, 'restart')}", "yellow")
    return text
