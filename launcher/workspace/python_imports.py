"""Read the imports of a Python file from its text. Runs nothing; a syntax error hides only its statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LONGEST = 1 << 14  # characters of one statement

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
_BLANK = re.compile(r"(?:#[^\n]*|\\\r?\n|\s)+")
_AROUND = re.compile(r" ?([.,()*]) ?")
_NAME = r"[^\W\d]\w*"
_DOTTED = rf"{_NAME}(?:\.{_NAME})*"
_NAMES = r"{0}(?: as \w+)?(?:,{0}(?: as \w+)?)*"
_IMPORT = re.compile(rf"import ({_NAMES.format(_DOTTED)})")
_FROM = re.compile(
    rf"from ?(?P<dots>\.*)(?P<module>(?!import\b){_DOTTED})? ?import ?"
    rf"(?P<names>\*|{_NAMES.format(_NAME)}|\({_NAMES.format(_NAME)},?\))"
)
"""Matches import statements, with single spaces between words and no other blanks."""


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
        text = _AROUND.sub(r"\1", _BLANK.sub(" ", statement)).strip()
        if found := _IMPORT.fullmatch(text):
            yield from (Import(0, module) for module in _without_aliases(found[1]))
        elif (found := _FROM.fullmatch(text)) and (found["dots"] or found["module"]):
            names = _without_aliases(found["names"].strip("(),"))
            yield Import(len(found["dots"]), found["module"] or "", names)


def _without_aliases(names: str) -> tuple[str, ...]:
    return tuple(each.partition(" ")[0] for each in names.split(","))


def _statements(text: str) -> Iterator[str]:
    """Yield the texts that begin with `import` or `from` where a statement may begin."""
    at = 0
    while found := _TOKEN.search(text, at):
        at = found.end()
        if found["triple"]:
            at = _end(_TRIPLE_END[found["triple"]], text, at)
        elif found["word"]:
            start = found.start("word")
            at = _end_of_statement(text, at)
            if at - start <= _LONGEST:
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
