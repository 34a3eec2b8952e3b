"""Apply changes to a document by their printed paths: the proof that they are complete and unambiguous."""

import copy
import json
import re
from collections.abc import Sequence
from typing import Any

from launcher.plan.diff import Change

_SEGMENT = re.compile(r"\.?([A-Za-z0-9_-]+)|\[(\d+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]|\[(/[^\]]*)\]")


def patch(document: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """`document` after the changes: replacements and removals by old index, then insertions by new one."""
    made = _keyed(copy.deepcopy(document))
    for change in changes:
        if change.op == "~" and change.path != "roles":
            holder, last = _find(made, change.path)
            holder[last] = change.new
    for change in reversed(changes):
        if change.op == "-":
            _remove(made, segments(change.path))
    for change in changes:
        if change.op == "+":
            _insert(made, change)
    for change in changes:
        if change.path == "roles":
            made["roles"] = {name: made["roles"][name] for name in change.new}
    return _listed(made)


def segments(path: str) -> list[Any]:
    found = list(_SEGMENT.finditer(path))
    assert "".join(match[0] for match in found) == path
    return [_segment(match) for match in found]


def _segment(match: re.Match[str]) -> Any:
    key, index, quoted, destination = match.groups()
    if index is not None:
        return int(index)
    return json.loads(quoted) if quoted is not None else key if key is not None else destination


def _find(made: Any, path: str) -> tuple[Any, Any]:
    *way, last = segments(path)
    for segment in way:
        made = made[segment]
    return made, last


def _remove(made: Any, path: list[Any]) -> None:
    """Delete; a mapping that becomes empty goes with its last key."""
    if len(path) > 1:
        _remove(made[path[0]], path[1:])
        if made[path[0]] == {} and path[0] != "roles":
            del made[path[0]]
    else:
        del made[path[0]]


def _insert(made: Any, change: Change) -> None:
    *way, last = segments(change.path)
    for segment in way:
        made = made[segment] if isinstance(made, list) else made.setdefault(segment, {})
    value = copy.deepcopy(change.new)
    if isinstance(made, list):
        made.insert(last, value)
    else:
        made[last] = _keyed_role(value) if way == ["roles"] else value


def _keyed(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "roles": {role["name"]: _keyed_role(role) for role in document["roles"]}}


def _keyed_role(role: dict[str, Any]) -> dict[str, Any]:
    mounts = {"mounts": {mount["dst"]: mount for mount in role["mounts"]}} if "mounts" in role else {}
    return {**role, **mounts}


def _listed(made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "roles": [_listed_role(role) for role in made["roles"].values()]}


def _listed_role(role: dict[str, Any]) -> dict[str, Any]:
    mounts = role.get("mounts")
    return {**role, "mounts": [mounts[dst] for dst in sorted(mounts)]} if mounts else role
