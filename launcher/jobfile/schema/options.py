"""The schema of the options of schedulers: `cfg` of a job file, chosen by `scheduler`, and [schedulers.NAME].

The options of unknown schedulers are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, get_origin

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
    """The options of a scheduler by name.

    Args:
        or_reference: whether each value may also be a reference or null.
    """
    return {name: _property(name, opt, or_reference) for name, opt in options}


def role_options(schedulers: Schedulers, or_reference: Callable[[Schema], Schema]) -> dict[str, Schema]:
    """The options that `cfg` of a role may have, of all schedulers."""
    known = (pair for declared in schedulers.values() for pair in declared.options.of_role())
    return {name: _property(name, opt, or_reference) for name, opt in known}


def cfg_models(
    schedulers: Schedulers, or_reference: Callable[[Schema], Schema], words: Schema
) -> Iterator[tuple[str, Schema]]:
    """Yield name and definition of each scheduler's options: an open mapping, and a closed one.

    Args:
        words: the texts of the field `cfg`.
    """
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
    offered = _named(schedulers, lambda name: _in_targets(f"{name}.options"))
    return [*overlay_rules(schedulers), *offered, unnamed] if schedulers else []


def overlay_rules(schedulers: Schedulers) -> list[Schema]:
    """The rules that bind the `cfg` of a target to the scheduler beside it."""
    return _named(schedulers, lambda name: _has_cfg(f"{name}.cfg"))


def _in_targets(name: str) -> Schema:
    target = {"if": {"required": ["scheduler"]}, "else": _has_cfg(name)}
    return {"properties": {"targets": {"additionalProperties": target}}}


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
    # The default is only in the texts: editors would write every default below a new `cfg`.
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
