"""Add missing members to a JSON file with comments without changing the rest of the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\\n])*")|,(?=\s*[\]}])')

Edit = tuple[int, str]
"""An offset, and the text to insert there."""


class ConflictError(ValueError):
    """The file has another value under a wanted name."""


def merged(text: str, wanted: Mapping[str, Any]) -> str | None:
    """Return `text` with the members of `wanted` that it lacks; None if they cannot be added.

    They cannot be added to a text that is not a JSON object (comments and trailing commas are allowed), or
    that has another value under one of the names. Objects and arrays are merged with existing ones.
    """
    plain = _plain(text)
    try:
        before = json.loads(plain)
        start = len(plain) - len(plain.lstrip())
        edits = list(_of_object(plain, start, wanted, 1, _indent(plain)))
        line_end = "\r\n" if "\r\n" in text else "\n"
        out = text
        for place, added in sorted(edits, key=lambda edit: edit[0], reverse=True):
            out = out[:place] + added.replace("\n", line_end) + out[place:]
        # Verify the result: an edit may have landed inside a comment.
        return out if json.loads(_plain(out)) == _union(before, wanted) else None
    except (ValueError, RecursionError, IndexError, AttributeError):
        return None


def _plain(text: str) -> str:
    """`text` with comments and trailing commas replaced by blanks, so that offsets stay the same."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[1] else re.sub(r"[^\n]", " ", match[0])

    return _TRAILING_COMMA.sub(blank, _COMMENT.sub(blank, text.replace("\ufeff", " ")))


def _indent(plain: str) -> str:
    found = re.search(r"^([ \t]+)\S", plain, re.MULTILINE)
    return found[1] if found else "  "


def _union(before: Any, wanted: Mapping[str, Any]) -> Any:
    out = dict(before)
    for name, value in wanted.items():
        there = out.get(name, value)
        if isinstance(value, dict):
            out[name] = _union(out.get(name, {}), value)
        elif isinstance(value, list):
            out[name] = [*there, *(each for each in value if each not in there)]
        else:
            out[name] = there
    return out


def _of_object(plain: str, start: int, wanted: Mapping[str, Any], depth: int, indent: str) -> Iterator[Edit]:
    """The edits for the object at offset `start`, nested `depth` levels deep."""
    members, last = _members(plain, start)
    missing = []
    for name, value in wanted.items():
        if name not in members:
            missing.append(f"{json.dumps(name)}: {_shown(value, depth, indent)}")
            continue
        place = members[name]
        there = json.JSONDecoder().raw_decode(plain, place)[0]
        if isinstance(value, dict) and isinstance(there, dict):
            yield from _of_object(plain, place, value, depth + 1, indent)
        elif isinstance(value, list) and isinstance(there, list):
            yield from _of_array(plain, place, there, value, depth + 1, indent)
        elif value != there:
            raise ConflictError(name)
    yield from _insert(plain, last, bool(members), missing, indent * depth, indent * (depth - 1))


def _of_array(
    plain: str, start: int, there: Sequence[Any], wanted: Sequence[Any], depth: int, indent: str
) -> Iterator[Edit]:
    end = json.JSONDecoder().raw_decode(plain, start)[1] - 1
    last = len(plain[:end].rstrip())
    missing = [_shown(value, depth, indent) for value in wanted if value not in there]
    if missing and "\n" not in plain[start:end] and there:
        yield last, "".join(f", {value}" for value in missing)
    else:
        yield from _insert(plain, last, bool(there), missing, indent * depth, indent * (depth - 1))


def _members(plain: str, start: int) -> tuple[dict[str, int], int]:
    """The offset of each member's value, and the end of the last one."""
    if plain[start] != "{":
        raise ValueError("not an object")
    members: dict[str, int] = {}
    last = start + 1
    while plain[place := _after_blanks(plain, last)] != "}":
        place = _after_blanks(plain, place + 1) if plain[place] == "," else place
        name, place = json.JSONDecoder().raw_decode(plain, place)
        members[name] = _after_blanks(plain, _after_blanks(plain, place) + 1)
        last = json.JSONDecoder().raw_decode(plain, members[name])[1]
    return members, last


def _after_blanks(plain: str, place: int) -> int:
    while plain[place] in " \t\r\n":
        place += 1
    return place


def _insert(
    plain: str, last: int, has_others: bool, missing: Sequence[str], indent: str, outer: str
) -> Iterator[Edit]:
    """Insert lines after offset `last`, and after a comment on its line."""
    if not missing:
        return
    if not has_others and plain[_after_blanks(plain, last)] in "]}":
        rest = plain[last : _after_blanks(plain, last)]
        close = "" if "\n" in rest else f"\n{outer}"
        yield last, "".join(f"\n{indent}{text}," for text in missing)[:-1] + close
        return
    lines = "".join(f"\n{indent}{text}," for text in missing)[:-1]
    rest, newline, _ = plain[last:].partition("\n")
    if not newline or rest.strip():
        yield last, f",{lines}\n{outer}"
    elif blanks := len(rest.rstrip("\r")):
        yield last, ","
        yield last + blanks, lines
    else:
        yield last, f",{lines}"


def _shown(value: Any, depth: int, indent: str) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text.replace("\n", "\n" + indent * depth)
