"""Draw the pictures of a report as inline SVG: bars of time, bars of use, and the graph of needs.

Lengths of bars are percentages, so that they fit any width; colours are classes of the report's style sheet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from launcher.cli.console import visible
from launcher.cli.render.values import duration, shortened, timestamp, width
from launcher.inventory.report import Report
from launcher.inventory.timeline import Phase

_STEPS_S = (
    1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000,
)  # fmt: skip
_MOST_TICKS = 8
_DAY_S = 86400
_LEAST = 0.25  # percent: a shorter bar would not be seen

KINDS = {
    "before": "being submitted",
    "needs": "waits for other jobs",
    "line": "waits in line",
    "order": "waits for other roles",
    "run": "running",
    "pause": "pause before a restart",
    "stop": "is being stopped",
}
"""Kind of a span → words for it."""


def html(text: str) -> str:
    """Escape text for HTML or SVG; control and reordering characters become visible escapes."""
    return escape(visible(text))


class Scale:
    """The stretch of time that bars are drawn on, with a little room at its end.

    Args:
        start, end: epoch seconds.
    """

    @classmethod
    def of(cls, report: Report) -> Scale:
        """The stretch of all phases of a report."""
        spans = [span for entry in report.entries for span in entry.timeline.phases]
        now = report.made_at
        starts, ends = [span.start for span in spans], [span.end or now for span in spans]
        return cls(min(starts, default=now), max(ends, default=now))

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.size = max(end - start, 1.0) * 1.01

    def at(self, moment: float) -> float:
        """Return the position of a moment in percent of the width."""
        return min(100.0, max(0.0, (moment - self.start) / self.size * 100))

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield (position in percent, local time) of a few round moments."""
        step = next((each for each in _STEPS_S if self.size / each <= _MOST_TICKS), None)
        step = step or -(-int(self.size / _MOST_TICKS) // _STEPS_S[-1]) * _STEPS_S[-1]
        zone = time.localtime(self.start).tm_gmtoff
        moment = -(-(self.start + zone) // step) * step - zone
        day = ""
        while moment < self.start + self.size:
            local = time.localtime(moment)
            date = time.strftime("%d %b", local)
            clock = "" if step >= _DAY_S else time.strftime("%H:%M:%S" if step < 60 else "%H:%M", local)
            yield self.at(moment), " ".join(filter(None, (date if date != day or not clock else "", clock)))
            day, moment = date, moment + step


def axis(scale: Scale) -> str:
    """The labels above bars; `grid_rule` has the lines below them."""
    labels = (f'<text x="{x:.2f}%" dx="3" y="11">{html(text)}</text>' for x, text in scale.ticks() if x < 93)
    return f'<svg class="axis" height="16">{"".join(labels)}</svg>'


def grid_rule(scale: Scale) -> str:
    """The style of the grid behind bars: one gradient, since a line for each bar takes browsers long."""
    stops = ", ".join(
        f"transparent {x:.2f}%, var(--line) {x:.2f}%, var(--line) calc({x:.2f}% + 1px), "
        f"transparent calc({x:.2f}% + 1px)"
        for x, _ in scale.ticks()
    )
    return f".time .draw {{ background: linear-gradient(to right, {stops}); }}\n" if stops else ""


def swatch(name: str) -> str:
    """A sample of the colour of a kind or a state, for a legend."""
    return f'<svg width="14" height="10"><rect class="{name}" width="14" height="10" rx="2"/></svg>'


def bars(spans: Sequence[Phase], scale: Scale, now: float, *, thin: bool = False) -> str:
    """Return one line of bars; each shows its kind, start and duration on hover."""
    high, top = (6, 4) if thin else (10, 3)
    drawn = "".join(_bar(span, scale, now, f'y="{top}" height="{high}"') for span in spans)
    return f'<svg class="bar" height="{high + 2 * top}">{drawn}</svg>'


def _bar(span: Phase, scale: Scale, now: float, place: str) -> str:
    left, right = scale.at(span.start), scale.at(now if span.end is None else span.end)
    if right - left < 0.01 and span.kind != "run":
        return ""
    size = max(right - left, _LEAST)
    long = duration((now if span.end is None else span.end) - span.start)
    what = span.state or KINDS[span.kind]
    title = f"{what}, {long}, from {timestamp(span.start)}" + (f": {span.text}" if span.text else "")
    name = span.state or ("running" if span.kind == "run" else span.kind)
    name = span.kind if span.kind not in ("run", "before") else name
    x = min(left, 100 - size)
    place = f'x="{x:.2f}%" width="{size:.2f}%" {place}'
    return f'<rect class="{name}" {place} rx="1.5"><title>{html(title)}</title></rect>'


def gauge(used: float, asked: float) -> str:
    """A bar of use against what was asked for, full at both; the part beyond what was asked for is marked."""
    most = max(used, asked) or 1.0
    share, limit = used / most * 100, asked / most * 100
    parts = [("track", 0.0, 100.0), ("running", 0.0, min(share, limit)), ("failed", limit, share - limit)]
    drawn = "".join(
        f'<rect class="{name}" x="{x:.1f}%" width="{size:.1f}%" height="6" y="2"/>'
        for name, x, size in parts
        if size > 0
    )
    return f'<svg class="gauge" width="64" height="10">{drawn}</svg>'


# -- the graph of needs --------------------------------------------------------------------------------------


class Box(NamedTuple):
    """A job, or all jobs of one file. `state` colours it; `note` is its second line."""

    label: str
    state: str
    note: str
    title: str


_WIDE, _HIGH, _APART, _BELOW = 190, 38, 56, 12


def graph(nodes: Mapping[str, Box], needs: Mapping[str, Sequence[str]]) -> str:
    """The jobs as boxes, each right of all that it needs.

    Args:
        needs: name of a node → the names of the nodes that it needs.
    """
    layers = _layers(nodes, needs)
    place = {
        name: (column * (_WIDE + _APART), row * (_HIGH + _BELOW))
        for column, names in enumerate(layers)
        for row, name in enumerate(names)
    }
    wide = len(layers) * (_WIDE + _APART) - _APART
    high = max(map(len, layers)) * (_HIGH + _BELOW) - _BELOW
    edges = "".join(
        _edge(place[need], place[name])
        for name, of in needs.items()
        for need in of
        if name in place and need in place
    )
    boxes = "".join(_box(node, *place[name]) for name, node in nodes.items())
    arrow = '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    arrow += ' orient="auto"><path d="M0 0L8 4L0 8z"/></marker>'
    return (
        f'<svg class="graph" viewBox="-1 -1 {wide + 2} {high + 2}" width="{wide + 2}" height="{high + 2}" '
        f'role="img" aria-label="Which job needs which"><defs>{arrow}</defs>{edges}{boxes}</svg>'
    )


def _layers(nodes: Mapping[str, Box], needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Arrange the nodes in columns, near the nodes that they need. A circle, which no plan makes, is cut."""
    depth: dict[str, int] = {}
    left = dict.fromkeys(nodes)
    while left:
        ready = [name for name in left if all(need in depth for need in needs.get(name, ()) if need in nodes)]
        for name in ready or list(left):
            known = [depth[need] for need in needs.get(name, ()) if need in depth]
            depth[name] = max(known, default=-1) + 1
            del left[name]
    found: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, column in depth.items():
        found[column].append(name)
    row: dict[str, float] = {}
    for names in found:
        rows = {name: [row[need] for need in needs.get(name, ()) if need in row] for name in names}
        middles = {name: sum(of) / len(of) if of else 0.0 for name, of in rows.items()}
        names.sort(key=middles.__getitem__)
        row |= {name: number for number, name in enumerate(names)}
    return found


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1, x2, y2 = start[0] + _WIDE, start[1] + _HIGH // 2, end[0], end[1] + _HIGH // 2
    bend = (x1 + x2) // 2
    return f'<path class="edge" d="M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}" marker-end="url(#arrow)"/>'


def _box(node: Box, x: int, y: int) -> str:
    label = node.label if width(node.label) <= 25 else shortened(node.label, 25)
    return (
        f'<g transform="translate({x} {y})"><title>{html(node.title)}</title>'
        f'<rect class="box" width="{_WIDE}" height="{_HIGH}" rx="5"/>'
        f'<rect class="{node.state or "none"}" width="4" height="{_HIGH}" rx="2"/>'
        f'<text x="14" y="16">{html(label)}</text>'
        f'<text class="note" x="14" y="30">{html(node.note)}</text></g>'
    )
