"""Render a report as one HTML file: nothing is loaded, and a policy in its head forbids that, too.

All names, messages and lines of output are data of other programs: every text goes through `html`. Lengths of
bars are percentages, so that they fit any width; colours are classes of the report's style sheet.
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence

from launcher import __version__
from launcher.cli.render import report_tables as tables
from launcher.cli.render.apps import ran_for
from launcher.cli.render.report_tables import (
    PRINT_RULE,
    TITLES,
    Shares,
    badge,
    html,
    left_out,
    section,
    state_of,
)
from launcher.cli.render.report_text import commands, counted, facts_of, headline, scope_of, title_of
from launcher.cli.render.values import ago, duration, timestamp, took
from launcher.inventory.report import Failure, Report, ReportedApp, Wait
from launcher.inventory.timeline import Phase
from launcher.state.records import ENDED, LIVE
from launcher.text import FEW, listing, plural

LEAST_BYTES = 64_000
BYTES_PER_APP = 900
"""The fewest bytes that an app needs in all sections together; limits how many apps can be shown."""

_MOST_LANES = 12
_LARGE = 500
"""The number of attempts from which on browsers lay out only the visible sections of the page."""
_LEGEND = {
    "before": "being submitted", "needs": "waits for jobs or roles", "line": "in line", "running": "running",
    "succeeded": "succeeded", "failed": "failed", "pause": "pause before a restart", "stop": "being stopped",
}  # fmt: skip


def report_html(report: Report, *, max_bytes: int) -> str:
    """The page, in at most `max_bytes` bytes (LEAST_BYTES or more); what does not fit is counted."""
    scale = Scale.of(report)
    style, script = _asset("report.css") + _grid_rule(scale) + PRINT_RULE, _asset("report.js")
    head = _head(report, style)
    foot = f"<footer>launcher {html(__version__)}, {html(timestamp(report.made_at))}</footer>\n</main>\n"
    foot += f"<script>{script}</script>\n</body>\n</html>\n"
    budget = Shares(max_bytes - len((head + foot).encode(errors="backslashreplace")) - 8_000)
    sections = [
        _failures(report, budget),
        _waits(report, budget),
        _timeline(report, budget, scale),
        tables.uses(report, budget),
        tables.results(report, budget),
        tables.origins(report, budget),
        tables.graph(report, budget),
    ]
    return f"{head}{''.join(sections) or _NOTHING}{foot}"


_NOTHING = '<p class="note">Nothing ran.</p>\n'


def _asset(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _head(report: Report, style: str) -> str:
    allowed = f"style-src {_hash(style)}; script-src {_hash(_asset('report.js'))}"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'"
    states = [state for state in (*LIVE, *ENDED, "unknown") if report.counts.get(state)]
    tiles = "".join(
        f'<li class="{state}"><b>{report.counts[state]:,}</b><span class="state {state}">{state}</span></li>'
        for state in sorted(states, key=lambda state: state not in ("failed", "lost"))
    )
    boxes = "".join(
        f'<label><input type="checkbox" value="{state}" checked> {state}</label>' for state in states
    )
    title = html(title_of(report))
    folded = counted(report.folded)
    fold = f'<p class="fold">{html(folded)}</p>\n' if folded else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main{' class="large"' if len(report.entries) > _LARGE else ""}>
<p class="over">launcher report</p>
<h1>{title}</h1>
<p class="dim">{html(scope_of(report))}</p>
<ul class="counts">{tiles}</ul>
{fold}<nav aria-label="Sections">{_links(report)}</nav>
<div id="filter" role="search" hidden>
<input type="search" aria-label="Filter" placeholder="Filter by job or text" autocomplete="off">
{boxes}
<output></output>
</div>
"""


def _links(report: Report) -> str:
    there = {
        "failures": report.failures, "waits": report.waits, "time": report.entries, "use": report.uses,
        "results": report.results, "origin": report.entries, "needs": any(report.needs.values()),
    }  # fmt: skip
    return "".join(f'<a href="#{name}">{TITLES[name]}</a>' for name, found in there.items() if found)


# -- what failed, and what waits -----------------------------------------------------------------------------


