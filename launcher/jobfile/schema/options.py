"""The schemas of scheduler options and component arguments, which depend on the name that a job gives.

Options of unknown schedulers and arguments of components that are not built in are free. Arguments are read
from the signatures when the schema is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, get_args, get_origin

from launcher.components.component import Component
from launcher.components.finder import BUILTIN, HOMES, ModuleComponentsFinder
from launcher.components.signature import Parameter, parameters_of, without_none
from launcher.jobfile.schema.words import described, nullable, open_choice
from launcher.specs.jobkey import DEFAULT_SCHEDULER
from launcher.specs.runopts import runopt, runopts

Schema = dict[str, Any]


class SchedulerSchema(NamedTuple):
    """A scheduler as the schema shows it.

    Attributes:
        about: one sentence.
    """

    about: str
    options: runopts


Schedulers = Mapping[str, SchedulerSchema]

_KINDS = {int: "integer", float: "number", bool: "boolean", str: "string"}
_EXAMPLES: dict[Any, Any] = {str: "text", int: 1, float: 0.5, list: ["text"], dict: {"NAME": "text"}}


def scheduler_name(schedulers: Schedulers) -> Schema:
    """Return the schema of a scheduler's name: a known one, or any text."""
    return open_choice({name: declared.about for name, declared in schedulers.items()})


def options_of(options: runopts, or_reference: Callable[[Schema], Schema] | None = None) -> dict[str, Schema]:
    """The options of a scheduler by name; with `or_reference`, each value may also be a reference or null."""
    return {name: _property(name, opt, or_reference) for name, opt in options}


def role_options(schedulers: Schedulers, or_reference: Callable[[Schema], Schema]) -> dict[str, Schema]:
    """The options that `cfg` of a role may have, of all schedulers."""
    known = (pair for declared in schedulers.values() for pair in declared.options.of_role())
    return {name: _property(name, opt, or_reference) for name, opt in known}


def cfg_models(
    schedulers: Schedulers, or_reference: Callable[[Schema], Schema], words: Schema
) -> Iterator[tuple[str, Schema]]:
    """Yield name and definition of each scheduler's options, with the texts of the field `cfg`: an open
    mapping, and a closed one."""
    for scheduler, declared in schedulers.items():
        name = f"{scheduler}.options"
        options = options_of(declared.options, or_reference)
        yield name, {**words, "properties": options}
        fields = {key: {"$ref": f"#/$defs/{name}/properties/{key}"} for key in options}
        yield f"{scheduler}.cfg", {**words, "properties": fields, "additionalProperties": False}


def cfg_rules(schedulers: Schedulers) -> list[Schema]:
    """The rules that bind the `cfg` of a job to the scheduler beside it.

    A job or a target without `scheduler` may get one from another layer: there, options are only offered.
    """
    unnamed = {"if": {"required": ["scheduler"]}, "else": _has_cfg(f"{DEFAULT_SCHEDULER}.options")}

    def in_targets(name: str) -> Schema:
        target = {"if": {"required": ["scheduler"]}, "else": _has_cfg(f"{name}.options")}
        return {"properties": {"targets": {"additionalProperties": target}}}

    offered = _named(schedulers, in_targets)
    return [*overlay_rules(schedulers), *offered, unnamed] if schedulers else []


def overlay_rules(schedulers: Schedulers) -> list[Schema]:
    """The rules that bind the `cfg` of a target to the scheduler beside it."""
    return _named(schedulers, lambda name: _has_cfg(f"{name}.cfg"))


def _has_cfg(name: str) -> Schema:
    return {"properties": {"cfg": {"$ref": f"#/$defs/{name}"}}}


def _named(schedulers: Schedulers, then: Callable[[str], Schema]) -> list[Schema]:
    return [
        {
            "if": {"properties": {"scheduler": {"const": scheduler}}, "required": ["scheduler"]},
            "then": then(scheduler),
        }
        for scheduler in schedulers
    ]


def _property(name: str, opt: runopt, or_reference: Callable[[Schema], Schema] | None) -> Schema:
    value = _shape(opt)
    if or_reference:
        value = nullable(or_reference(value))
    # The default is only in the texts, because editors would write every default below a new `cfg`.
    return {**described(name, f"{opt.help[:1].upper()}{opt.help[1:]}.", _example(opt), opt.default), **value}


