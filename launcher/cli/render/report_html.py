"""Render a report as one HTML file: nothing is loaded, and a policy in its head forbids that, too.

All names, messages and lines of output are data of other programs: every text goes through `html`.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence

from launcher import __version__
from launcher.cli.render import report_svg as svg
from launcher.cli.render import report_tables as tables
from launcher.cli.render.apps import ran_for
from launcher.cli.render.report_svg import Scale, html
from launcher.cli.render.report_tables import PRINT_RULE, TITLES, Shares, badge, left_out, section, state_of
from launcher.cli.render.report_text import (
    commands,
    counted,
    facts_of,
    headline,
    scope_of,
    title_of,
)
from launcher.cli.render.values import ago, timestamp, took
from launcher.inventory.report import Failure, Report, ReportedApp, Wait
from launcher.state.records import ENDED, LIVE
from launcher.text import FEW, listing, plural

LEAST_BYTES = 64_000
BYTES_PER_APP = 900
"""The fewest bytes that an app takes in all sections; it limits how many apps can be shown."""

_MOST_LANES = 12
_LARGE = 500
"""Attempts of a page from which on browsers lay out only the sections on the screen."""
_LEGEND = {
    "before": "being submitted", "needs": "waits for jobs or roles", "line": "in line", "running": "running",
    "succeeded": "succeeded", "failed": "failed", "pause": "pause before a restart", "stop": "being stopped",
}  # fmt: skip


def report_html(report: Report, *, max_bytes: int) -> str:
    """The page, in at most `max_bytes` bytes (LEAST_BYTES or more); what does not fit is counted."""
    scale = Scale.of(report)
    style, script = _asset("report.css") + svg.grid_rule(scale) + PRINT_RULE, _asset("report.js")
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


def _timeline(report: Report, budget: Shares, scale: Scale) -> str:
    """The newest attempts that fit, in the order of their creation."""
    if not report.entries:
        return ""
    now = report.made_at
    rows, _ = budget.take("time", (_lines(entry, scale, now) for entry in report.entries))
    legend = "".join(f"<span>{svg.swatch(name)}{text}</span>" for name, text in _LEGEND.items())
    head = (
        '<table class="time"><thead><tr><th scope="col">Attempt</th><th scope="col" class="num">Took</th>'
        f'<th scope="col" class="draw">{svg.axis(scale)}</th></tr></thead>'
    )
    body = f'<p class="legend">{legend}</p>\n<div class="scroll">{head}\n<tbody>\n'
    body += "".join(reversed(rows)) + "</tbody></table></div>\n"
    rest = len(report.entries) - len(rows)
    return section("time", plural(len(rows), "attempt"), body + left_out(rest, "attempts"))


def _lines(entry: ReportedApp, scale: Scale, now: float) -> str:
    """Return a line for an attempt, and a line for each replica that has more to show."""
    state = state_of(entry)
    took_ = ran_for(entry.app, now)
    name = html(entry.name)
    text = (
        f'<tr data-s="{state}" data-c="1"><th scope="row" title="{name}">{name}</th>'
        f'<td class="num">{html(took_)}</td>'
        f'<td class="draw">{svg.bars(entry.timeline.phases, scale, now)}</td></tr>\n'
    )
    replicas = entry.timeline.replicas
    if len(replicas) < 2 and all(len(spans) < 2 for spans in replicas.values()):
        return text
    is_bad = {
        where: any(span.state in ("failed", "lost") for span in spans) for where, spans in replicas.items()
    }
    shown = sorted(replicas, key=lambda where: not is_bad[where])[:_MOST_LANES]
    lanes = [(f"{role}/{k}", svg.bars(replicas[role, k], scale, now, thin=True)) for role, k in shown]
    if (more := len(replicas) - len(shown)) > 0:
        lanes.append((f"and {more} more", ""))
    for lane, drawn in lanes:
        text += (
            f'<tr class="lane" data-s="{state}" data-n="{name}"><th scope="row">{html(lane)}</th><td></td>'
            f'<td class="draw">{drawn}</td></tr>\n'
        )
    return text
