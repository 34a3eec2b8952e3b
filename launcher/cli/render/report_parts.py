"""Build the sections of a report's page: shares of bytes, headings, rows and cells.

All names, messages and lines of output are data of other programs: every text goes through `html`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from launcher.cli.render.report_svg import html
from launcher.inventory.report import Entry
from launcher.state.records import ENDED, LIVE

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


class Shares:
    """The bytes that are left for sections."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._weights = dict(_SHARES)

    def take(self, section: str, pieces: Iterable[str]) -> tuple[list[str], bool]:
        """Return the first pieces that fit the part of a section, and whether those are all."""
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


def row(entry: Entry, *cells: str, name: str = "") -> str:
    shown = html(name or entry.name)
    return f'<tr data-s="{state_of(entry)}"><th scope="row">{shown}</th>{"".join(cells)}</tr>\n'


def cell(text: str, kind: str = "") -> str:
    return f'<td class="{kind}">{html(text)}</td>' if kind else f"<td>{html(text)}</td>"


def state_of(entry: Entry) -> str:
    return entry.app.state if entry.app.state in (*LIVE, *ENDED) else "unknown"


def badge(entry: Entry) -> str:
    return f'<span class="state {state_of(entry)}">{state_of(entry)}</span>'
