"""Render the roles of a job: a line each, with command and image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.cli.render.values import GAP, width
from launcher.plan.reasons import show
from launcher.specs.macros import with_brackets
from launcher.specs.secret import hide

_LEAST = 20  # minimum columns of a command line
_BARE = r"[^\s\"'\\`]+\Z"


def role_lines(document: Mapping[str, Any], columns: int) -> Iterator[str]:
    """`greeter ×2  sh -c "echo …"  local_cwd` for each role, in columns; long commands are cut at their end.

    Below a role stands whether it is a service, and what it waits for: `after server (ready)`. Hides literals
    under sensitive-looking names, as plans do.
    """
    rows = [
        (
            show_name(role),
            command(role),
            " ".join(filter(None, (document["scheduler"], role.get("image", "")))),
        )
        for role in document["roles"]
    ]
    names, _, places = (max((width(row[k]) for row in rows), default=0) for k in range(3))
    room = max(_LEAST, columns - names - places - 2 * len(GAP))
    size = min(room, max((width(row[1]) for row in rows), default=0))
    for role, (name, line, place) in zip(document["roles"], rows, strict=True):
        short = line if width(line) <= size else line[: size - 1] + "…"
        yield GAP.join((_padded(name, names), _padded(short, size), place))
        if order := _order(role):
            yield f"{' ' * names}{GAP}{order}"


def _order(role: Mapping[str, Any]) -> str:
    """`service, after db (ready), data (succeeded)`; "" for a role that starts at once and counts."""
    waits = ", ".join(f"{other} ({condition})" for other, condition in role.get("depends_on", {}).items())
    return ", ".join(filter(None, ("service" if role.get("service") else "", waits and f"after {waits}")))


def what_runs(role: Mapping[str, Any]) -> str:
    """`×2  python eval.py`, for a role of a document."""
    return GAP.join(filter(None, (_times(role), command(role), role.get("image", ""))))


def show_name(role: Mapping[str, Any]) -> str:
    return f"{role['name']} {_times(role)}".rstrip()


def _times(role: Mapping[str, Any]) -> str:
    count = role.get("num_replicas", 1)
    return "" if count == 1 else f"×{count}"


def command(role: Mapping[str, Any]) -> str:
    """The command line of a role of a document, on one line."""
    return " ".join(map(_quoted, [role["entrypoint"], *hide(role.get("args", []), "args")]))


def _quoted(word: str) -> str:
    """Quote a word with blanks or quotes; as JSON if it needs escapes."""
    if word.isprintable() and re.match(_BARE, word):
        return with_brackets(word)
    if word.isprintable() and "'" not in word and ('"' in word or "\\" in word):
        return f"'{with_brackets(word)}'"
    return show(word)


def _padded(text: str, size: int) -> str:
    return text + " " * (size - width(text))
