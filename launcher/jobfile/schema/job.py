"""The JSON Schema of job files, as editors want it: generated from the models, then made plainer.

Only keywords that every engine obeys stay (a test walks the schema for others). The models and the later
checks decide what a schema cannot express.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic.fields import FieldInfo

from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.model.types import (
    LABEL,
    MOUNT_TYPES,
    VAR_TYPES,
    Model,
    model_classes,
    traits_of,
)
from launcher.jobfile.schema.options import (
    Schedulers,
    arguments,
    cfg_models,
    cfg_rules,
    component_name,
    either_roles_or_component,
    overlay_rules,
    role_options,
    scheduler_name,
)
from launcher.jobfile.schema.overlays import (
    BY_HAND,
    filled_in,
    layer,
    null_below,
    one_of_several,
    one_or_several,
    overlays,
    parts_of_variables,
    without,
)
from launcher.jobfile.schema.words import (
    A_REFERENCE,
    MOUNT_TEXT,
    NAME_PATTERN,
    NOT_EMPTY,
    NOTHING,
    REFERENCE,
    WORDS,
    described,
    dressed,
    or_reference,
    with_snippets,
)

Schema = dict[str, Any]

ID = "urn:launcher:job-v1"  # absolute, since engines refuse a relative id whose base is unknown
_AS_WRITTEN = {"type": ["string", "number", "boolean"]}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "minItems")
_KEPT = ("type", "const", "enum", "pattern", *_BOUNDS, "items", "$ref")


def job_schema(schedulers: Schedulers | None = None) -> Schema:
    """The schema of a job file, draft 2020-12. The same on every run, and with every pydantic.

    Args:
        schedulers: the schedulers that `scheduler` offers, and whose options check `cfg`.
    """
    job, models = language(schedulers or {})
    return with_snippets(whole(ID, "launcher job file", job, models))


def language(schedulers: Schedulers) -> tuple[Schema, dict[str, Schema]]:
    """The schema of a job, and the definitions that it refers to, by name."""
    made = JobFile.model_json_schema()
    classes = {cls.__name__: cls for cls in model_classes()}
    models = {name: _model(classes[name], model) for name, model in sorted(made["$defs"].items())}
    job = _model(JobFile, made)
    if schedulers:
        kept = {key: job["properties"]["scheduler"][key] for key in (*WORDS, "default")}
        job["properties"]["scheduler"] = {**kept, **scheduler_name(schedulers)}
        models["RoleSpec"]["properties"]["cfg"]["properties"] = role_options(schedulers, or_reference)
    models |= parts_of_variables(models)
    models |= overlays(job, models)
    models["RoleSpec"] = filled_in(models["RoleSpec"])
    words = {key: job["properties"]["cfg"][key] for key in WORDS}
    models |= cfg_models(schedulers, or_reference, words)
    of_cfg = cfg_rules(schedulers)
    models["Job"] = {**one_of_several(job), "allOf": of_cfg}
    if rules := overlay_rules(schedulers):
        models["Overlay"]["allOf"] = rules
    job |= layer(job)
    job["required"] = ["version"]
    job["allOf"] = [
        one_or_several(job),
        null_below(job, models["LifecycleSpec"]),
        either_roles_or_component(),
        *of_cfg,
    ]
    for name, model, rules in arguments(or_reference):
        models[name] = model
        job["allOf"] += rules
    return job, models


def whole(identifier: str, title: str, top: Schema, models: Mapping[str, Schema]) -> Schema:
    """Return a schema with texts for editors in all of its parts."""
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": identifier,
        **top,
        "title": title,
        "$defs": dict(sorted(models.items())),
    }
    return dressed(deepcopy(made))  # some parts are constants of these modules


def plain_model(cls: type[Model]) -> Schema:
    """Return the schema of a mapping that takes no references."""
    return _model(cls, cls.model_json_schema(), has_references=False)


def _model(cls: type[Model], made: Schema, *, has_references: bool = True) -> Schema:
    properties = {
        key: _property(key, field, made["properties"][key], has_references)
        for key, field in cls.model_fields.items()
    }
    required = [key for key, field in cls.model_fields.items() if field.is_required()]
    return {
        "type": "object",
        "title": cls.__name__,
        "description": (cls.__doc__ or "").strip(),
        "properties": properties,
        **({"required": required} if required else {}),
        "patternProperties": {"^x-": {"description": "Free for anchors and notes."}},
        "additionalProperties": False,
    }


def _property(key: str, field: FieldInfo, made: Schema, has_references: bool) -> Schema:
    """Return the schema of a field: its texts from the model, its shape from pydantic."""
    traits = traits_of(field)
    value = _as_written(_without_null(made)) if traits.as_written else _value(key, _without_null(made))
    if traits.mode == "matrix":
        value |= {"pattern": f"{LABEL}|{NAME_PATTERN}"}
    elif has_references and traits.mode != "never" and key != "type":
        value = or_reference(value)
    # Beside a reference to another schema, only texts are kept.
    has_default = isinstance(field.default, str | int | float) and "$ref" not in value
    default = {"default": field.default} if has_default else {}
    example = (field.examples or [None])[0]
    words = described(key, field.description or "", example, default.get("default"))
    return {**words, **value, **default}


def _without_null(made: Schema) -> Schema:
    """`anyOf [X, null]` and `allOf [X]` → X: a null means nothing in a job file."""
    if len(made.get("allOf", ())) == 1:
        return {**made["allOf"][0], **{key: value for key, value in made.items() if key != "allOf"}}
    options = [option for option in made.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) != 1:
        return made
    return {**options[0], **{key: value for key, value in made.items() if key != "anyOf"}}


def _value(key: str, made: Schema) -> Schema:
    if key == "args" and made.get("type") == "object":
        return {"type": "object", "additionalProperties": True}  # a component has its own definition
    if key == "component":
        return component_name()
    if key in BY_HAND:
        return deepcopy(BY_HAND[key])
    special = {"vars": _variables, "mounts": _mounts, "resource": _resource, "rerun_on": _triggers}
    special |= {"needs": _needs}
    if key in special:
        return special[key](made)
    if "patternProperties" in made or made.get("type") == "object":
        return _mapping(made)
    value = {name: _plain(made[name]) for name in _KEPT if name in made}
    if "items" in value:
        value["items"] = _value("", value["items"])
    if made.get("minLength") and "pattern" not in value:
        value["pattern"] = NOT_EMPTY
    if "const" in value:
        value.pop("enum", None)
        if isinstance(value["const"], str):
            value["enum"] = [value.pop("const")]
    return value


def _plain(value: Any) -> Any:
    """Convert a float without a fraction to an integer: 5.0 → 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _mapping(made: Schema) -> Schema:
    """Return the schema of a mapping by name; nested mappings of any shape are left open."""
    named = made.get("patternProperties")
    if named:
        pattern, inner = next(iter(named.items()))
        inner = or_reference(_value("", inner))
        return {"type": "object", "patternProperties": {pattern: inner}, "additionalProperties": False}
    inner = made.get("additionalProperties", True)
    if isinstance(inner, dict):
        inner = or_reference(_value("", inner))
    return {"type": "object", "additionalProperties": inner}


