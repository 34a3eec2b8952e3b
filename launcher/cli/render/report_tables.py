"""Render the sections of a report's page: tables of use, results and origins, and its graph of needs.

All names, messages and lines of output are data of other programs: every text goes through `html`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from launcher.ci_environment import pull_request
from launcher.cli.console import visible
from launcher.cli.render.report_text import folded_uses, ran_in
from launcher.cli.render.values import ago, asked_and_used, shortened, timestamp
from launcher.inventory.outputs import FILE, shown
from launcher.inventory.report import Key, Report, ReportedApp, RoleUse
from launcher.state.records import ENDED, LIVE
from launcher.text import plural, width

_SHARES = {"failures": 30, "waits": 5, "time": 30, "use": 10, "results": 5, "origin": 18, "needs": 2}
"""Section → its part of the bytes; bytes that a section does not use go to the sections after it."""

TITLES = {
    "failures": "What failed, and why",
    "waits": "What waits, and for what",
    "time": "Timeline",
    "use": "Asked for, and used",
    "results": "Results",
    "origin": "Where it is from",
    "needs": "What needs what",
}

_ROWS, _CARDS = 300, 60
"""The most rows and cards of a section that are printed: browsers take minutes to lay out thousands."""
_SHOWN = "of :not([hidden])"
PRINT_RULE = f"""@media print {{
  .card:nth-child(n + {_CARDS + 2} {_SHOWN}),
  table:not(.time) > tbody > tr:nth-child(n + {_ROWS + 1} {_SHOWN}),
  .time > tbody > tr:nth-last-child(n + {_ROWS + 1} {_SHOWN}) {{ display: none; }}
}}
"""
"""The style that leaves the oldest rows and cards out of print. The heading of a section counts as a card."""


def html(text: str) -> str:
    """Escape text for HTML or SVG; control and reordering characters become visible escapes."""
    return escape(visible(text))


class Shares:
    """The bytes that are left for the sections of a page."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._weights = dict(_SHARES)

    def take(self, section: str, pieces: Iterable[str]) -> tuple[list[str], bool]:
        """Return the first pieces that fit into a section, and whether those are all."""
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


def section(name: str, note: str, body: str) -> str:
    small = f" <small>{html(note)}</small>" if note else ""
    for mark, most, what in (("<tr data-s", _ROWS, "rows"), ("<article", _CARDS, "entries")):
        if (count := body.count(mark)) > most:
            text = f"{most} of {count:,} {what} are printed, the newest; filter the page to print others"
            body += f'<p class="note print">{text}</p>\n'
    return f'<section id="{name}">\n<h2>{TITLES[name]}{small}</h2>\n{body}</section>\n'


def left_out(count: int, what: str) -> str:
    """Return a line that counts the items that the size of the page leaves out; "" for none."""
    return (
        f'<p class="note">{html(f"… and {count:,} older {what}")}, left out by --max-bytes</p>\n'
        if count
        else ""
    )


def table(headings: Sequence[str], rows: Sequence[str]) -> str:
    """Return a table. The headings of number columns begin with `#`."""
    cells = "".join(
        f'<th scope="col" class="num">{html(each[1:])}</th>'
        if each[:1] == "#"
        else f'<th scope="col">{html(each)}</th>'
        for each in headings
    )
    head = f"<table><thead><tr>{cells}</tr></thead>"
    return f'<div class="scroll">{head}\n<tbody>\n{"".join(rows)}</tbody></table></div>\n'


def row(entry: ReportedApp, *cells: str, name: str = "") -> str:
    shown = html(name or entry.name)
    return f'<tr data-s="{state_of(entry)}"><th scope="row">{shown}</th>{"".join(cells)}</tr>\n'


def cell(text: str, kind: str = "") -> str:
    return f'<td class="{kind}">{html(text)}</td>' if kind else f"<td>{html(text)}</td>"


