"""Render a report as one HTML file: nothing is loaded, and a policy in its head forbids that, too.

All names, messages and lines of output are data of other programs: every text goes through `html`.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from launcher import __version__
from launcher.cli.render import report_svg as svg
from launcher.cli.render.apps import ran_for
from launcher.cli.render.report_svg import Node, Scale, html
from launcher.cli.render.report_text import (
    asked_and_used,
    commands,
    counted,
    difference,
    facts_of,
    headline,
    number,
    scope_of,
    title_of,
)
from launcher.cli.render.values import ago, listing, timestamp, took
from launcher.inventory.report import Entry, Failure, Key, Report, RoleUse, Wait
from launcher.inventory.results import METRICS
from launcher.inventory.timeline import Span
from launcher.state.records import ENDED, LIVE
from launcher.text import FEW, plural

LEAST_BYTES = 64_000
BYTES_PER_APP = 900
"""What an app takes at least in all sections: how many can be shown at all follows from it."""

_SHARES = {"failures": 30, "waits": 5, "time": 30, "use": 10, "results": 5, "origin": 18, "needs": 2}
"""Section → its part of the bytes; what one leaves goes to those after it."""

_MOST_LANES = 12
_MOST_NODES = 60
_LEGEND = {
    "before": "being submitted", "needs": "waits for jobs or roles", "line": "in line", "running": "running",
    "succeeded": "succeeded", "failed": "failed", "pause": "pause before a restart", "stop": "being stopped",
}  # fmt: skip


class Budget:
    """The bytes that are left for sections."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._weights = dict(_SHARES)

    def take(self, section: str, pieces: Iterable[str]) -> tuple[list[str], bool]:
        """The first pieces that fit the part of a section; whether those are all."""
        room = self._left * self._weights[section] // sum(self._weights.values())
        del self._weights[section]
        taken: list[str] = []
        is_whole = True
        for piece in pieces:
            size = len(piece.encode(errors="backslashreplace"))
            if size > room:
                is_whole = False
                break
            room -= size
            self._left -= size
            taken.append(piece)
        return taken, is_whole