def _shape(opt: runopt) -> Schema:
    kind = get_origin(opt.opt_type) or opt.opt_type
    if kind is list:
        return {"type": "array", "items": {"type": "string", **_pattern(opt)}}
    if kind is dict:
        types = ["string", "integer"] if opt.takes_number else "string"
        return {"type": "object", "additionalProperties": {"type": types}}
    if opt.choices:
        texts = [*opt.choices.values()] if isinstance(opt.choices, dict) else [f"{c}." for c in opt.choices]
        words = {"enumDescriptions": texts, "markdownEnumDescriptions": list(texts)}
        return {"type": "string", "enum": [*opt.choices], **words}
    shape: Schema = {"type": _KINDS[kind]}
    if opt.takes_number:
        shape["type"] = ["string", "integer"]
    if opt.minimum is not None:
        shape["minimum"] = int(opt.minimum) if float(opt.minimum).is_integer() else opt.minimum
    return {**shape, **_pattern(opt)}


def _pattern(opt: runopt) -> Schema:
    if not opt.pattern:
        return {}
    return {"pattern": f"^(?:{opt.pattern})$", "patternErrorMessage": f"want {opt.wants}"}


def _example(opt: runopt) -> Any:
    """Return the option's declared example, else a value other than its default."""
    if opt.example is not None:
        return opt.example
    if opt.choices:
        return next((choice for choice in opt.choices if choice != opt.default), opt.default)
    if opt.opt_type is bool:
        return not opt.default
    return opt.default if opt.default is not None else _EXAMPLES[get_origin(opt.opt_type) or opt.opt_type]


_OF_ARGUMENTS = _EXAMPLES | {bool: True, dict: {"NAME": "v"}}
_TEXT: Schema = {"type": ["string", "number", "boolean"]}  # values that are taken as written
_TEXT_OR_SECRET: Schema = {"anyOf": [_TEXT, {"$ref": "#/$defs/SecretRef"}]}


def builtins() -> list[Component]:
    """Return the components that come with launcher, in the order of their modules."""
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
            "properties": {each.name: _argument(each, or_reference) for each in parameters},
            "additionalProperties": False,
        }
        name = f"{component.name}.args"
        named = {"component": {"const": component.name}}
        rules = [_rule(named, {"args": {"$ref": f"#/$defs/{name}"}})]
        if required:
            alone = {**named, "extends": False, "abstract": False}  # other layers may have the other fields
            rules.append(_rule(alone, {"args": {"required": required}}, "args"))
        yield name, model, rules


def _rule(when: Schema, then: Schema, *required: str) -> Schema:
    """Return the rule that a job with a component and the properties `when` has the properties `then`."""
    asked = {"required": [*required]} if required else {}
    return {"if": {"properties": when, "required": ["component"]}, "then": {"properties": then, **asked}}


def _argument(parameter: Parameter, or_reference: Callable[[Schema], Schema]) -> Schema:
    inner, is_optional = without_none(parameter.type)
    default = parameter.default if not parameter.is_required and not parameter.is_rest else None
    kind = list if parameter.is_rest else get_origin(inner) or inner
    value = _argument_shape(list[inner] if parameter.is_rest else inner, or_reference)  # type: ignore[valid-type]
    words = described(
        parameter.name, _sentence(parameter.text or parameter.name), default or _OF_ARGUMENTS[kind], default
    )
    known = {"default": default} if isinstance(default, str | int | float) else {}
    return {**words, **(nullable(value) if is_optional else value), **known}


def _argument_shape(tp: Any, or_reference: Callable[[Schema], Schema]) -> Schema:
    kind, parts = get_origin(tp) or tp, get_args(tp)
    if kind is list:
        return {"type": "array", "items": _argument_shape(parts[0], or_reference) if parts else {}}
    if kind is str:
        return dict(_TEXT)
    if kind is dict:
        inner = _argument_shape(parts[1], or_reference) if len(parts) == 2 else {}
        inner = dict(_TEXT_OR_SECRET) if inner == _TEXT else inner
        return {"type": "object", "additionalProperties": inner or True}
    return or_reference({"type": _KINDS[kind]}) if kind in _KINDS else {}


def _sentence(text: str) -> str:
    first = " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")
    return f"{first[:1].upper()}{first[1:]}."
