"""Find the places of keys and values in a TOML text, and of parts that need TOML 1.1.

This scanner reads text that tomli has accepted, only to find the ends of keys and values. It runs only
when a problem has to be placed, or the original text of a number is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from launcher.jobfile.text.document import Path, Spot

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
STRING = (
    r'"""(?:\\[\s\S]|[^\\])*?"""(?:"{0,2})'
    r"|'''[\s\S]*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
)
"""A text of any of the four kinds, as a regular expression."""

_STRING = re.compile(STRING)
_BARE_KEY = re.compile(r"[^\s.=\[\]{},#\"']+")
_PLAIN = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:[^\s,\]}#]*|[^\s,\]}#]+")


class NotToml(ValueError):
    """The scanner met text that is not valid TOML, at the offset `at`."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no TOML at offset {at}")
        self.at = at


class Key(NamedTuple):
    """One part of a dotted key."""

    name: str
    start: int
    end: int


class Statement(NamedTuple):
    """A table header (value is None) or `key = value`, with its offsets."""

    keys: tuple[Key, ...]
    is_array: bool
    value: Spot | None
    start: int
    end: int


def scan(text: str) -> Spot:
    """The spots of a whole document. Raises NotToml."""
    root = _table(0)
    table = root
    for statement in statements(text):
        if statement.value is not None:
            _put(table, statement.keys, statement.value)
        else:
            table = _open(root, statement)
    return root


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a text, in order. Raises NotToml at the first invalid one."""
    at = _skip(_BLANK, text, 0)
    while at < len(text):
        start = at
        if text[at] == "[":
            is_array = text.startswith("[[", at)
            keys, at = _keys(text, at + 1 + is_array)
            at = _expect(text, at, "]]" if is_array else "]")
            yield Statement(keys, is_array, None, start, at)
        else:
            keys, value, at = _pair(text, at)
            yield Statement(keys, False, value, start, at)
        at = _skip(_BLANK, text, at)


def paths(found: Iterator[Statement]) -> Iterator[tuple[Path, Statement]]:
    """Yield each statement with the path that it declares; items of arrays of tables are numbered."""
    header: Path = ()
    counts: dict[Path, int] = {}
    for statement in found:
        path: Path = ()
        for key in statement.keys:
            path = (*path, key.name)
            if statement.value is None and path in counts and key is not statement.keys[-1]:
                path = (*path, counts[path])
        if statement.value is not None:
            yield (*header, *path), statement
            continue
        if statement.is_array:
            counts[path] = counts.get(path, -1) + 1
            path = (*path, counts[path])
        header = path
        yield path, statement


def _pair(text: str, at: int) -> tuple[tuple[Key, ...], Spot, int]:
    keys, at = _keys(text, at)
    at = _skip(_SPACE, text, _expect(text, at, "="))
    value = _value(text, at)
    return keys, value, value.end


def _keys(text: str, at: int) -> tuple[tuple[Key, ...], int]:
    """Return a dotted key, and the offset behind it and its white space."""
    keys: list[Key] = []
    while True:
        at = _skip(_SPACE, text, at)
        quoted = text[at : at + 1] in ('"', "'")
        match = (_STRING if quoted else _BARE_KEY).match(text, at)
        if not match:
            raise NotToml(at)
        keys.append(Key(_name(match[0]) if quoted else match[0], at, match.end()))
        at = _skip(_SPACE, text, match.end())
        if not text.startswith(".", at):
            return tuple(keys), at
        at += 1


def _name(quoted: str) -> str:
    if quoted[0] == "'" or "\\" not in quoted:
        return quoted[1:-1]
    import tomli

    name: str = tomli.loads(f"name = {quoted}")["name"]
    return name


def _value(text: str, at: int) -> Spot:
    first = text[at : at + 1]
    if first == "[":
        return _array(text, at)
    if first == "{":
        return _inline_table(text, at)
    match = (_STRING if first in ('"', "'") else _PLAIN).match(text, at)
    if not match:
        raise NotToml(at)
    return Spot(at, match.end())


def _array(text: str, start: int) -> Spot:
    spot = Spot(start, start)
    spot.items = []
    at = _skip(_BLANK, text, start + 1)
    while not text.startswith("]", at):
        spot.items.append(_value(text, at))
        at = _after_entry(text, spot.items[-1].end, "]")
    spot.end = at + 1
    return spot


def _inline_table(text: str, start: int) -> Spot:
    spot = _table(start)
    at = _skip(_BLANK, text, start + 1)
    while not text.startswith("}", at):
        keys, value, at = _pair(text, at)
        _put(spot, keys, value)
        at = _after_entry(text, at, "}")
    spot.end = at + 1
    return spot


def _after_entry(text: str, at: int, closing: str) -> int:
    at = _skip(_BLANK, text, at)
    if text.startswith(",", at):
        return _skip(_BLANK, text, at + 1)
    if not text.startswith(closing, at):
        raise NotToml(at)
    return at


def _open(root: Spot, header: Statement) -> Spot:
    """Return the table that a header opens."""
    *parents, last = header.keys
    table = _descend(root, parents)
    entries = table.entries if table.entries is not None else {}
    if not header.is_array:
        return _descend(table, [last])
    if last.name not in entries:
        array = Spot(last.start, last.start)
        array.items = []
        entries[last.name] = (last.start, last.end, array)
    array = entries[last.name][2]
    item = _table(header.start)
    array.items = [*(array.items or []), item]
    return item


def _descend(table: Spot, keys: list[Key]) -> Spot:
    """Return the table below `table`: a new one where it is missing, and the last item of an array."""
    for key in keys:
        entries = table.entries
        if entries is None:
            raise NotToml(key.start)
        if key.name not in entries:
            entries[key.name] = (key.start, key.end, _table(key.start))
        table = entries[key.name][2]
        if table.items:
            table = table.items[-1]
    return table


def _put(table: Spot, keys: tuple[Key, ...], value: Spot) -> None:
    *parents, last = keys
    entries = _descend(table, parents).entries
    if entries is None:
        raise NotToml(last.start)
    entries.setdefault(last.name, (last.start, last.end, value))


def _table(start: int) -> Spot:
    spot = Spot(start, start)
    spot.entries = {}
    return spot


def _expect(text: str, at: int, mark: str) -> int:
    if not text.startswith(mark, at):
        raise NotToml(at)
    return at + len(mark)


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


_TOKEN = re.compile(
    rf"(?P<string>{STRING})|(?P<comment>#[^\n]*)|(?P<mark>[\[\]{{}},\n])|(?P<plain>[^\s\[\]{{}},#\"'=]+)"
)
_ESCAPE = re.compile(r"\\(?:[^ex]|(?P<newer>e|x..))", re.DOTALL)
_SHORT_TIME = re.compile(r"(?:.*[Tt])?\d\d:\d\d(?:[Zz]|[+-]\d\d:\d\d)?")
_ONE_LINE = "write the table on one line and without a comma at its end, or below a header"


def bracket_below(text: str, limit: int) -> int:
    """Return the offset of the first bracket that opens inside of `limit` others; 0 where there is none."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "mark" and token[0] in "[{":
            if depth == limit:
                return token.start()
            depth += 1
        elif token.lastgroup == "mark" and token[0] in "]}":
            depth -= 1
    return 0


def newer_toml(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield start, end, description and replacement of each construct that TOML 1.0 lacks.

    The text must be valid TOML 1.1. An inline table is reported once, whatever it contains.
    """
    open_marks: list[tuple[str, int]] = []
    named: set[int] = set()
    before = ""
    for token in _TOKEN.finditer(text):
        kind, written = token.lastgroup, token[0]
        top, start = open_marks[-1] if open_marks else ("", 0)
        if kind == "string" and written[0] == '"':
            yield from _escapes(text, token.start(), token.end())
        elif kind == "plain" and _SHORT_TIME.fullmatch(written):
            yield token.start(), token.end(), "a time without seconds", "write the seconds"
        elif kind == "mark" and written in "[{":
            open_marks.append((written, token.start()))
        elif top == "{" and start not in named and (written == "\n" or (written == "}" and before == ",")):
            named.add(start)
            what = "an inline table of several lines" if written == "\n" else "a comma before `}`"
            end = start + 1 if written == "\n" else token.end()
            first = start if written == "\n" else text.rindex(",", 0, token.start())
            yield first, end, what, _ONE_LINE if written == "\n" else "delete the comma"
        if kind == "mark" and written in "]}" and open_marks:
            open_marks.pop()
        if kind != "comment" and written != "\n":
            before = written


def _escapes(text: str, start: int, end: int) -> Iterator[tuple[int, int, str, str]]:
    for found in _ESCAPE.finditer(text, start, end):
        if found["newer"]:
            code = "1b" if found["newer"] == "e" else found["newer"][1:]
            yield found.start(), found.end(), f"the escape `{found[0]}`", f"write `\\u00{code}`"