def _as_written(made: Schema) -> Schema:
    """Allow numbers and truth values, which are taken as text, in texts, lists and mappings."""
    kind = made.get("type")
    if kind == "array":
        return {"type": "array", "items": dict(_AS_WRITTEN)}
    if kind != "object":
        pattern = made.get("pattern") or (NOT_EMPTY if made.get("minLength") else "")
        return {**_AS_WRITTEN, **({"pattern": pattern} if pattern else {})}
    if "patternProperties" in made:
        either = {"anyOf": [dict(_AS_WRITTEN), {"$ref": "#/$defs/SecretRef"}]}
        named = {pattern: dict(either) for pattern in made["patternProperties"]}
        return {"type": "object", "patternProperties": named, "additionalProperties": False}
    return {"type": "object", "additionalProperties": dict(_AS_WRITTEN)}


def _variables(made: Schema) -> Schema:
    pattern, inner = next(iter(made["patternProperties"].items()))
    options = [{"$ref": option["$ref"]} for option in inner["oneOf"]]
    variable = _tagged("variable", "int", [*options, {"$ref": "#/$defs/VarOverlay"}], VAR_TYPES)
    part = {**without(variable, "required"), "type": ["object", "null"]}
    return {"type": "object", "patternProperties": {pattern: part}, "additionalProperties": False}


def _mounts(made: Schema) -> Schema:
    options = [{"$ref": option["$ref"]} for option in made["items"]["oneOf"] if "$ref" in option]
    text = {"type": "string", "pattern": MOUNT_TEXT}
    return {"type": "array", "items": {"anyOf": [_tagged("mount", "bind", options, MOUNT_TYPES), text]}}


def _triggers(made: Schema) -> Schema:
    files = next(option["$ref"] for option in made["items"]["oneOf"] if "$ref" in option)
    word = {"type": "string", "enum": ["every_apply"]}
    return {"type": "array", "items": {"anyOf": [{"$ref": files}, word, dict(A_REFERENCE)]}}


def _tagged(title: str, example: str, options: list[Schema], tags: tuple[str, ...]) -> Schema:
    """Return a choice of mappings by `type`. The tags are listed beside it so that editors offer them."""
    kinds = {"type": "string", "enum": list(tags)}
    return {
        "title": title,
        "type": "object",
        "required": ["type"],
        "properties": {"type": {**described("type", "Which kind.", example), **kinds}},
        "oneOf": options,
    }


def _resource(made: Schema) -> Schema:
    options = made.get("oneOf") or made["anyOf"][0]["oneOf"]
    parts = next(option for option in options if "$ref" in option)
    return {"anyOf": [{"$ref": parts["$ref"]}, {"type": "string", "pattern": NOT_EMPTY}]}


def _needs(made: Schema) -> Schema:
    options = made.get("oneOf") or made["anyOf"]
    named = next(option for option in options if option.get("type") == "object")["additionalProperties"]
    spec = next(option["$ref"] for option in named["anyOf"] if "$ref" in option)
    name = f"{LABEL}|{REFERENCE}"
    by_name = {
        "type": "object",
        "patternProperties": {name: {"anyOf": [{"$ref": spec}, dict(NOTHING)]}},
        "additionalProperties": False,
    }
    return {"anyOf": [{"type": "array", "items": {"type": "string", "pattern": name}}, by_name]}
