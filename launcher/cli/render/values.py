"""Format durations, times, states and lists for people, and tables of them, without borders."""

from __future__ import annotations

import time

from launcher.cli.console import visible
from launcher.text import core_count, cores, memory, paint, plural, width, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from launcher.holding.use import Use
    from launcher.specs.attempt import Attempt

STATE_STYLES = {
    **dict.fromkeys(("reserved", "created", "submitted", "pending", "waiting", "queued"), "dim"),
    "running": "cyan",
    "succeeded": "green",
    **dict.fromkeys(("failed", "lost"), "bold red"),
    **dict.fromkeys(("cancelled", "skipped"), "yellow"),
}

WAITING = "waiting "
"""The beginning of a pending replica's message while the replica waits for another role."""


def is_waiting(message: str) -> bool:
    return message.startswith(WAITING)


def state_cell(state: str) -> tuple[str, str]:
    """A state with its colour, for a table."""
    return state.upper(), STATE_STYLES.get(state.lower(), "")


def duration(seconds: float) -> str:
    """`35ms`, `1.2s`, `12s`, `3m05s`, `2h10m`, `4d03h`: two units at most."""
    if seconds < 0:
        seconds = 0.0
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02}h"


def ago(moment: float | None, now: float) -> str:
    """Return the time since then, in one unit: `just now`, `12s ago`, `3m ago`, `2h ago`; "" for None."""
    if moment is None or moment <= 0:
        return ""
    seconds = int(now - moment)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit} ago"
    return f"{seconds}s ago" if seconds >= 2 else "just now"


def took(start: float | None, end: float | None, now: float | None = None) -> str:
    """The time between two moments, or until `now` without an end; "" if one is unknown."""
    last = end if end is not None else now
    return duration(last - start) if start and last else ""


def timestamp(moment: float | None) -> str:
    """Local date and time with the zone's offset, to the second; "" for None."""
    if not moment:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(moment))


