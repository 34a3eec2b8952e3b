"""The code frame of a diagnostic: a line of the file with carets under the range, safe on a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache

from launcher.dataclass import dataclass
from launcher.specs.secret import is_sensitive
from launcher.text import paint, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of a file. Lines and columns count from 1; columns count characters, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)


_WIDTH = 110  # columns of source text shown; longer lines are cut around the range
_LEAD = 30  # columns shown before the range of a line that is cut
_TAB = "    "
_HEAD = re.compile(r"""(?<![\w.-])["']?-{0,2}([A-Za-z_][\w.-]*)["']?\s*[:=]\s*""")
_VALUE = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',\[\]{}#][^,\]}#]*""")
_FLAG = re.compile(
    r"""(?<![\w-])(--?([A-Za-z][\w-]{0,63})["']?(?:\s*,\s*|\s+)["']?)([^\s"',\[\]{}$-][^\s"',\]}]*)"""
)
_USER_OF_URL = re.compile(r"(?<=://)[^/\s\"'@]+(?=@)")
_REFERENCES = ("$", "&", "*", "|", ">", "env:", "file:")


def code_frame(
    file: str, span: Span | None, source_line: str, label: str, shade: str, color: bool
) -> list[str]:
    """The lines `--> file:line:column`, the source line, and the carets with the label behind them."""
    arrow = paint("-->", "bold blue", color)
    if span is None:
        return [f"  {arrow} {printable(file)}"]
    number = str(span.line)
    gutter = " " * len(number)
    bar = paint("|", "bold blue", color)
    shown, before, width = _window(without_secrets(source_line), span)
    carets = paint("^" * width + (f" {printable(label)}" if label else ""), shade, color)
    return [
        f"{gutter}{arrow} {printable(file)}:{span.line}:{span.column}",
        f"{gutter} {bar}",
        f"{paint(number, 'blue', color)} {bar} {shown}".rstrip(),
        f"{gutter} {bar} {' ' * before}{carets}",
    ]


# A file of one long line may have a problem every few characters of it.
@lru_cache(maxsize=4)
def without_secrets(line: str) -> str:
    """Return a line with its secrets starred out, as long as before: literals under sensitive-looking names,
    and what precedes the host in a URL.

    Frames go into the logs of CI systems and onto pull requests.
    """

    def starred_flag(match: re.Match[str]) -> str:
        return match[1] + "*" * len(match[3]) if is_sensitive(match[2]) else match[0]

    shown = _FLAG.sub(starred_flag, "".join(_without_values(line)))
    return _USER_OF_URL.sub(lambda match: "*" * len(match[0]), shown)


def _without_values(line: str) -> Iterator[str]:
    """The pieces of a line, values behind `NAME:` and `NAME=` starred out where the name looks sensitive."""
    done = 0
    for head in _HEAD.finditer(line):
        value = _VALUE.match(line, head.end()) if head.start() >= done and is_sensitive(head[1]) else None
        if value is None or value[0].strip("\"'").startswith(_REFERENCES):
            continue
        yield line[done : value.start()] + ("*" * len(value[0].rstrip())).ljust(len(value[0]))
        done = value.end()
    yield line[done:]


def _window(line: str, span: Span) -> tuple[str, int, int]:
    """Return the part of a line to show, the columns before the carets, and the number of carets."""
    end = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    start = min(span.column - 1, len(line))
    cut = max(0, start - _LEAD) if len(line) > _WIDTH else 0
    head = "…" if cut else ""
    before = head + _shown(line[cut:start])
    end = max(start, end)
    # Measure no more than can be shown: a line may be as long as a file.
    marked = _shown(line[start : min(end, start + _WIDTH + 1)])
    rest = _shown(line[end : end + _WIDTH + 1])
    limit = max(1, _WIDTH - _columns(before))
    if len(marked) > limit:
        marked, rest = marked[: limit - 1] + "…", ""
    if len(rest) > limit - len(marked):
        rest = rest[: limit - len(marked)] + "…"
    return before + marked + rest, _columns(before), max(1, _columns(marked))


def _shown(text: str) -> str:
    return printable(text.replace("\t", _TAB))


def _columns(text: str) -> int:
    """Terminal columns: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(char) for char in text)


def _char_columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
