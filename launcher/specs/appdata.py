"""Convert an AppDef to JSON and back, to pass it between processes, and find the first difference of two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from launcher.dataclass import fields
from launcher.specs.app import (
    DEPENDENCIES,
    JSON,
    MOUNTS,
    OPTIONS,
    PROBE,
    ROLE_FIELDS,
    VARIABLES,
    AppDef,
    Probe,
    Resource,
    Role,
)
from launcher.specs.canonical import UnstorableValueError, json_value
from launcher.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount
from launcher.specs.secret import Secret

_MOUNTS: Mapping[str, type] = {"bind": BindMount, "volume": VolumeMount, "device": DeviceMount}
_SECRET = "secret"


def to_json(app: AppDef) -> dict[str, Any]:
    """Return all fields of an app that `check_app` has accepted. Subclasses become the plain classes.

    Raises UnstorableValueError for metadata that JSON cannot hold.
    """
    return {
        "name": app.name,
        "roles": [_from_role(role) for role in app.roles],
        "metadata": json_value(app.metadata, "metadata"),
        "output": app.output,
    }


def from_json(value: Any) -> AppDef:
    """Make the app from a value of `to_json`.

    Raises ValueError or TypeError for a value of another shape; `check_app` checks the fields' contents.
    """
    parts = _parts(value, AppDef)
    roles = [_to_role(role) for role in _list(parts["roles"])]
    return AppDef(parts["name"], roles, dict(_mapping(parts["metadata"])), bool(parts["output"]))


def _from_role(role: Role) -> dict[str, Any]:
    where = f"roles.{role.name}"
    if type(role).pre_proc is not Role.pre_proc:
        message = f"{where}: `{type(role).__name__}.pre_proc` changes the request, and data cannot hold that"
        raise UnstorableValueError(message, hint="launch it from Python, or return a plain Role")
    return {
        name: _WRITERS.get(field.kind, _plain)(getattr(role, name), f"{where}.{name}")
        for name, field in ROLE_FIELDS.items()
    }


def _to_role(value: Any) -> Role:
    parts = _parts(value, Role)
    for name, field in ROLE_FIELDS.items():
        if isinstance(field.default, Enum):
            parts[name] = type(field.default)(parts[name])
        elif field.kind in _READERS:
            parts[name] = _READERS[field.kind](parts[name])
    return Role(**parts)


def _fields_of(value: Any, cls: type) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(cls)}


def _parts(value: Any, cls: type) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != {field.name for field in fields(cls)}:
        raise ValueError(f"no {cls.__name__}: {value!r:.80}")
    return dict(value)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"no mapping: {value!r:.80}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"no list: {value!r:.80}")
    return value


def _plain(value: Any, _: str) -> Any:
    return str(value) if isinstance(value, str) else value


def _from_mounts(mounts: Iterable[Mount], _: str) -> list[dict[str, Any]]:
    return [
        {"type": kind, **_fields_of(mount, cls)}
        for mount in mounts
        for kind, cls in _MOUNTS.items()
        if isinstance(mount, cls)
    ]


def _to_mount(value: Any) -> Mount:
    rest = dict(_mapping(value))
    cls = _MOUNTS[rest.pop("type")]
    made: Mount = cls(**_parts(rest, cls))
    return made


# Kind of a role's field → how a value is converted from JSON; other kinds need no conversion.
_WRITERS: Mapping[str, Callable[[Any, str], Any]] = {
    VARIABLES: lambda value, _: {
        key: {_SECRET: str(text)} if isinstance(text, Secret) else text for key, text in value.items()
    },
    JSON: json_value,
    OPTIONS: json_value,
    MOUNTS: _from_mounts,
    "Resource": lambda value, where: json_value(_fields_of(value, Resource), where),
    "list[str]": lambda value, _: list(value),
    "dict[str, int]": lambda value, _: dict(value),
    DEPENDENCIES: lambda value, _: dict(value),
    PROBE: lambda value, _: value and value.to_json(),
}
_READERS: Mapping[str, Callable[[Any], Any]] = {
    VARIABLES: lambda value: {
        key: Secret.parse(text[_SECRET]) if isinstance(text, dict) else text
        for key, text in _mapping(value).items()
    },
    MOUNTS: lambda value: [_to_mount(mount) for mount in _list(value)],
    "Resource": lambda value: Resource(**_parts(value, Resource)),
    PROBE: lambda value: Probe.from_json(_mapping(value)) if value is not None else None,
}


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
    """Return the path of the first difference of two `plain` apps, `roles.trainer.args[3]`, or None."""
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