def _failures(report: Report, budget: Shares) -> str:
    if not report.failures:
        return ""
    cards, _ = budget.take("failures", (_failure(each, report) for each in report.failures))
    count = sum(len(each.entries) for each in report.failures)
    rest = sum(len(each.entries) for each in report.failures[len(cards) :])
    alike = f" in {len(report.failures)} ways" if count > len(report.failures) > 1 else ""
    body = "".join(cards) + left_out(rest, "failures")
    return section("failures", plural(count, "attempt") + alike, body)


def _failure(failure: Failure, report: Report) -> str:
    entry = failure.entries[0]
    past = " past" if failure.since_then else ""
    lines = [f'<p class="cause">{html(headline(entry))}</p>']
    if entry.stack and entry.root is not None:
        lines.append(_block(f"the error that {entry.root.role}/{entry.root.k} reported", entry.stack))
    if entry.lines:
        lines.append(_block(f"the last lines of {entry.tail_of}", entry.lines))
    elif entry.unread:
        lines.append(f'<p class="note">No output is shown: {html(entry.unread)}</p>')
    elif entry.tail_of:
        lines.append(f'<p class="note">{html(entry.tail_of)} printed nothing.</p>')
    facts = {"Since then": failure.since_then, **facts_of(entry)}
    if len(failure.entries) > 1:
        facts["Failed alike"] = listing([each.name for each in failure.entries[1:]], FEW)
    if failure.skipped:
        facts["Not started"] = listing(failure.skipped, FEW)
    names = " ".join([headline(entry), *(each.name for each in failure.entries)])
    return _card(entry, report, past, "".join(lines), facts, () if past else commands(entry), names)


def _card(
    entry: ReportedApp,
    report: Report,
    kind: str,
    body: str,
    facts: Mapping[str, str],
    next_: Sequence[str],
    names: str,
) -> str:
    ended = ago(entry.app.ended_at or entry.app.created_at, report.made_at)
    ran = ran_for(entry.app, report.made_at)
    meta = [
        f"exit {entry.app.exit_code}" if entry.app.exit_code is not None else "",
        ran and f"ran {ran}",
        ended,
    ]
    kinds = dict.fromkeys(("Command", "App"), ' class="mono"')
    shown = "".join(
        f"<dt>{html(name)}</dt><dd{kinds.get(name, '')}>{html(text)}</dd>"
        for name, text in facts.items()
        if text
    )
    shown += "".join(
        f"<dt>{'Next' if not n else ''}</dt><dd><code>{html(each)}</code></dd>"
        for n, each in enumerate(next_)
    )
    return (
        f'<article class="card{kind}" data-s="{state_of(entry)}" data-n="{html(names)}">\n'
        f"<header><h3>{html(entry.name)}</h3>{badge(entry)}"
        f'<span class="meta">{html(" · ".join(filter(None, meta)))}</span></header>\n'
        f"{body}\n<dl>{shown}</dl>\n</article>\n"
    )


