"""Where a TOML text needs TOML 1.1: most tools, editors' among them, read 1.0 and refuse such a file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.jobfile.text.toml_positions import STRING

_TOKEN = re.compile(
    rf"(?P<string>{STRING})|(?P<comment>#[^\n]*)|(?P<mark>[\[\]{{}},\n])|(?P<plain>[^\s\[\]{{}},#\"'=]+)"
)
_ESCAPE = re.compile(r"\\(?:[^ex]|(?P<newer>e|x..))", re.DOTALL)
_SHORT_TIME = re.compile(r"(?:.*[Tt])?\d\d:\d\d(?:[Zz]|[+-]\d\d:\d\d)?")
_ONE_LINE = "write the table on one line and without a comma at its end, or below a header"


def newer_toml(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Start, end, what it is and what to write instead, of everything that TOML 1.0 does not have.

    The text is valid TOML 1.1. An inline table is named once, whatever there is in it.
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
