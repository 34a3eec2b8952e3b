"""Shapes of JSON values: each finds every fault of a value, and writes its JSON Schema from the same text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from launcher.dataclass import dataclass
from launcher.text import nearest

_TOO_LARGE = 1e15
Fault = tuple[str, str]
"""A path (`jobs[0].guard.state`) and the fault there."""


class Shape(Protocol):
    def faults(self, value: Any, path: str) -> Iterator[Fault]: ...

    def schema(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Text:
    """A string: one of `choices`, or a full match of `pattern`."""

    doc: str = ""
    pattern: str = ""
    choices: Collection[str] = ()

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, str):
            yield path, f"want text, got {_kind(value)}"
        elif self.choices and value not in self.choices:
            yield path, f"want one of {', '.join(self.choices)}, got {value!r}"
        elif self.pattern and not re.fullmatch(self.pattern, value):
            yield path, f"want text like /{self.pattern}/, got {value!r}"

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "string"}
        if self.choices:
            out["enum"] = list(self.choices)
        if self.pattern:
            out["pattern"] = f"^(?:{self.pattern})$"
        return _described(out, self.doc)


@dataclass(frozen=True, slots=True)
class Either:
    """A string of one shape or an object of another."""

    text: Text
    record: Object
    doc: str = ""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        shape: Shape = self.record if isinstance(value, dict) else self.text
        return shape.faults(value, path)

    def schema(self) -> dict[str, Any]:
        return _described({"anyOf": [self.text.schema(), self.record.schema()]}, self.doc)


@dataclass(frozen=True, slots=True)
class Choice:
    """An object of one of two shapes: the second where it has the field `by`."""

    first: Object
    second: Object
    by: str
    doc: str = ""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        is_second = isinstance(value, dict) and self.by in value
        return (self.second if is_second else self.first).faults(value, path)

    def schema(self) -> dict[str, Any]:
        return _described({"anyOf": [self.first.schema(), self.second.schema()]}, self.doc)


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer of at least `least`."""

    doc: str = ""
    least: int | None = None

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        if isinstance(value, bool) or not isinstance(value, int):
            yield path, f"want a whole number, got {_kind(value)}"
        elif self.least is not None and value < self.least:
            yield path, f"want at least {self.least}, got {value}"

    def schema(self) -> dict[str, Any]:
        limit = {} if self.least is None else {"minimum": self.least}
        return _described({"type": "integer", **limit}, self.doc)


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number that is not negative."""

    doc: str = ""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield path, f"want a number, got {_kind(value)}"
        elif not 0 <= value < _TOO_LARGE:
            yield path, f"want a number of at least 0, got {value}"

    def schema(self) -> dict[str, Any]:
        return _described({"type": "number", "minimum": 0, "exclusiveMaximum": _TOO_LARGE}, self.doc)


@dataclass(frozen=True, slots=True)
class Flag:
    doc: str = ""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, bool):
            yield path, f"want true or false, got {_kind(value)}"

    def schema(self) -> dict[str, Any]:
        return _described({"type": "boolean"}, self.doc)


@dataclass(frozen=True, slots=True)
class Anything:
    """Any JSON value."""

    doc: str = ""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        yield from ()

    def schema(self) -> dict[str, Any]:
        return _described({}, self.doc)


@dataclass(frozen=True, slots=True)
class Items:
    """A list with items of one shape."""

    item: Shape
    doc: str = ""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield path, f"want a list, got {_kind(value)}"
            return
        for index, item in enumerate(value):
            yield from self.item.faults(item, f"{path}[{index}]")

    def schema(self) -> dict[str, Any]:
        return _described({"type": "array", "items": self.item.schema()}, self.doc)


@dataclass(frozen=True, slots=True)
class Table:
    """An object with arbitrary keys and values of one shape."""

    value: Shape
    doc: str = ""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield path, f"want an object, got {_kind(value)}"
            return
        for key, item in value.items():
            yield from self.value.faults(item, f"{path}.{key}")

    def schema(self) -> dict[str, Any]:
        return _described({"type": "object", "additionalProperties": self.value.schema()}, self.doc)


@dataclass(frozen=True, slots=True)
class Object:
    """An object with known fields; those in `optional` may be absent, unknown ones are faults."""

    fields: Mapping[str, Shape]
    optional: Mapping[str, Shape]
    doc: str = ""

    def faults(self, value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield path, f"want an object, got {_kind(value)}"
            return
        known = {**self.fields, **self.optional}
        for name, item in value.items():
            place = f"{path}.{name}" if path else name
            if name in known:
                yield from known[name].faults(item, place)
            else:
                near = nearest(name, known)
                yield place, "not a field here" + (f"; did you mean `{near}`?" if near else "")
        for name in self.fields:
            if name not in value:
                yield f"{path}.{name}" if path else name, "is missing"

    def schema(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "type": "object",
            "properties": {name: shape.schema() for name, shape in {**self.fields, **self.optional}.items()},
            "required": list(self.fields),
            "additionalProperties": False,
        }
        return _described(out, self.doc)


def _described(schema: dict[str, Any], doc: str) -> dict[str, Any]:
    return {"description": doc, **schema} if doc else schema


def _kind(value: Any) -> str:
    """The kind of a JSON value as messages name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    words = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return words.get(type(value), type(value).__name__)
