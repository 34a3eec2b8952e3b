"""The import statements of Python source. Nothing is executed, and hostile source takes linear time.

`ast` parses single statements only: a whole hostile file would take it minutes and hundreds of megabytes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

_LONGEST = 1 << 14
_MOST_DOTS = 200
"""Limits of one statement: in characters, and in dots, as the parser takes quadratic time for them."""

_TOKEN = re.compile(
    r"""
    \#[^\n]*
    | (?P<triple>\"\"\"|''')
    | "[^"\\\n]*(?:\\.[^"\\\n]*)*" | '[^'\\\n]*(?:\\.[^'\\\n]*)*'
    | (?:^|[;:])[ \t]*(?P<word>import|from)\b
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_TRIPLE_END = {quote: re.compile(rf"\\.|(?P<end>{quote})", re.DOTALL) for quote in ('"' * 3, "'" * 3)}
_LINE_END = re.compile(r"\\\r?\n|(?P<open>\()|(?P<end>[\n;#])")
_CLOSE = re.compile(r"#[^\n]*|(?P<end>\))")


class Import(NamedTuple):
    """One import: `from ..a.b import c` is level 2, module `a.b`, names `("c",)`.

    `module` is "" for `from . import c`; `names` is empty for `import a.b`.
    """

    level: int
    module: str
    names: tuple[str, ...] = ()


def imports_of(source: bytes) -> Iterator[Import]:
    """Yield the imports anywhere in a Python file; from source with a syntax error, the readable ones."""
    if b"\0" in source:
        return
    # Only names matter, so any encoding that extends ASCII reads well enough.
    for statement in _statements(source.decode("utf-8-sig", "replace")):
        try:
            [node] = ast.parse(statement).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if isinstance(node, ast.Import):
            yield from (Import(0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield Import(node.level, node.module or "", tuple(alias.name for alias in node.names))


def _statements(text: str) -> Iterator[str]:
    """The texts that begin with `import` or `from` where a statement may begin."""
    at = 0
    while found := _TOKEN.search(text, at):
        at = found.end()
        if found["triple"]:
            at = _end(_TRIPLE_END[found["triple"]], text, at)
        elif found["word"]:
            start = found.start("word")
            at = _end_of_statement(text, at)
            if at - start <= _LONGEST and text.count(".", start, at) <= _MOST_DOTS:
                yield text[start:at]


def _end_of_statement(text: str, at: int) -> int:
    """Return the end of the statement's logical line, before the character that ends it."""
    while found := _LINE_END.search(text, at):
        if found["end"]:
            return found.start()
        at = _end(_CLOSE, text, found.end()) if found["open"] else found.end()
    return len(text)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the offset behind the first match with the group `end`, or the end of the text."""
    while found := pattern.search(text, at):
        at = found.end()
        if found["end"]:
            return at
    return len(text)
