"""Convert the values that compiling makes to plain data and back: texts, numbers, lists, tuples, mappings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
    return _maker(data[0])(data) if type(data) is tuple and data else data


def _parts(data: tuple[Any, ...]) -> list[Any]:
    return [unpacked(part) if type(part) is tuple else part for part in data[1:]]


@cache
def _maker(number: int) -> Callable[[tuple[Any, ...]], Any]:
    """The function that makes a value of its data, without the constructor of a dataclass."""
    if number == _DICT:
        return lambda data: dict(zip(data[1], _parts(data)[1:], strict=True))
    if number <= _TUPLE:
        kind = list if number == _LIST else tuple
        return lambda data: kind(_parts(data))
    made, names = _class(number), _fields(number)
    if names is not None:
        make = _filler(made, names)
    elif issubclass(made, tuple):
        make = lambda data: tuple.__new__(made, _parts(data))  # noqa: E731
    else:
        make = lambda data: made(*data[1:])  # noqa: E731
    return cache(make) if number in _SHARED else make


def _filler(made: Any, names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Any]:
    """A function that sets the fields of a new instance: a statement each, which is faster than a loop."""
    known = {"made": made, "new": object.__new__, "unpacked": unpacked, "set_field": object.__setattr__}
    parts = [f"part{n}" for n in range(len(names))]
    values = [f"unpacked({part}) if type({part}) is tuple else {part}" for part in parts]
    body = [f"_, {', '.join(parts)}, = data", "value = new(made)"]
    if hasattr(made, "__slots__"):
        known |= {f"set_{part}": vars(made)[name].__set__ for part, name in zip(parts, names, strict=True)}
        body += [f"set_{part}(value, {text})" for part, text in zip(parts, values, strict=True)]
    else:
        items = (f"{name!r}: {text}" for name, text in zip(names, values, strict=True))
        body.append(f"vars(value).update({{{', '.join(items)}}})")
    for each in fields(made):
        if each.name in _LEFT_OUT:
            known[f"default_{each.name}"] = each.default
            body.append(f"set_field(value, {each.name!r}, default_{each.name})")
    exec("\n ".join(["def filled(data):", *body, "return value"]), known)
    filled: Callable[[tuple[Any, ...]], Any] = known["filled"]
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
