"""Compare two documents path by path: minimal, typed and readable.

Roles are compared by name and mounts by destination. Every other list is aligned by its fewest edits, so
that an argument inserted in front is one `+`. Mappings are compared by key, down to their leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from launcher.plan.align import align, atom
from launcher.plan.notation import field, show, show_at, show_both
from launcher.specs.secret import HIDDEN, hide, hide_item, is_sensitive, reference_in

Op = Literal["+", "-", "~"]

_BARE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")
_BARE_DESTINATION = re.compile(r"/[^\[\]\"\\\x00-\x1f]*\Z")
_NOTHING: Any = object()  # differs from every JSON value


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    `path` is `roles.trainer.args[3]`, `roles.trainer.env.LR`, `roles.trainer.mounts[/data]`; a key that could
    be misread stands in quotes, `metadata["a.b"]`. The index of a `+` counts in the new list, that of `-`
    and `~` in the old one. A changed order of the roles is one `~` of the path `roles`, with their names.
    `old` and `new` are JSON values; `old` is None for `+`, `new` for `-`.
    """

    op: Op
    path: str
    old: Any = None
    new: Any = None

    def __str__(self) -> str:
        """One line in the notation of job files."""
        path = field(self.path)
        if self.op == "~" and self.old == self.new == HIDDEN:
            return f"~ {path}: {HIDDEN}"
        if self.op == "~":
            return f"~ {path}: {' → '.join(show_both(self.path, self.old, self.new))}"
        if self.op == "+":
            return f"+ {path} = {show_at(self.path, self.new)}"
        if isinstance(self.old, Mapping) and not reference_in(self.old):
            # a whole role or mount is shown by its name alone
            return f"- {path}"
        return f"- {path} = {show_at(self.path, self.old)}"


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """List the changes from the document `old` to `new`, without literals under sensitive-looking names."""
    rest = _mappings(_without(old, "roles"), _without(new, "roles"), "")
    return (*rest, *_roles(old.get("roles", []), new.get("roles", [])))


def _mappings(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Change]:
    for key in sorted({*old, *new}):
        yield from _values(old.get(key, _NOTHING), new.get(key, _NOTHING), key, _join(path, key))


def _values(old: Any, new: Any, name: str, path: str) -> Iterator[Change]:
    """`name` is the key of both values; either value may be _NOTHING."""
    before, after = _branch(old), _branch(new)
    emptied = before and new == {}  # an empty mapping is not the same as none
    if (
        before is not None
        and after is not None
        and not emptied
        and (before or after)
        and not is_sensitive(name)
    ):
        yield from _mappings(before, after, path)
    elif isinstance(old, list) and isinstance(new, list) and not is_sensitive(name):
        yield from _lists(old, new, path)
    elif old is _NOTHING:
        yield Change("+", path, new=hide(new, name))
    elif new is _NOTHING:
        yield Change("-", path, old=hide(old, name))
    elif atom(old) != atom(new):
        yield Change("~", path, hide(old, name), hide(new, name))


def _branch(value: Any) -> Mapping[str, Any] | None:
    """The mapping to compare key by key: a new `env` gives one `+` per variable."""
    if value is _NOTHING:
        return {}
    return value if isinstance(value, Mapping) and not reference_in(value) else None


def _lists(old: Sequence[Any], new: Sequence[Any], path: str) -> Iterator[Change]:
    for op, i, j in align(old, new):
        if op == "+":
            yield Change("+", f"{path}[{j}]", new=hide_item(new, j))
        elif op == "-":
            yield Change("-", f"{path}[{i}]", old=hide_item(old, i))
        else:
            yield Change("~", f"{path}[{i}]", hide_item(old, i), hide_item(new, j))


def _roles(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    before, after = _by(old, "name"), _by(new, "name")
    for name in sorted(before.keys() - after.keys()):
        yield Change("-", _join("roles", name), old=hide(before[name]))
    for name, role in after.items():
        path = _join("roles", name)
        if name in before:
            yield from _role(before[name], role, path)
        else:
            yield Change("+", path, new=hide(role))
    unmoved = [*(name for name in before if name in after), *(name for name in after if name not in before)]
    if unmoved != list(after):
        yield Change("~", "roles", list(before), list(after))


def _role(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Change]:
    yield from _mappings(_without(old, "mounts"), _without(new, "mounts"), path)
    before, after = _by(old.get("mounts", []), "dst"), _by(new.get("mounts", []), "dst")
    for dst in sorted({*before, *after}):
        place = f"{path}.mounts[{dst if _BARE_DESTINATION.match(dst) else show(dst)}]"
        if dst not in after:
            yield Change("-", place, old=hide(before[dst]))
        elif dst not in before:
            yield Change("+", place, new=hide(after[dst]))
        else:
            yield from _mappings(before[dst], after[dst], place)


def _by(items: Sequence[Mapping[str, Any]], key: str) -> dict[str, Mapping[str, Any]]:
    """The items by name or destination: a normal form holds each of them once."""
    return {item[key]: item for item in items}


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


def _join(path: str, key: str) -> str:
    if not _BARE.match(key):
        return f"{path}[{show(key)}]"
    return f"{path}.{key}" if path else key