def report_html(report: Report, *, max_bytes: int) -> str:
    """The page, in at most `max_bytes` bytes (LEAST_BYTES or more); what does not fit is counted."""
    style, script = _asset("report.css"), _asset("report.js")
    head = _head(report, style)
    foot = f"<footer>launcher {html(__version__)}, {html(timestamp(report.made_at))}</footer>\n</main>\n"
    foot += f"<script>{script}</script>\n</body>\n</html>\n"
    budget = Budget(max_bytes - len((head + foot).encode(errors="backslashreplace")) - 8_000)
    sections = [
        _failures(report, budget),
        _waits(report, budget),
        _timeline(report, budget),
        _uses(report, budget),
        _results(report, budget),
        _origins(report, budget),
        _graph(report, budget),
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
<main>
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


_TITLES = {
    "failures": "What failed, and why",
    "waits": "What waits, and for what",
    "time": "Timeline",
    "use": "Asked for, and used",
    "results": "Results",
    "origin": "Where it is from",
    "needs": "What needs what",
}


def _links(report: Report) -> str:
    there = {
        "failures": report.failures, "waits": report.waits, "time": report.entries, "use": report.uses,
        "results": report.results, "origin": report.entries, "needs": any(report.needs.values()),
    }  # fmt: skip
    return "".join(f'<a href="#{name}">{_TITLES[name]}</a>' for name, found in there.items() if found)


def _section(name: str, note: str, body: str) -> str:
    small = f" <small>{html(note)}</small>" if note else ""
    return f'<section id="{name}">\n<h2>{_TITLES[name]}{small}</h2>\n{body}</section>\n'


def _left_out(count: int, what: str) -> str:
    """A line about those that the size of the page leaves out; "" for none."""
    return (
        f'<p class="note">{html(f"… and {count:,} older {what}")}, left out by --max-bytes</p>\n'
        if count
        else ""
    )


def _table(headings: Sequence[str], rows: Sequence[str]) -> str:
    """`headings`: those of columns of numbers begin with `#`."""
    cells = "".join(
        f'<th scope="col" class="num">{html(each[1:])}</th>'
        if each[:1] == "#"
        else f'<th scope="col">{html(each)}</th>'
        for each in headings
    )
    head = f"<table><thead><tr>{cells}</tr></thead>"
    return f'<div class="scroll">{head}\n<tbody>\n{"".join(rows)}</tbody></table></div>\n'


def _row(entry: Entry, *cells: str, name: str = "") -> str:
    shown = html(name or entry.name)
    return f'<tr data-s="{_state(entry)}"><th scope="row">{shown}</th>{"".join(cells)}</tr>\n'


def _cell(text: str, kind: str = "") -> str:
    return f'<td class="{kind}">{html(text)}</td>' if kind else f"<td>{html(text)}</td>"


def _state(entry: Entry) -> str:
    return entry.app.state if entry.app.state in (*LIVE, *ENDED) else "unknown"


def _badge(entry: Entry) -> str:
    return f'<span class="state {_state(entry)}">{_state(entry)}</span>'


# -- what failed, and what waits -----------------------------------------------------------------------------


def _failures(report: Report, budget: Budget) -> str:
    if not report.failures:
        return ""
    cards, _ = budget.take("failures", (_failure(each, report) for each in report.failures))
    count = sum(len(each.entries) for each in report.failures)
    rest = sum(len(each.entries) for each in report.failures[len(cards) :])
    alike = f" in {len(report.failures)} ways" if count > len(report.failures) > 1 else ""
    body = "".join(cards) + _left_out(rest, "failures")
    return _section("failures", plural(count, "attempt") + alike, body)


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
    entry: Entry,
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
    shown = "".join(_fact(name, text) for name, text in facts.items() if text)
    shown += "".join(
        f"<dt>{'Next' if not n else ''}</dt><dd><code>{html(each)}</code></dd>"
        for n, each in enumerate(next_)
    )
    return (
        f'<article class="card{kind}" data-s="{_state(entry)}" data-n="{html(names)}">\n'
        f"<header><h3>{html(entry.name)}</h3>{_badge(entry)}"
        f'<span class="meta">{html(" · ".join(filter(None, meta)))}</span></header>\n'
        f"{body}\n<dl>{shown}</dl>\n</article>\n"
    )


def _fact(name: str, text: str) -> str:
    kind = ' class="mono"' if name in ("Command", "App") else ""
    return f"<dt>{html(name)}</dt><dd{kind}>{html(text)}</dd>"


def _block(what: str, lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    return f'<p class="what">{html(what)}</p><pre>{html(text)}</pre>'


def _waits(report: Report, budget: Budget) -> str:
    if not report.waits:
        return ""
    cards, _ = budget.take("waits", (_wait(each, report) for each in report.waits))
    rest = len(report.waits) - len(cards)
    return _section("waits", plural(len(report.waits), "app"), "".join(cards) + _left_out(rest, "apps"))


def _wait(wait: Wait, report: Report) -> str:
    body = f'<p class="cause">{html(wait.text)}</p>'
    for_ = took(wait.entry.app.created_at, None, report.made_at)
    facts = {"For": for_, **facts_of(wait.entry)}
    return _card(
        wait.entry, report, " held", body, facts, commands(wait.entry), f"{wait.entry.name} {wait.text}"
    )


# -- the timeline --------------------------------------------------------------------------------------------


def _timeline(report: Report, budget: Budget) -> str:
    """The newest attempts that fit, in the order of their creation."""
    spans = [span for entry in report.entries for span in entry.timeline.phases]
    if not spans:
        return ""
    now = report.made_at
    scale = Scale(min(span.start for span in spans), max(span.end or now for span in spans))
    rows, _ = budget.take("time", (_lines(entry, scale, now) for entry in report.entries))
    legend = "".join(f"<span>{svg.swatch(name)}{text}</span>" for name, text in _LEGEND.items())
    head = (
        '<table class="time"><thead><tr><th scope="col">Attempt</th><th scope="col" class="num">Took</th>'
        f'<th scope="col" class="draw">{svg.axis(scale)}</th></tr></thead>'
    )
    body = f'<p class="legend">{legend}</p>\n<div class="scroll">{head}\n<tbody>\n'
    body += "".join(reversed(rows)) + "</tbody></table></div>\n"
    rest = len(report.entries) - len(rows)
    return _section("time", plural(len(rows), "attempt"), body + _left_out(rest, "attempts"))


def _lines(entry: Entry, scale: Scale, now: float) -> str:
    """A line for an attempt, and one for each replica that has more to tell."""
    state = _state(entry)
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
    shown = sorted(replicas, key=lambda where: not _is_bad(replicas[where]))[:_MOST_LANES]
    lanes = [(f"{role}/{k}", svg.bars(replicas[role, k], scale, now, thin=True)) for role, k in shown]
    if (more := len(replicas) - len(shown)) > 0:
        lanes.append((f"and {more} more", ""))
    for lane, drawn in lanes:
        text += (
            f'<tr class="lane" data-s="{state}" data-n="{name}"><th scope="row">{html(lane)}</th><td></td>'
            f'<td class="draw">{drawn}</td></tr>\n'
        )
    return text


def _is_bad(spans: Sequence[Span]) -> bool:
    return any(span.state in ("failed", "lost") for span in spans)


# -- use, results, origins -----------------------------------------------------------------------------------


def _uses(report: Report, budget: Budget) -> str:
    if not report.uses:
        return ""
    rows, _ = budget.take("use", map(_use, report.uses))
    headings = (
        "Attempt",
        "Role",
        "#Replicas",
        "#Cores asked",
        "#used",
        "#Memory asked",
        "#used",
        "Measured",
        "#CPU time",
        "#Ran",
    )
    body = _table(headings, rows) + _left_out(len(report.uses) - len(rows), "rows")
    return _section("use", "by replica; cores are a mean, memory is the highest", body)


def _use(use: RoleUse) -> str:
    shown = asked_and_used(use)
    cores = (
        svg.gauge(use.used.cores, use.asked["cpu_millis"] / 1000)
        if use.asked.get("cpu_millis", 0) > 0
        else ""
    )
    memory = use.asked.get("memory_bytes", 0)
    room = svg.gauge(use.used.memory, memory) if use.used.memory and memory > 0 else ""
    return _row(
        use.entry,
        _cell(use.role),
        _cell(str(use.replicas), "num"),
        _cell(shown.cores_asked, "num"),
        f'<td class="num">{cores}{html(shown.cores)}</td>',
        _cell(shown.memory_asked, "num"),
        f'<td class="num">{room}{html(shown.memory)}</td>',
        _cell(shown.source),
        _cell(shown.cpu, "num"),
        _cell(shown.wall, "num"),
    )


def _results(report: Report, budget: Budget) -> str:
    if not report.results:
        return ""
    rows = (
        _row(
            each.entry,
            _cell(name, "wrap"),
            _cell(number(each.old[name]) if name in each.old else "", "num"),
            _cell(number(value), "num"),
            _cell(difference(each.old.get(name), value), "num"),
            name=f"{each.entry.app.job}",
        )
        for each in report.results
        for name, value in each.new.items()
    )
    taken, is_whole = budget.take("results", rows)
    body = _table(("Job", "Metric", "#Success before", "#Latest success", "#Change"), taken)
    body += "" if is_whole else '<p class="note">More are left out by --max-bytes</p>\n'
    return _section("results", f"{METRICS} in the output folders", body)


def _origins(report: Report, budget: Budget) -> str:
    """Where the attempts are from; columns that are empty in every row are left out."""
    if not report.entries:
        return ""
    attempts = [each.attempt for each in report.entries if each.attempt is not None]
    columns = {
        "State": True,
        "Created": True,
        "Why it ran": any(each.why for each in report.entries),
        "Commit": any(each.commit for each in attempts),
        "Pull request": any(each.pull_request or each.run_url for each in attempts),
        "By": any(each.actor for each in attempts),
        "File": bool(attempts),
        "Digest": bool(attempts),
    }
    there = [name for name, is_there in columns.items() if is_there]
    found = (_origin(each, report) for each in report.entries)
    lines = (
        _row(each, *(cells[name] for name in there))
        for each, cells in zip(report.entries, found, strict=True)
    )
    rows, _ = budget.take("origin", lines)
    body = _table(("Attempt", *there), rows) + _left_out(len(report.entries) - len(rows), "attempts")
    return _section("origin", "", body)


def _origin(entry: Entry, report: Report) -> dict[str, str]:
    """Heading → cell."""
    attempt, at = entry.attempt, entry.app.created_at
    cells = dict.fromkeys(("Why it ran", "Commit", "Pull request", "File", "Digest"), "<td></td>")
    cells |= {
        "State": f"<td>{_badge(entry)}</td>",
        "Created": f'<td title="{html(timestamp(at))}">{html(ago(at, report.made_at))}</td>',
        "By": _cell(entry.app.actor),
    }
    if attempt is None:
        return cells
    commit, dash, rest = attempt.commit.partition("-")
    digest = attempt.digest.rpartition(":")[2]
    return cells | {
        "Why it ran": _cell(entry.why, "wrap"),
        "Commit": f'<td class="mono" title="{html(attempt.commit)}">{html(commit[:7] + dash + rest)}</td>',
        "Pull request": f"<td>{_pull_request(attempt.pull_request, attempt.run_url)}</td>",
        "By": _cell(attempt.actor),
        "File": _cell(attempt.path, "wrap"),
        "Digest": f'<td class="mono" title="{html(attempt.digest)}">{html(digest[:8])}</td>',
    }


def _pull_request(number_: str, run_url: str) -> str:
    """The number, and the address of the run, as links where those are addresses of the web."""
    shown = f"#{html(number_)}" if number_ else ""
    if not run_url.startswith(("https://", "http://")):
        return shown
    repository, is_github, _ = run_url.partition("/actions/runs/")
    if shown and is_github:
        shown = f'<a href="{html(f"{repository}/pull/{number_}")}">{shown}</a>'
    return f'{shown} <a href="{html(run_url)}">run</a>'.strip()


# -- the graph of needs --------------------------------------------------------------------------------------


def _graph(report: Report, budget: Budget) -> str:
    """The jobs that need another one, or are needed; those of one file as one box where they are many."""
    edges = {key: needs for key, needs in report.needs.items() if needs}
    involved = dict.fromkeys(key for pair in edges.items() for key in (*pair[1], pair[0]))
    if not involved:
        return ""
    latest = report.latest
    group = {key: _name_in_graph(key, latest, fold=len(involved) > _MOST_NODES) for key in involved}
    members: dict[str, list[Key]] = {}
    for key, name in group.items():
        members.setdefault(name, []).append(key)
    needs: dict[str, list[str]] = {}
    for key, of in edges.items():
        known = needs.setdefault(group[key], [])
        known += [group[need] for need in of if group[need] not in (*known, group[key])]
    nodes = {name: _node(keys, latest) for name, keys in members.items()}
    drawn, is_whole = budget.take("needs", [svg.graph(nodes, needs)])
    body = (
        f'<div class="scroll">{"".join(drawn)}</div>\n'
        if is_whole
        else '<p class="note">Left out by --max-bytes</p>\n'
    )
    return _section("needs", plural(len(involved), "job"), body)


def _name_in_graph(key: Key, latest: Mapping[Key, Entry], *, fold: bool) -> str:
    entry = latest.get(key)
    if fold and entry is not None and entry.attempt is not None:
        return "\0".join((*key[:2], entry.attempt.origin, entry.attempt.path))
    return "\0".join(key)


def _node(keys: Sequence[Key], latest: Mapping[Key, Entry]) -> Node:
    states = Counter(latest[key].app.state if key in latest else "" for key in keys)
    worst = next((state for state in ("failed", "lost", "running", "queued", "waiting") if states[state]), "")
    state = worst or next(iter(states))
    if len(keys) == 1:
        job, entry = keys[0][2], latest.get(keys[0])
        note = f"attempt {entry.app.number} {entry.app.state}" if entry is not None else "not in this report"
        return Node(
            job,
            state,
            note,
            f"{job}: {note}" + (f", {entry.app.message}" if entry and entry.app.message else ""),
        )
    first = min(key[2] for key in keys)
    words = ", ".join(f"{count} {name or 'not in this report'}" for name, count in states.most_common())
    return Node(f"{first} and {len(keys) - 1} more", state, words, words)