def state_of(entry: ReportedApp) -> str:
    return entry.app.state if entry.app.state in (*LIVE, *ENDED) else "unknown"


def badge(entry: ReportedApp) -> str:
    return f'<span class="state {state_of(entry)}">{state_of(entry)}</span>'


_MOST_NODES = 60
"""The most nodes in the graph; where there are more, the jobs of one file share a box."""


def uses(report: Report, budget: Shares) -> str:
    if not report.uses:
        return ""
    folded = folded_uses(report)
    rows, _ = budget.take("use", (_use(*each) for each in folded))
    headings = (
        "Attempt", "Role", "#Replicas", "#Cores asked", "#used", "#Memory asked", "#used", "Measured",
        "#CPU time", "#Ran",
    )  # fmt: skip
    body = table(headings, rows) + left_out(len(folded) - len(rows), "rows")
    return section("use", "by replica; cores are a mean, memory is the highest", body)


def _use(name: str, use: RoleUse) -> str:
    cores_asked, cores, memory_asked, memory, source, cpu, _ = asked_and_used(use.asked, use.used)
    millis, size = use.asked.get("cpu_millis", 0), use.asked.get("memory_bytes", 0)
    busy = _gauge(use.used.cores, millis / 1000) if millis > 0 else ""
    room = _gauge(use.used.memory, size) if use.used.memory and size > 0 else ""
    return row(
        use.entry,
        cell(use.role),
        cell(str(use.replicas), "num"),
        cell(cores_asked, "num"),
        f'<td class="num">{busy}{html(cores)}</td>',
        cell(memory_asked, "num"),
        f'<td class="num">{room}{html(memory)}</td>',
        cell(source),
        cell(cpu, "num"),
        cell(ran_in(use.used), "num"),
        name=name,
    )


def _gauge(used: float, asked: float) -> str:
    """Return a bar of used and asked amounts; the part beyond the asked amount is marked."""
    most = max(used, asked) or 1.0
    share, limit = used / most * 100, asked / most * 100
    parts = [("track", 0.0, 100.0), ("running", 0.0, min(share, limit)), ("failed", limit, share - limit)]
    drawn = "".join(
        f'<rect class="{name}" x="{x:.1f}%" width="{size:.1f}%" height="6" y="2"/>'
        for name, x, size in parts
        if size > 0
    )
    return f'<svg class="gauge" width="64" height="10">{drawn}</svg>'


def results(report: Report, budget: Shares) -> str:
    if not report.results:
        return ""
    rows = (
        row(
            each.entry,
            cell(result.name, "wrap"),
            cell(shown(result.old), "num"),
            cell(shown(result.new), "num"),
            cell(result.change, "num"),
            name=f"{each.entry.app.job}",
        )
        for each in report.results
        for result in each.rows
    )
    taken, is_whole = budget.take("results", rows)
    body = table(("Job", "Metric", "#Success before", "#Latest success", "#Change"), taken)
    body += "" if is_whole else '<p class="note">More are left out by --max-bytes</p>\n'
    return section("results", f"{FILE} in the output folders", body)


def origins(report: Report, budget: Shares) -> str:
    """Return a table of the attempts' origins; columns that are empty in every row are left out."""
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
        row(each, *(cells[name] for name in there)) for each, cells in zip(report.entries, found, strict=True)
    )
    rows, _ = budget.take("origin", lines)
    body = table(("Attempt", *there), rows) + left_out(len(report.entries) - len(rows), "attempts")
    return section("origin", "", body)


