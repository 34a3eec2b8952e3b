"""Render a document as lines `path = value`, with the field names of job files."""

from __future__ import annotations

from launcher.plan.diff import field, show, show_at
from launcher.specs.secret import hide, reference_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


def flat(document: Mapping[str, Any]) -> Iterator[str]:
    """A line for every leaf of a document; roles by name, mounts by destination.

    Hides literals under sensitive-looking names, as plans do.
    """
    for key in sorted(document):
        if key != "roles":
            yield from _lines(key, document[key], key)
    for role in document.get("roles", ()):
        for key in role:
            if key != "name":
                yield from _lines(f"roles.{role['name']}.{key}", role[key], key)


def _lines(path: str, value: Any, name: str) -> Iterator[str]:
    shown = hide(value, name)
    if isinstance(shown, dict) and shown and not reference_in(shown):
        for key in shown:
            yield from _lines(f"{path}.{key}", shown[key], key)
    elif name == "mounts":
        for mount in value:
            for key in mount:
                if key != "dst":
                    yield from _lines(f"{path}[{mount['dst']}].{key}", mount[key], key)
    elif name == "args":
        for number, arg in enumerate(shown):
            yield f"{path}[{number}] = {show(arg)}"
    else:
        yield f"{field(path)} = {show_at(path, shown)}"
