"""Show where two long texts differ: the lines of a script, and the words of a long line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from launcher.plan.align import align, common_prefix
from launcher.plan.notation import show
from launcher.specs.macros import with_brackets
from launcher.text import printable

Piece = tuple[Literal["+", "-"], str]
"""The removed and the added text, each on one line; `…` stands for omitted context."""

_Range = tuple[int, int]

MOST: Final = 30
"""The differences to show, and the number of lines of those left out."""

_LEFT_OUT = "…"
_LEAST_CONTEXT = 4  # words and blanks between two differences that are shown as one
_AROUND = 12  # characters around a difference inside of a word
_WORDS = r"\s+|\S+"


def differences(old: str, new: str, width: int) -> list[Piece]:
    """List the differing lines; of lines longer than `width` characters, the differing words with context.

    Macros are spelled as in job files.
    """
    before, after = with_brackets(old), with_brackets(new)
    if before == after:  # two spellings of one macro
        before, after = old, new
    found = list(_differences(before.split("\n"), after.split("\n"), width))
    left = len(found) - MOST
    return found if left <= 0 else [*found[:MOST], (found[MOST][0], f"{_LEFT_OUT} and {left} more lines")]


def _differences(old: Sequence[str], new: Sequence[str], width: int) -> Iterator[Piece]:
    for op, i, j in align(old, new):
        if op == "+":
            yield "+", _seen(new[j])
        elif op == "-":
            yield "-", _cut(old[i], width)
        elif max(len(old[i]), len(new[j])) <= width:
            yield from (("-", _seen(old[i])), ("+", _seen(new[j])))
        else:
            yield from _of_words(re.findall(_WORDS, old[i]), re.findall(_WORDS, new[j]), width)


def _of_words(old: Sequence[str], new: Sequence[str], width: int) -> Iterator[Piece]:
    for (i, i_end), (j, j_end) in _hunks(old, new, width):
        gone, come = old[i:i_end], new[j:j_end]
        room = (width - max(_size(gone), _size(come))) // 2
        front = min(_reach(reversed(old[:i]), room), j)
        back = _reach(old[i_end:], room)
        yield "-", _window(old, i - front, i_end + back, width, come)
        yield "+", _window(new, j - front, j_end + back, width, gone)


def _hunks(old: Sequence[str], new: Sequence[str], width: int) -> list[tuple[_Range, _Range]]:
    """Ranges of differing words; ranges that are close together are joined as far as they fit."""
    found: list[tuple[_Range, _Range]] = []
    for op, i, j in align(old, new):
        here = (i, i + (op != "+")), (j, j + (op != "-"))
        if found and i - found[-1][0][1] < _LEAST_CONTEXT:
            (first, _), (other, _) = found[-1]
            both = (first, here[0][1]), (other, here[1][1])
            if max(_size(old[slice(*both[0])]), _size(new[slice(*both[1])])) <= width:
                found[-1] = both
                continue
        found.append(here)
    return found


def _reach(words: Iterator[str] | Sequence[str], room: int) -> int:
    """The number of words that fit into `room` characters."""
    count = 0
    for word in words:
        room -= len(word)
        if room < 0:
            break
        count += 1
    return count


def _window(words: Sequence[str], start: int, end: int, width: int, other: Sequence[str]) -> str:
    text = "".join(words[start:end])
    if len(text) > width:
        text = _middle(text, "".join(other))
    front = f"{_LEFT_OUT} " if "".join(words[:start]).strip() else ""
    back = f" {_LEFT_OUT}" if "".join(words[end:]).strip() else ""
    return f"{front}{_seen(text.strip() if front or back else text)}{back}"


def _middle(text: str, other: str) -> str:
    """The differing part of a word that is longer than a line, with a little context."""
    front = common_prefix(text, other)
    back = min(common_prefix(text[::-1], other[::-1]), len(text) - front)
    start, end = max(0, front - _AROUND), min(len(text), len(text) - back + _AROUND)
    return (_LEFT_OUT if start else "") + text[start:end] + (_LEFT_OUT if end < len(text) else "")


def _cut(line: str, width: int) -> str:
    return _seen(line) if len(line) <= width else printable(line[: width - 1]) + _LEFT_OUT


def _seen(line: str) -> str:
    """The text, quoted where blanks at its end would be invisible."""
    return show(line) if not line or line != line.rstrip() else printable(line)


def _size(words: Sequence[str]) -> int:
    return sum(map(len, words))
