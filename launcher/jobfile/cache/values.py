"""Convert the values that compiling makes to plain data and back: texts, numbers, lists, tuples, mappings."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

_HOMES = {
    "launcher.jobfile.diagnostics.diagnostic": "Diagnostic Related",
    "launcher.jobfile.diagnostics.frame": "Span",
    "launcher.specs.app": "AppDef Resource RetryPolicy Role",
    "launcher.specs.jobkey": "JobKey",
    "launcher.specs.launch": "Budget Caps Launch Lifecycle ProjectRef Trigger WorkspaceRef",
    "launcher.specs.mounts": "BindMount DeviceMount VolumeMount",
    "launcher.specs.needs": "Need",
    "launcher.specs.notify": "Destination",
    "launcher.specs.probe": "Probe",
    "launcher.specs.secret": "Secret",
}
_CLASSES = [(home, name) for home, names in _HOMES.items() for name in names.split()]
_NUMBERS = {each: number for number, each in enumerate(_CLASSES, 1)}
_TUPLE = 0
_PLAIN = frozenset({type(None), bool, int, float, str})
_LEFT_OUT = ("shared_line",)
"""Fields that hold functions."""


class NotPlainError(Exception):
    """A value is of a class that is not listed here."""


def packed(value: Any) -> Any:
    """Return plain data from which `unpacked` makes an equal value. Raises NotPlainError."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [packed(item) for item in value]
    if kind is dict:
        return {packed(key): packed(item) for key, item in value.items()}
    if kind is tuple:
        return (_TUPLE, *map(packed, value))
    number = _NUMBERS.get((kind.__module__, kind.__qualname__))
    if number is None:
        raise NotPlainError(kind)
    names = _fields(number)
    if names is not None:
        return (number, *[packed(getattr(value, name)) for name in names])
    if isinstance(value, tuple):
        return (number, *map(packed, value))
    return (number, str.__str__(value))


def unpacked(data: Any) -> Any:
    """The value that `packed` made this of."""
    kind = type(data)  # most items are plain, and a call for each would take most of the time
    if kind is list:
        return [item if type(item) in _PLAIN else unpacked(item) for item in data]
    if kind is dict:
        return {key: item if type(item) in _PLAIN else unpacked(item) for key, item in data.items()}
    if kind is not tuple:
        return data
    number, *parts = data
    values = unpacked(parts)
    if number == _TUPLE:
        return tuple(values)
    made = _class(number)
    names = _fields(number)
    if names is None:
        return made(*values)
    value = object.__new__(made)
    for name, part in zip(names, values, strict=True):
        object.__setattr__(value, name, part)
    for name, default in _defaults(number):
        object.__setattr__(value, name, default)
    return value


@cache
def _class(number: int) -> Any:
    home, name = _CLASSES[number - 1]
    return getattr(import_module(home), name)


@cache
def _fields(number: int) -> tuple[str, ...] | None:
    """The fields of a dataclass; None for tuples with names, enumerations and texts."""
    declared = getattr(_class(number), "__dataclass_fields__", None)
    return None if declared is None else tuple(name for name in declared if name not in _LEFT_OUT)


@cache
def _defaults(number: int) -> tuple[tuple[str, Any], ...]:
    declared = _class(number).__dataclass_fields__
    return tuple((name, declared[name].default) for name in _LEFT_OUT if name in declared)
