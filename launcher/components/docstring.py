"""A component's docstring, in Google's or in reST style → its description and a text for each parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc

_SECTION = re.compile(r"(?P<title>[A-Z][A-Za-z ]*):{1,2}\s*$")
_ARGUMENTS = {"Args", "Arguments", "Parameters", "Params", "Keyword Args", "Keyword Arguments"}
_OTHERS = {"Returns", "Return", "Raises", "Yields", "Example", "Examples", "Note", "Notes"}
_ITEM = re.compile(r"(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_FIELD = re.compile(r":(?P<what>\w+)(?:\s+(?P<words>[^:]*))?:\s*(?P<text>.*)$")


def parse_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """(description, parameter → text). The description is all that stands before the first section."""
    lines = cleandoc(docstring or "").splitlines()
    head = next((number for number, line in enumerate(lines) if _ends_description(lines, number)), len(lines))
    texts: dict[str, str] = {}
    for title, body in _sections(lines[head:]):
        if title in _ARGUMENTS:
            texts.update(_items(body))
    texts.update(_fields(lines[head:]))
    return "\n".join(lines[:head]).strip(), texts


def _ends_description(lines: list[str], number: int) -> bool:
    """A section's title has an indented body below it; `Usage:` before more plain text is none."""
    if _FIELD.match(lines[number]):
        return True
    title = _SECTION.match(lines[number])
    if not title:
        return False
    if title["title"] in _ARGUMENTS:
        return True
    return title["title"] in _OTHERS and number + 1 < len(lines) and lines[number + 1].startswith(" ")


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    title: str | None = None
    body: list[str] = []
    for line in lines:
        found = _SECTION.match(line)
        if found:
            if title is not None:
                yield title, body
            title, body = found["title"], []
        elif line and not line.startswith(" "):
            if title is not None:
                yield title, body
            title = None
        else:
            body.append(line)
    if title is not None:
        yield title, body


def _items(body: list[str]) -> dict[str, str]:
    """`name: text` or `name (type): text`; lines with deeper indent continue the text."""
    indent = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    texts: dict[str, str] = {}
    name = ""
    for line in body:
        item = _ITEM.match(line[indent:])
        if item:
            name = item["name"].lstrip("*")
            texts[name] = item["text"].strip()
        elif name and line.strip():
            texts[name] = f"{texts[name]} {line.strip()}".strip()
    return texts


def _fields(lines: list[str]) -> dict[str, str]:
    """`:param name: text` and `:param type name: text`."""
    texts: dict[str, str] = {}
    name = ""
    for line in lines:
        field = _FIELD.match(line)
        if field:
            words = (field["words"] or "").split()
            name = words[-1].lstrip("*") if field["what"] in {"param", "arg", "argument"} and words else ""
            if name:
                texts[name] = field["text"].strip()
        elif name and line.startswith(" ") and line.strip():
            texts[name] = f"{texts[name]} {line.strip()}".strip()
        else:
            name = ""
    return texts