def _origin(entry: ReportedApp, report: Report) -> dict[str, str]:
    """Return heading → cell, for the origin of an attempt."""
    attempt, at = entry.attempt, entry.app.created_at
    cells = dict.fromkeys(("Why it ran", "Commit", "Pull request", "File", "Digest"), "<td></td>")
    cells |= {
        "State": f"<td>{badge(entry)}</td>",
        "Created": f'<td title="{html(timestamp(at))}">{html(ago(at, report.made_at))}</td>',
        "By": cell(entry.app.actor),
    }
    if attempt is None:
        return cells
    commit, dash, rest = attempt.commit.partition("-")
    digest = attempt.digest.rpartition(":")[2]
    return cells | {
        "Why it ran": cell(entry.why, "wrap"),
        "Commit": f'<td class="mono" title="{html(attempt.commit)}">{html(commit[:7] + dash + rest)}</td>',
        "Pull request": f"<td>{_pull_request(attempt.pull_request, attempt.run_url)}</td>",
        "By": cell(attempt.actor),
        "File": cell(attempt.path, "wrap"),
        "Digest": f'<td class="mono" title="{html(attempt.digest)}">{html(digest[:8])}</td>',
    }


def _pull_request(number_: str, run_url: str) -> str:
    """The number, and the address of the run, as links where those are addresses of the web."""
    name, page = pull_request(number_, run_url)
    shown = html(name) if number_ else ""
    if not run_url.startswith(("https://", "http://")):
        return shown
    if shown and page:
        shown = f'<a href="{html(page)}">{shown}</a>'
    return f'{shown} <a href="{html(run_url)}">run</a>'.strip()


class _Node(NamedTuple):
    """A job, or all jobs of one file. `state` colours it; `note` is its second line."""

    label: str
    state: str
    note: str
    title: str


_WIDE, _HIGH, _APART, _BELOW = 190, 38, 56, 12


def graph(report: Report, budget: Shares) -> str:
    """Return a graph of the jobs with needs or dependents; many jobs of one file share a box."""
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
    drawn, is_whole = budget.take("needs", [_drawn(nodes, needs)])
    body = (
        f'<div class="scroll">{"".join(drawn)}</div>\n'
        if is_whole
        else '<p class="note">Left out by --max-bytes</p>\n'
    )
    return section("needs", plural(len(involved), "job"), body)


def _name_in_graph(key: Key, latest: Mapping[Key, ReportedApp], *, fold: bool) -> str:
    entry = latest.get(key)
    if fold and entry is not None and entry.attempt is not None:
        return "\0".join((*key[:2], entry.attempt.origin, entry.attempt.path))
    return "\0".join(key)


def _node(keys: Sequence[Key], latest: Mapping[Key, ReportedApp]) -> _Node:
    states = Counter(latest[key].app.state if key in latest else "" for key in keys)
    worst = next((state for state in ("failed", "lost", "running", "queued", "waiting") if states[state]), "")
    state = worst or next(iter(states))
    if len(keys) == 1:
        job, entry = keys[0][2], latest.get(keys[0])
        note = f"attempt {entry.app.number} {entry.app.state}" if entry is not None else "not in this report"
        return _Node(
            job,
            state,
            note,
            f"{job}: {note}" + (f", {entry.app.message}" if entry and entry.app.message else ""),
        )
    first = min(key[2] for key in keys)
    words = ", ".join(f"{count} {name or 'not in this report'}" for name, count in states.most_common())
    return _Node(f"{first} and {len(keys) - 1} more", state, words, words)


def _drawn(nodes: Mapping[str, _Node], needs: Mapping[str, Sequence[str]]) -> str:
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


def _layers(nodes: Mapping[str, _Node], needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
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


def _box(node: _Node, x: int, y: int) -> str:
    label = node.label if width(node.label) <= 25 else shortened(node.label, 25)
    return (
        f'<g transform="translate({x} {y})"><title>{html(node.title)}</title>'
        f'<rect class="box" width="{_WIDE}" height="{_HIGH}" rx="5"/>'
        f'<rect class="{node.state or "none"}" width="4" height="{_HIGH}" rx="2"/>'
        f'<text x="14" y="16">{html(label)}</text>'
        f'<text class="note" x="14" y="30">{html(node.note)}</text></g>'
    )