def _block(what: str, lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    return f'<p class="what">{html(what)}</p><pre>{html(text)}</pre>'


def _waits(report: Report, budget: Shares) -> str:
    if not report.waits:
        return ""
    cards, _ = budget.take("waits", (_wait(each, report) for each in report.waits))
    rest = len(report.waits) - len(cards)
    return section("waits", plural(len(report.waits), "app"), "".join(cards) + left_out(rest, "apps"))


def _wait(wait: Wait, report: Report) -> str:
    body = f'<p class="cause">{html(wait.text)}</p>'
    for_ = took(wait.entry.app.created_at, None, report.made_at)
    facts = {"For": for_, **facts_of(wait.entry)}
    return _card(
        wait.entry, report, " held", body, facts, commands(wait.entry), f"{wait.entry.name} {wait.text}"
    )


# -- the timeline --------------------------------------------------------------------------------------------


_STEPS_S = (
    1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000,
)  # fmt: skip
_MOST_TICKS = 8
_DAY_S = 86400
_LEAST = 0.25  # percent of the width: a shorter bar would be invisible

_KINDS = {
    "before": "being submitted",
    "needs": "waits for other jobs",
    "line": "waits in line",
    "order": "waits for other roles",
    "run": "running",
    "pause": "pause before a restart",
    "stop": "is being stopped",
}
"""Kind of a span → words for it."""


class Scale:
    """The period of time that bars are drawn on, with a little room at its end.

    Args:
        start, end: epoch seconds.
    """

    @classmethod
    def of(cls, report: Report) -> Scale:
        """Return the period that covers all phases of a report."""
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


def _timeline(report: Report, budget: Shares, scale: Scale) -> str:
    """The newest attempts that fit, in the order of their creation."""
    if not report.entries:
        return ""
    now = report.made_at
    rows, _ = budget.take("time", (_lines(entry, scale, now) for entry in report.entries))
    legend = "".join(f"<span>{_swatch(name)}{text}</span>" for name, text in _LEGEND.items())
    head = (
        '<table class="time"><thead><tr><th scope="col">Attempt</th><th scope="col" class="num">Took</th>'
        f'<th scope="col" class="draw">{_axis(scale)}</th></tr></thead>'
    )
    body = f'<p class="legend">{legend}</p>\n<div class="scroll">{head}\n<tbody>\n'
    body += "".join(reversed(rows)) + "</tbody></table></div>\n"
    rest = len(report.entries) - len(rows)
    return section("time", plural(len(rows), "attempt"), body + left_out(rest, "attempts"))


def _lines(entry: ReportedApp, scale: Scale, now: float) -> str:
    """Return a line for an attempt, and a line for each replica if these add anything."""
    state = state_of(entry)
    took_ = ran_for(entry.app, now)
    name = html(entry.name)
    text = (
        f'<tr data-s="{state}" data-c="1"><th scope="row" title="{name}">{name}</th>'
        f'<td class="num">{html(took_)}</td>'
        f'<td class="draw">{_bars(entry.timeline.phases, scale, now)}</td></tr>\n'
    )
    replicas = entry.timeline.replicas
    if len(replicas) < 2 and all(len(spans) < 2 for spans in replicas.values()):
        return text
    is_bad = {
        where: any(span.state in ("failed", "lost") for span in spans) for where, spans in replicas.items()
    }
    shown = sorted(replicas, key=lambda where: not is_bad[where])[:_MOST_LANES]
    lanes = [(f"{role}/{k}", _bars(replicas[role, k], scale, now, thin=True)) for role, k in shown]
    if (more := len(replicas) - len(shown)) > 0:
        lanes.append((f"and {more} more", ""))
    for lane, drawn in lanes:
        text += (
            f'<tr class="lane" data-s="{state}" data-n="{name}"><th scope="row">{html(lane)}</th><td></td>'
            f'<td class="draw">{drawn}</td></tr>\n'
        )
    return text


def _axis(scale: Scale) -> str:
    """The labels above bars; `_grid_rule` has the lines below them."""
    labels = (f'<text x="{x:.2f}%" dx="3" y="11">{html(text)}</text>' for x, text in scale.ticks() if x < 93)
    return f'<svg class="axis" height="16">{"".join(labels)}</svg>'


def _grid_rule(scale: Scale) -> str:
    """Return the style of the grid behind bars: one gradient, because browsers draw many lines slowly."""
    stops = ", ".join(
        f"transparent {x:.2f}%, var(--line) {x:.2f}%, var(--line) calc({x:.2f}% + 1px), "
        f"transparent calc({x:.2f}% + 1px)"
        for x, _ in scale.ticks()
    )
    return f".time .draw {{ background: linear-gradient(to right, {stops}); }}\n" if stops else ""


def _swatch(name: str) -> str:
    """A sample of the colour of a kind or a state, for a legend."""
    return f'<svg width="14" height="10"><rect class="{name}" width="14" height="10" rx="2"/></svg>'


def _bars(spans: Sequence[Phase], scale: Scale, now: float, *, thin: bool = False) -> str:
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
    what = span.state or _KINDS[span.kind]
    title = f"{what}, {long}, from {timestamp(span.start)}" + (f": {span.text}" if span.text else "")
    name = span.state or ("running" if span.kind == "run" else span.kind)
    name = span.kind if span.kind not in ("run", "before") else name
    x = min(left, 100 - size)
    place = f'x="{x:.2f}%" width="{size:.2f}%" {place}'
    return f'<rect class="{name}" {place} rx="1.5"><title>{html(title)}</title></rect>'
