"""Convert a TOML file to its canonical text.

`key = value`, one statement a line, tables in the order of the language with an empty line between; values
stay as written, except quotes and spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import NamedTuple

from launcher.dataclass import dataclass, field
from launcher.jobfile.format.style import ITEM, Comment, Odd, Path, arranged, fields, requoted
from launcher.jobfile.text.document import Spot
from launcher.jobfile.text.toml_positions import NotToml, Statement, statements

_COMMENT = re.compile(r"#.*")


@dataclass(slots=True)
class _Statement:
    """A statement with its comments.

    Attributes:
        lead: comment lines above it, "" for an empty line.
        beside: the comment behind it.
    """

    statement: Statement
    lead: list[str] = field(default_factory=list)
    beside: Comment | None = None


@dataclass(slots=True)
class _Table:
    """A header and the statements below it. The first table of a file has no header."""

    header: _Statement | None
    path: Path
    lines: list[_Statement] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


def format_toml(text: str, known: Sequence[str], *, reorder: bool = True) -> str:
    """Return the canonical text of a valid TOML file. Raises Odd for text that has no canonical form."""
    try:
        lines, tail = _read(text)
    except NotToml as error:
        raise Odd(error.at, "this text") from error
    head = lines[0].lead if lines else []
    if lines:
        lines[0].lead = []
    tables = _tables(lines)
    if reorder:
        tables = arranged([(table.path[0] if table.path else "", table) for table in tables], ["", *known])
    out = [*head]
    for number, table in enumerate(tables):
        if number and (tables[number - 1].header or tables[number - 1].lines):
            out.append("")
        out += _print_table(text, table, known, reorder)
    if tail:
        out += ["", *tail] if tail[0] == "" else tail
    return "\n".join(_squeezed(out)) + "\n"


def comments(text: str) -> list[str]:
    """Every comment of a valid TOML text, sorted."""
    found, at = [], 0
    for statement in statements(text):
        found += _COMMENT.findall(text[at : statement.start])
        found += _inner_comments(text, statement.value) if statement.value else []
        at = statement.end
    return sorted(comment.rstrip() for comment in [*found, *_COMMENT.findall(text[at:])])


def _inner_comments(text: str, value: Spot) -> Iterator[str]:
    """The comments between the items of lists."""
    at = value.start
    for item in value.items or ():
        yield from _COMMENT.findall(text[at : item.start])
        yield from _inner_comments(text, item)
        at = item.end
    if value.items is not None:
        yield from _COMMENT.findall(text[at : value.end])


def _read(text: str) -> tuple[list[_Statement], list[str]]:
    """The statements with their comments, and the comment lines behind the last one."""
    lines: list[_Statement] = []
    at = 0
    for statement in statements(text):
        line = _Statement(statement)
        line.lead = _gap(text, at, statement.start, lines)
        lines.append(line)
        at = statement.end
    return lines, _gap(text, at, len(text), lines)


def _gap(text: str, start: int, end: int, lines: list[_Statement]) -> list[str]:
    """Return the comment lines between two statements; a comment behind the first is attached to it."""
    rows = text[start:end].split("\n")
    if lines:
        first = rows.pop(0).strip()
        if first:
            at = text.index(first, start)
            lines[-1].beside = Comment(first, at - (text.rfind("\n", 0, start) + 1), 0, at - start)
    return [row.strip() for row in rows[:-1]] + ([rows[-1].strip()] if rows and rows[-1].strip() else [])


def _tables(lines: list[_Statement]) -> list[_Table]:
    tables = [_Table(None, ())]
    for line in lines:
        statement = line.statement
        if statement.value is not None:
            tables[-1].lines.append(line)
            continue
        # Comments with an empty line below them belong to the statement above.
        if "" in line.lead:
            cut = len(line.lead) - line.lead[::-1].index("")
            if tables[-1].header or tables[-1].lines:
                tables[-1].tail, line.lead = line.lead[:cut], line.lead[cut:]
        path = tuple(key.name for key in statement.keys)
        tables.append(_Table(line, (*path, ITEM) if statement.is_array else path))
    return tables


def _print_table(text: str, table: _Table, known: Sequence[str], reorder: bool) -> list[str]:
    out = []
    if table.header is not None:
        header = table.header
        name = ".".join(text[key.start : key.end] for key in header.statement.keys)
        shown = f"[[{name}]]" if header.statement.is_array else f"[{name}]"
        out += [*header.lead, _with_comment(shown, header)]
    lines = table.lines
    if reorder:
        order = fields(table.path) if table.path else known
        lines = arranged([(line.statement.keys[0].name, line) for line in lines], order)
    for line in lines:
        keys = ".".join(text[key.start : key.end] for key in line.statement.keys)
        path = (*table.path, *(key.name for key in line.statement.keys))
        assert line.statement.value is not None
        value = _Values(text, reorder).show(line.statement.value, path, top=True)
        is_first = line is lines[0] and table.header is not None
        out += dropwhile(lambda lead: not lead, line.lead) if is_first else line.lead
        out.append(_with_comment(f"{keys} = {value}", line))
    return out + table.tail


def _with_comment(shown: str, line: _Statement) -> str:
    if line.beside is None:
        return shown
    above, newline, last = shown.rpartition("\n")
    return above + newline + line.beside.behind(last)


class _Values(NamedTuple):
    text: str
    reorder: bool

    def show(self, value: Spot, path: Path, *, top: bool = False) -> str:
        raw = self.text[value.start : value.end]
        if value.items is not None and raw[:1] == "[":
            return self._array(value, raw, path, top=top)
        if value.entries is not None and raw[:1] == "{":
            return self._inline(value, raw, path)
        if raw[:1] in ("'", '"'):
            return requoted(raw, _unquoted(raw))
        return raw

    def _array(self, value: Spot, raw: str, path: Path, *, top: bool) -> str:
        assert value.items is not None
        inner = (*path, ITEM)
        if "\n" not in raw:
            return f"[{', '.join(self.show(item, inner) for item in value.items)}]"
        if not top or any(_inner_comments(self.text, value)):
            return raw
        rows: list[list[str]] = []
        at = value.start
        for item in value.items:
            if not rows or "\n" in self.text[at : item.start]:
                rows.append([])
            rows[-1].append(self.show(item, inner))
            at = item.end
        if not rows:
            return "[]"
        return "[\n" + "".join(f"  {', '.join(row)},\n" for row in rows) + "]"

    def _inline(self, value: Spot, raw: str, path: Path) -> str:
        assert value.entries is not None
        if "\n" in raw or any(spot.end <= spot.start for _, _, spot in value.entries.values()):
            return raw  # the value has lines of its own, or dotted keys
        shown = [
            (name, f"{self.text[start:end]} = {self.show(spot, (*path, name))}")
            for name, (start, end, spot) in value.entries.items()
        ]
        parts = arranged(shown, fields(path) if self.reorder else None)
        return f"{{ {', '.join(parts)} }}" if parts else "{}"


def _unquoted(literal: str) -> str:
    import tomli

    value: str = tomli.loads(f"value = {literal}")["value"]
    return value


def _squeezed(lines: list[str]) -> list[str]:
    """Return the lines without repeated empty lines or empty ends. Lines within a value are one entry."""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
    return kept
