"""Find the first difference of two apps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from launcher.specs.app import AppDef, Role

_CLASS = "__class__"
_NOTHING = object()


def plain(value: Any) -> Any:
    """A deep copy of an app as mappings and lists, independent of later changes."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        # Apps of subclasses compare equal to plain ones.
        return parts if isinstance(value, AppDef) else {_CLASS: type(value), **parts}
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def first_difference(one: Any, other: Any, path: str = "") -> str | None:
    """The path of the first value that differs in two `plain` apps, `roles.trainer.args[3]`, or None."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(f"{path}.{key}", key) for key in {**one, **other}]
        found = (_difference(one, other, key, below) for below, key in pairs)
    elif isinstance(one, list) and isinstance(other, list):
        size = max(len(one), len(other))
        a, b = ({n: many[n] for n in range(len(many))} for many in (one, other))
        found = (_difference(a, b, n, path + _item(a.get(n), n)) for n in range(size))
    else:
        return None if one == other else path.removeprefix(".").removesuffix(f".{_CLASS}")
    return next((each for each in found if each is not None), None)


def _difference(one: Mapping[Any, Any], other: Mapping[Any, Any], key: Any, path: str) -> str | None:
    return first_difference(one.get(key, _NOTHING), other.get(key, _NOTHING), path)


def _item(value: Any, n: int) -> str:
    """Return the name of a list item in a path: a role has its name, other items their index."""
    kind = value.get(_CLASS) if isinstance(value, dict) else None
    return f".{value['name']}" if isinstance(kind, type) and issubclass(kind, Role) else f"[{n}]"
