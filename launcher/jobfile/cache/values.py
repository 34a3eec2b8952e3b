"""Convert the values that compiling makes to plain data and back: texts, numbers, lists, tuples, mappings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

from launcher.dataclass import fields

_HOMES = {
    "launcher.jobfile.diagnostics.diagnostic": "Diagnostic Related Span",
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
_TUPLE, _LIST, _DICT = 0, -1, -2
_PLAIN = frozenset({type(None), bool, int, float, str})
_SHARED = frozenset(
    {_NUMBERS["launcher.specs.app", "RetryPolicy"], _NUMBERS["launcher.specs.launch", "Lifecycle"]}
)
"""Classes of few different values that cannot change: equal ones become one object."""
_LEFT_OUT = ("shared_line",)
"""Fields that hold functions."""


class NotPlainError(Exception):
    """A value is of a class that is not listed here."""


def packed(value: Any) -> Any:
    """Return plain data from which `unpacked` makes an equal value. Raises NotPlainError.

    Everything but plain values becomes a tuple, which begins with the number of its class.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        items = [packed(item) for item in value]
        return (_LIST, *items) if any(type(item) is tuple for item in items) else items
    if kind is dict:
        parts = [packed(item) for item in value.values()]
        is_plain = not any(type(part) is tuple for part in parts)
        return dict(zip(value, parts, strict=True)) if is_plain else (_DICT, [*value], *parts)
    if kind is tuple:
        return (_TUPLE, *map(packed, value)) if value else ()
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
    """The value that `packed` made this of. It takes over the lists and mappings in the data."""
    if type(data) is not tuple or not data:
        return data
    return _shared(data) if data[0] in _SHARED else _made(data)


def _made(data: tuple[Any, ...]) -> Any:
    number, *parts = data
    return _maker(number)([unpacked(part) if type(part) is tuple and part else part for part in parts])


_shared = cache(_made)


@cache
def _maker(number: int) -> Callable[[list[Any]], Any]:
    """The function that makes a value of its parts, without the constructor of a dataclass."""
    if number == _DICT:
        return lambda parts: dict(zip(parts[0], parts[1:], strict=True))
    if number <= _TUPLE:
        return list if number == _LIST else tuple
    made, names = _class(number), _fields(number)
    if names is None:
        return partial(tuple.__new__, made) if issubclass(made, tuple) else lambda parts: made(*parts)
    setters = [vars(made)[name].__set__ for name in names] if hasattr(made, "__slots__") else []
    defaults = {each.name: each.default for each in fields(made) if each.name in _LEFT_OUT}

    def filled(parts: list[Any]) -> Any:
        value = object.__new__(made)
        if setters:
            for setter, part in zip(setters, parts, strict=True):
                setter(value, part)
        else:
            vars(value).update(zip(names, parts, strict=True))
        for name, default in defaults.items():
            object.__setattr__(value, name, default)
        return value

    return filled


@cache
def _class(number: int) -> Any:
    home, name = _CLASSES[number - 1]
    return getattr(import_module(home), name)


@cache
def _fields(number: int) -> tuple[str, ...] | None:
    """The fields of a dataclass; None for tuples with names, enumerations and texts."""
    kept = _class(number)
    if issubclass(kept, (str, tuple)):
        return None
    return tuple(each.name for each in fields(kept) if each.name not in _LEFT_OUT)
