"""Build JSON Schemas, and find every fault of a value by its schema.

Functions named after a kind of value return its schema, in the part of JSON Schema that `faults_in` reads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from launcher.text import nearest

_TOO_LARGE = 1e15
Schema = dict[str, Any]
Fault = tuple[str, str]
"""A path (`jobs[0].guard.state`) and the fault of the value at that path."""


def text(doc: str = "", *, pattern: str = "", choices: Collection[str] = ()) -> Schema:
    """Return the schema of a string: one of `choices`, or a full match of `pattern`."""
    given = {"enum": list(choices)} if choices else {}
    return _of("string", doc, **given, **({"pattern": f"^(?:{pattern})$"} if pattern else {}))


def whole(doc: str = "", *, least: int | None = None) -> Schema:
    """Return the schema of an integer of at least `least`."""
    return _of("integer", doc, **({} if least is None else {"minimum": least}))


def number(doc: str = "") -> Schema:
    """Return the schema of a finite number that is not negative."""
    return _of("number", doc, minimum=0, exclusiveMaximum=_TOO_LARGE)


def flag(doc: str = "") -> Schema:
    return _of("boolean", doc)


def anything(doc: str = "") -> Schema:
    """Return the schema of any JSON value."""
    return {"description": doc} if doc else {}


def items(item: Schema, doc: str = "") -> Schema:
    """Return the schema of a list whose items have one schema."""
    return _of("array", doc, items=item)


def table(value: Schema, doc: str = "") -> Schema:
    """Return the schema of an object with arbitrary keys and values of one schema."""
    return _of("object", doc, additionalProperties=value)


def record(fields: Mapping[str, Schema], optional: Mapping[str, Schema], doc: str = "") -> Schema:
    """Return the schema of an object with known fields alone, of which the `optional` ones may be absent."""
    known = {**fields, **optional}
    return _of("object", doc, properties=known, required=list(fields), additionalProperties=False)


def either(first: Schema, second: Schema, doc: str = "") -> Schema:
    """Return the schema of a value of one of two schemas: `second` for a record that has its fields."""
    return {**anything(doc), "anyOf": [first, second]}


def _of(kind: str, doc: str, **more: Any) -> Schema:
    return {**anything(doc), "type": kind, **more}


def faults_in(schema: Schema, value: Any, path: str) -> Iterator[Fault]:
    """Return every fault of a value, by a schema that the functions above have made."""
    if "anyOf" in schema:
        schema = _chosen(schema["anyOf"], value)
    check = _CHECKS.get(schema.get("type", ""))
    return iter(()) if check is None else check(schema, value, path)


def _chosen(options: Sequence[Schema], value: Any) -> Schema:
    if not isinstance(value, dict):
        return options[0]
    records = [each for each in options if each["type"] == "object"]
    return next((each for each in records[::-1] if value.keys() >= {*each["required"]}), records[0])


def _text_faults(schema: Schema, value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield path, f"want text, got {_kind(value)}"
    elif "enum" in schema and value not in schema["enum"]:
        yield path, f"want one of {', '.join(schema['enum'])}, got {value!r}"
    elif "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        yield path, f"want text like /{schema['pattern'][len('^(?:') : -len(')$')]}/, got {value!r}"


def _whole_faults(schema: Schema, value: Any, path: str) -> Iterator[Fault]:
    least = schema.get("minimum")
    if isinstance(value, bool) or not isinstance(value, int):
        yield path, f"want a whole number, got {_kind(value)}"
    elif least is not None and value < least:
        yield path, f"want at least {least}, got {value}"


def _number_faults(schema: Schema, value: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield path, f"want a number, got {_kind(value)}"
    elif not schema["minimum"] <= value < schema["exclusiveMaximum"]:
        yield path, f"want a number of at least {schema['minimum']}, got {value}"


def _flag_faults(schema: Schema, value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, bool):
        yield path, f"want true or false, got {_kind(value)}"


def _items_faults(schema: Schema, value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, list):
        yield path, f"want a list, got {_kind(value)}"
        return
    for index, item in enumerate(value):
        yield from faults_in(schema["items"], item, f"{path}[{index}]")


def _object_faults(schema: Schema, value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, dict):
        yield path, f"want an object, got {_kind(value)}"
        return
    known, others = schema.get("properties", {}), schema["additionalProperties"]
    for name, item in value.items():
        place = f"{path}.{name}" if path else name
        if name in known or others is not False:
            yield from faults_in(known.get(name, others), item, place)
        else:
            near = nearest(name, known)
            yield place, "not a field here" + (f"; did you mean `{near}`?" if near else "")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}" if path else name, "is missing"


_CHECKS = {
    "string": _text_faults,
    "integer": _whole_faults,
    "number": _number_faults,
    "boolean": _flag_faults,
    "array": _items_faults,
    "object": _object_faults,
}


def _kind(value: Any) -> str:
    """Return the kind of a JSON value in the words of messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    words = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return words.get(type(value), type(value).__name__)
