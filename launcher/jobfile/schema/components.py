"""The schema of jobs that name a component: the built-in components, and the arguments of each.

The arguments are read from the signatures when the schema is made. Other components are free text with free
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args, get_origin

from launcher.components.component import Component
from launcher.components.finder import BUILTIN, HOMES, ModuleComponentsFinder
from launcher.components.signature import Parameter, parameters_of, without_none
from launcher.jobfile.schema.words import described, nullable, open_choice

Schema = dict[str, Any]

_EXAMPLES: dict[Any, Any] = {str: "text", int: 1, float: 0.5, bool: True, list: ["text"], dict: {"NAME": "v"}}
_NAMES = {int: "integer", float: "number", bool: "boolean"}
_TEXT: Schema = {"type": ["string", "number", "boolean"]}  # taken as written
_TEXT_OR_SECRET: Schema = {"anyOf": [_TEXT, {"$ref": "#/$defs/SecretRef"}]}


def builtins() -> list[Component]:
    """The components that come with launcher, in the order of their modules."""
    return [
        component
        for home in HOMES
        for component in ModuleComponentsFinder(f"{BUILTIN}.{home}", home).find([])
    ]


def component_name() -> Schema:
    """Return the schema of a component's name: a built-in one, or any text."""
    return open_choice({each.name: _sentence(each.description) for each in builtins()})


def either_roles_or_component() -> Schema:
    """Return rules against `roles` beside `component`, and `args` without one, placed at that field."""
    return {
        "if": {"required": ["component"]},
        "then": {"properties": {"roles": False, "defaults": False}},
        "else": {
            "if": {"anyOf": [{"required": [each]} for each in ("extends", "jobs", "abstract")]},
            "then": {},  # other layers may have the roles or the component
            "else": {"required": ["roles"], "properties": {"roles": {"minProperties": 1}, "args": False}},
        },
    }


def arguments(or_reference: Callable[[Schema], Schema]) -> Iterator[tuple[str, Schema, list[Schema]]]:
    """Yield for each built-in component: name of its definition, its arguments, rules that require them."""
    for component in builtins():
        parameters = parameters_of(component.fn).values()
        required = [parameter.name for parameter in parameters if parameter.is_required]
        model: Schema = {
            "type": "object",
            "title": f"arguments of {component.name}",
            "description": _sentence(component.description),
            "properties": {each.name: _property(each, or_reference) for each in parameters},
            "additionalProperties": False,
        }
        name = f"{component.name}.args"
        named = {"component": {"const": component.name}}
        rules = [_rule(named, {"args": {"$ref": f"#/$defs/{name}"}})]
        if required:
            alone = {**named, "extends": False, "abstract": False}  # other layers may have the rest
            rules.append(_rule(alone, {"args": {"required": required}}, "args"))
        yield name, model, rules


def _rule(when: Schema, then: Schema, *required: str) -> Schema:
    """Return the rule that a job with a component and the properties `when` has the properties `then`."""
    asked = {"required": [*required]} if required else {}
    return {"if": {"properties": when, "required": ["component"]}, "then": {"properties": then, **asked}}


def _property(parameter: Parameter, or_reference: Callable[[Schema], Schema]) -> Schema:
    inner, is_optional = without_none(parameter.type)
    default = parameter.default if not parameter.is_required and not parameter.is_rest else None
    kind = list if parameter.is_rest else get_origin(inner) or inner
    value = _shape(list[inner] if parameter.is_rest else inner, or_reference)  # type: ignore[valid-type]
    words = described(
        parameter.name, _sentence(parameter.text or parameter.name), default or _EXAMPLES[kind], default
    )
    known = {"default": default} if isinstance(default, str | int | float) else {}
    return {**words, **(nullable(value) if is_optional else value), **known}


def _shape(tp: Any, or_reference: Callable[[Schema], Schema]) -> Schema:
    kind, parts = get_origin(tp) or tp, get_args(tp)
    if kind is list:
        return {"type": "array", "items": _shape(parts[0], or_reference) if parts else {}}
    if kind is str:
        return dict(_TEXT)
    if kind is dict:
        inner = _shape(parts[1], or_reference) if len(parts) == 2 else {}
        inner = dict(_TEXT_OR_SECRET) if inner == _TEXT else inner
        return {"type": "object", "additionalProperties": inner or True}
    return or_reference({"type": _NAMES[kind]}) if kind in _NAMES else {}


def _sentence(text: str) -> str:
    """Return the first sentence of a text."""
    first = " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")
    return f"{first[:1].upper()}{first[1:]}."
