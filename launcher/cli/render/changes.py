"""Render the roles of a job, and its changes since an earlier attempt; long texts are cut to what differs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from launcher.cli.render.document import flat
from launcher.cli.render.tables import GAP, width
from launcher.plan.diff import Change, differences
from launcher.plan.notation import field, is_workspace_digest, show, show_both
from launcher.specs.macros import with_brackets
from launcher.specs.secret import HIDDEN, hide
from launcher.text import printable
from launcher.workspace.manifest import Manifest, amount, changed_files, known

_LEAST = 20  # minimum columns of a command line
_BARE = r"[^\s\"'\\`]+\Z"


def role_lines(document: Mapping[str, Any], columns: int) -> Iterator[str]:
    """`greeter ×2  sh -c "echo …"  local_cwd` for each role, in columns; long commands are cut at their end.

    The line below a role says whether it is a service, and for which roles it waits: `after server (ready)`.
    Hides literals under sensitive-looking names, as plans do.
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
    """`service, after db (ready), data (succeeded)`; "" for a role without an order that is no service."""
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


MOST_FILES = 10
"""Changed files of a workspace that are listed; more are counted."""

Known = Callable[[str], "Manifest | None"]
"""Returns the recorded files of a workspace by its digest; None if unknown."""


class Line(NamedTuple):
    """`op`: "+" added, "-" removed, "~" changed, "" several. `depth`: 0 or 1."""

    op: str
    text: str
    depth: int = 0


def change_lines(change: Change, columns: int, *, files: Known = known) -> Iterator[Line]:
    """Lines of one change that fit `columns` if possible: a heading, and details below it."""
    if is_workspace_digest(change.path):
        heading, *pieces = _workspace(change, files)
        yield from (heading, *_packed(pieces, columns - 4))
    elif _is_role(change):
        yield Line("+", f"{field(change.path)}: {what_runs(change.new)}")
    elif _are_texts(change) and width(str(change)) > columns:
        yield Line("~", f"{field(change.path)}:")
        yield from (Line(op, text, 1) for op, text in differences(change.old, change.new, columns - 6))
    else:
        yield Line(change.op, str(change)[2:])


def diff_lines(change: Change, columns: int, *, files: Known = known) -> Iterator[str]:
    """Lines of one change as a diff: a replaced value is a removed and an added line."""
    if _is_role(change):
        yield from (f"+ {line}" for line in flat({"roles": [change.new]}))
        return
    is_workspace = is_workspace_digest(change.path)
    lines = [*(_workspace(change, files) if is_workspace else change_lines(change, columns))]
    if change.op == "~" and len(lines) == 1 and not is_workspace and change.old != HIDDEN:
        path, (old, new) = field(change.path), show_both(change.path, change.old, change.new)
        lines = [Line("-", f"{path} = {old}"), Line("+", f"{path} = {new}")]
    for op, text, depth in lines:
        yield f"{op if op and (op, depth) != ('~', 0) else ' '} {text}"


def _workspace(change: Change, files: Known) -> Iterator[Line]:
    """The changed files, if the earlier ones are recorded, and the present size."""
    name = field(change.path)
    old = files(change.old) if isinstance(change.old, str) else None
    new = files(change.new) if isinstance(change.new, str) else None
    if new is None:
        yield Line(change.op, str(change)[2:])
    elif change.op == "+":
        yield Line("+", f"{name}: {amount(new)}")
    elif old is None:
        yield Line("~", f"{name}: changed (earlier files not recorded); now {amount(new)}")
    else:
        changed = changed_files(old, new)
        yield Line("~", f"{name}: {len(changed)} changed; now {amount(new)}")
        yield from (Line(op, printable(path), 1) for op, path in changed[:MOST_FILES])
        if len(changed) > MOST_FILES:
            yield Line("", f"… and {len(changed) - MOST_FILES} more", 1)


def _packed(lines: Sequence[Line], columns: int) -> Iterator[Line]:
    """Join lines as long as they fit: `+ notes.txt, ~ train.py`."""
    text = ""
    for line in lines:
        piece = f"{line.op} {line.text}".lstrip()
        if text and width(f"{text}, {piece}") > columns:
            yield Line("", f"{text},", 1)
            text = piece
        else:
            text = f"{text}, {piece}" if text else piece
    if text:
        yield Line("", text, 1)


def _is_role(change: Change) -> bool:
    return (
        change.op == "+"
        and change.path.startswith("roles")
        and isinstance(change.new, Mapping)
        and "entrypoint" in change.new
    )


def _are_texts(change: Change) -> bool:
    both: tuple[Any, ...] = (change.old, change.new)
    return change.op == "~" and HIDDEN not in both and all(isinstance(value, str) for value in both)