def iso(moment: float | None) -> str | None:
    """UTC as RFC 3339 with milliseconds, for machines."""
    if not moment:
        return None
    whole, thousandths = divmod(round(moment * 1000), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{thousandths:03}Z"


def shortened(text: str, columns: int) -> str:
    """Shorten to at most `columns` by cutting the middle; long names differ at their end."""
    if width(text) <= columns:
        return text
    front = text[: _fitting(text, max(0, columns - 1) // 3)]
    back = _fitting(text[::-1], columns - 1 - width(front))
    return f"{front}…{text[len(text) - back :]}"


def cut(text: str, columns: int) -> str:
    """Shorten to at most `columns` by cutting the end."""
    return text if width(text) <= columns else f"{text[: _fitting(text, columns - 1)]}…"


def _fitting(text: str, columns: int) -> int:
    """Return how many of the first characters fit."""
    for number, char in enumerate(text):
        columns -= width(char)
        if columns < 0:
            return number
    return len(text)


def asked_for(document: Mapping[str, Any]) -> str:
    """The resources that the roles of a document ask for together: `4 cores, 16 GiB, 2 GPUs`; "" for none."""
    cpu = size = gpus = 0
    for role in document.get("roles", ()):
        resource, count = role.get("resource", {}), role.get("num_replicas", 1)
        cpu += resource.get("cpu_millis", 0) * count
        size += resource.get("memory_bytes", 0) * count
        gpus += resource.get("gpu", 0) * count
    words = [
        cores(cpu / 1000) if cpu > 0 else "",
        memory(size / 2**20) if size > 0 else "",
        plural(gpus, "GPU") if gpus > 0 else "",
    ]
    return ", ".join(filter(None, words))


MEASURED = {"process": "largest process", "cgroup": "peak", "accounting": "accounting", "samples": "samples"}
"""How memory was measured, by the source of a `Use`."""


def used(use: Use) -> str:
    """`1.8 cores on average, 3.1 GiB (largest process)`, of runs that have ended."""
    words = [f"{cores(use.cores)} on average" if use.has_cores else f"{duration(use.cpu_s)} of CPU time"]
    if use.memory:
        words.append(f"{memory(use.memory / 2**20)} ({MEASURED.get(use.source, use.source)})")
    return ", ".join(words)


def amount(name: str, value: float) -> str:
    """`1.8` for 1800 `cpu_millis`; `3.1 GiB` for `memory_bytes`; `2h10m` for `timeout_s`."""
    if name == "cpu_millis":
        return core_count(value / 1000)
    return memory(value / 2**20) if name == "memory_bytes" else duration(value)


def asked_and_used(asked: Mapping[str, Any], use: Use | None) -> tuple[str, ...]:
    """Return cores asked for and used, memory asked for and used, how it was measured, CPU time, duration.

    Each is "" where it is not known.

    Args:
        asked: the `resource` of a role, which each of its replicas asks for.
    """
    names = "cpu_millis", "memory_bytes"
    cpu, size = (amount(name, asked[name]) if asked.get(name, 0) > 0 else "" for name in names)
    if use is None:
        return (cpu, "", size, "", "", "", "")
    highest = amount("memory_bytes", use.memory) if use.memory else ""
    source, times = MEASURED.get(use.source, ""), (duration(use.cpu_s), duration(use.wall_s))
    busy = core_count(use.cores) if use.has_cores else ""
    return (cpu, busy, size, highest, source, *times)


def named(attempt: Attempt) -> dict[str, Any]:
    """Return the fields of a JSON object that identify an attempt."""
    return {
        "handle": attempt.handle,
        "app_id": attempt.app_id,
        "project": attempt.key.project,
        "target": attempt.key.target,
        "job": attempt.key.job,
        "attempt": attempt.number,
    }


Cell = str | tuple[str, str]  # text, or (text, style)

GAP = "  "


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    color: bool = False,
    columns: int | None = None,
) -> str:
    """The rows under their headings, one line each, without a newline at the end.

    Columns that are empty in every row are left out.

    Args:
        columns: width to which the text of the last column is wrapped, where that leaves room for it.
    """
    left = room(headings, rows, columns) if columns else 0
    if left >= _LEAST:
        rows = [line for row in rows for line in _lines(row, left)]
    lines: list[Sequence[Cell]] = [[(heading, "dim") for heading in headings], *rows]
    found = list(zip(*lines, strict=True))
    filled = [cells for cells in found if any(map(text_of, cells[1:]))] or found
    padded = [_padded(cells, color) for cells in filled]
    return "\n".join(GAP.join(line).rstrip() for line in zip(*padded, strict=True))


_LEAST = 12
"""The fewest columns to which a text is wrapped beside others."""
_ENOUGH = 20
"""The columns of a text for which no others are dropped."""


def _lines(row: Sequence[Cell], columns: int) -> Iterator[Sequence[Cell]]:
    """Yield the row with the first line of its last cell, and a row for each further line of that cell."""
    before, last = row[:-1], row[-1]
    for text in wrapped(text_of(last), columns):
        yield [*before, text if isinstance(last, str) else (text, last[1])]
        before = [""] * len(before)


def room(headings: Sequence[str], rows: Sequence[Sequence[Cell]], columns: int) -> int:
    """Return the columns that a table of this width leaves for the cells of its last column."""
    cells = [[text_of(row[k]) for row in rows] for k in range(len(headings) - 1)]
    sizes = [
        max(map(width, (heading, *each))) for heading, each in zip(headings, cells, strict=False) if any(each)
    ]
    return columns - sum(sizes) - len(GAP) * len(sizes)


def without_columns(
    headings: Sequence[str], rows: Sequence[list[Cell]], columns: int | None, dropped: Iterable[str]
) -> None:
    """Empty columns of a table in place, in the order of `dropped`, until the last one has room for text."""
    wanted = min(max((width(text_of(row[-1])) for row in rows), default=0), _ENOUGH)
    for column in map(headings.index, dropped):
        if columns is None or room(headings, rows, columns) >= wanted:
            break
        for row in rows:
            row[column] = ""


def fit(
    headings: Sequence[str],
    rows: list[list[Cell]],
    columns: int,
    shorter: Iterable[tuple[int, Sequence[Cell]]],
    *,
    wanted: int,
    least: int,
) -> None:
    """Shorten the cells of a table in place until its lines fit.

    Args:
        shorter: number of a column, and its shorter cells, in the order in which they are taken.
        wanted: room for the last column with which no further column is shortened.
        least: the last column gets no less room; where there is less, it is left out.
    """
    for column, cells in shorter:
        if room(headings, rows, columns) >= wanted:
            break
        for row, cell in zip(rows, cells, strict=True):
            row[column] = cell
    left = room(headings, rows, columns)
    for row in rows:
        row[-1] = shortened(text_of(row[-1]), left) if left >= least else ""


def _padded(cells: Sequence[Cell], color: bool) -> list[str]:
    """The cells of a column, painted, and with spaces up to the width of the widest one."""
    texts = [text_of(cell) for cell in cells]
    widths = [width(text) for text in texts]
    widest = max(widths)
    return [
        (text if isinstance(cell, str) else paint(text, cell[1], color)) + " " * (widest - size)
        for cell, text, size in zip(cells, texts, widths, strict=True)
    ]


def text_of(cell: Cell) -> str:
    """The text of a cell on one line, escaped as the console shows it."""
    text = cell if isinstance(cell, str) else cell[0]
    return text if text.isprintable() else visible(text.replace("\t", " ")).replace("\n", "\\n")
