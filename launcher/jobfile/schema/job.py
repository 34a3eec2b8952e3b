"""The JSON Schema of job files, as editors want it: generated from the models, then made plainer.

Only keywords that every engine obeys stay (a test walks the schema for others). What a schema cannot say,
the models and the checks behind them do.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic.fields import FieldInfo

from launcher.jobfile.model.base import (
    LABEL,
    MOUNT_TYPES,
    VAR_NAME,
    VAR_TYPES,
    Model,
    model_classes,
    traits_of,
)
from launcher.jobfile.model.job_file import BESIDE_JOBS, JobFile
from launcher.jobfile.schema.components import arguments, component_name, either_roles_or_component
from launcher.jobfile.schema.options import Schedulers, cfg_models, cfg_rules, overlay_rules, scheduler_name
from launcher.jobfile.schema.words import (
    MOUNT_TEXT,
    NAME_PATTERN,
    NOT_EMPTY,
    NOTHING,
    REFERENCE,
    WORDS,
    described,
    dressed,
    nullable,
    with_snippets,
)
from launcher.specs.probe import CONDITIONS
from launcher.specs.projectfile import DEFAULTS

Schema = dict[str, Any]

ID = "urn:launcher:job-v1"  # absolute: engines refuse a relative one where they cannot tell the base
_AS_WRITTEN = {"type": ["string", "number", "boolean"]}
_A_REFERENCE = {
    "title": "reference",  # editors show the alternatives of a choice by their names
    "description": "The value of a variable.",
    "type": "string",
    "pattern": REFERENCE,
    "patternErrorMessage": "want one of the names above, or a reference such as $<var.NAME>",
}
_KEPT = ("type", "const", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "items", "$ref")


def job_schema(schedulers: Schedulers | None = None) -> Schema:
    """The schema of a job file, draft 2020-12. The same on every run, and with every pydantic.

    Args:
        schedulers: those that `scheduler` offers; by their options `cfg` is checked.
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
    models |= overlays(job, models)
    models["RoleSpec"] = filled_in(models["RoleSpec"])
    words = {key: job["properties"]["cfg"][key] for key in WORDS}
    models |= cfg_models(schedulers, _or_reference, words)
    of_cfg = cfg_rules(schedulers)
    models["Job"] = {**_one_of_several(job), "allOf": of_cfg}
    if rules := overlay_rules(schedulers):
        models["Overlay"]["allOf"] = rules
    job |= _layer(job)
    job["required"] = ["version"]
    job["allOf"] = [_one_or_several(job), _null_below(job), either_roles_or_component(), *of_cfg]
    for name, model, rule in arguments(_or_reference):
        models[name] = model
        job["allOf"].append(rule)
    return job, models


def whole(identifier: str, title: str, top: Schema, models: Mapping[str, Schema]) -> Schema:
    """A schema with the words of editors in all of its parts."""
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": identifier,
        **top,
        "title": title,
        "$defs": dict(sorted(models.items())),
    }
    return dressed(deepcopy(made))  # some parts are constants of the modules here


def plain_model(cls: type[Model]) -> Schema:
    """The schema of a mapping in which no reference may stand."""
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
    """A field: its words from the model, its shape from what pydantic made of it."""
    traits = traits_of(field)
    value = _as_written(_without_null(made)) if traits.as_written else _value(key, _without_null(made))
    if traits.mode == "matrix":
        value |= {"pattern": f"{LABEL}|{NAME_PATTERN}"}
    elif has_references and traits.mode != "never" and key != "type":
        value = _or_reference(value)
    # Nothing but words beside a reference to another schema.
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
        return {"type": "object", "additionalProperties": True}  # a component's; each has its own
    if key == "component":
        return component_name()
    if key in BY_HAND:
        return deepcopy(BY_HAND[key])
    special = {"vars": _variables, "mounts": _mounts, "resource": _resource, "rerun_on": _triggers}
    special |= {"workspace": _workspace, "depends_on": _depends_on, "needs": _needs, "queue": _switch}
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
    """5.0 → 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _mapping(made: Schema) -> Schema:
    """A mapping by name; nested mappings of any shape are left open."""
    named = made.get("patternProperties")
    if named:
        pattern, inner = next(iter(named.items()))
        inner = _or_reference(_value("", inner))
        return {"type": "object", "patternProperties": {pattern: inner}, "additionalProperties": False}
    inner = made.get("additionalProperties", True)
    if isinstance(inner, dict):
        inner = _or_reference(_value("", inner))
    return {"type": "object", "additionalProperties": inner}


def _as_written(made: Schema) -> Schema:
    """Texts, lists and mappings whose numbers and truth values are taken as text."""
    kind = made.get("type")
    if kind == "array":
        return {"type": "array", "items": dict(_AS_WRITTEN)}
    if kind != "object":
        return {**_AS_WRITTEN, **({"pattern": NOT_EMPTY} if made.get("minLength") else {})}
    if "patternProperties" in made:
        either = {"anyOf": [dict(_AS_WRITTEN), {"$ref": "#/$defs/SecretRef"}]}
        named = {pattern: dict(either) for pattern in made["patternProperties"]}
        return {"type": "object", "patternProperties": named, "additionalProperties": False}
    return {"type": "object", "additionalProperties": dict(_AS_WRITTEN)}


def _variables(made: Schema) -> Schema:
    pattern, inner = next(iter(made["patternProperties"].items()))
    options = [{"$ref": option["$ref"]} for option in inner["oneOf"]]
    return {
        "type": "object",
        "patternProperties": {pattern: _tagged("variable", "int", options, VAR_TYPES)},
        "additionalProperties": False,
    }


def _mounts(made: Schema) -> Schema:
    options = [{"$ref": option["$ref"]} for option in made["items"]["oneOf"] if "$ref" in option]
    text = {"type": "string", "pattern": MOUNT_TEXT}
    return {"type": "array", "items": {"anyOf": [_tagged("mount", "bind", options, MOUNT_TYPES), text]}}


def _triggers(made: Schema) -> Schema:
    files = next(option["$ref"] for option in made["items"]["oneOf"] if "$ref" in option)
    word = {"type": "string", "enum": ["every_apply"]}
    return {
        "type": "array",
        "items": {"anyOf": [{"$ref": files}, word, dict(_A_REFERENCE)]},
    }


def _tagged(title: str, example: str, options: list[Schema], tags: tuple[str, ...]) -> Schema:
    """One of several mappings, chosen by `type`. The tags stand beside it so that editors offer them."""
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
    return {"anyOf": [{"$ref": parts["$ref"]}, {"type": "string"}]}


def _depends_on(made: Schema) -> Schema:
    names = {"type": "array", "items": {"type": "string"}}
    return {
        "anyOf": [
            names,
            {"type": "object", "additionalProperties": {"type": "string", "enum": list(CONDITIONS)}},
        ]
    }


def _switch(made: Schema) -> Schema:
    """`on` and `off` are text in YAML 1.2."""
    words = {"type": "string", "enum": ["on", "off"]}
    return {"anyOf": [words, {"type": "boolean"}, dict(_A_REFERENCE)]}


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


def _workspace(made: Schema) -> Schema:
    projects = {
        "type": "object",
        "patternProperties": {NOT_EMPTY: {"type": "string"}},
        "additionalProperties": False,
    }
    return {"anyOf": [{"type": "string", "pattern": NOT_EMPTY}, projects]}


def _or_reference(value: Schema) -> Schema:
    """A scalar may also be text with a reference in it."""
    kinds = value.get("type")
    if "enum" in value:
        return {"anyOf": [value, dict(_A_REFERENCE)]}
    if kinds in ("integer", "number", "boolean"):
        message = f"want a{'n' if kinds == 'integer' else ''} {kinds}, or a reference such as $<var.NAME>"
        return {**value, "type": [kinds, "string"], "pattern": REFERENCE, "patternErrorMessage": message}
    if "pattern" in value and value["pattern"] != NOT_EMPTY:
        return {**value, "pattern": f"{value['pattern']}|{REFERENCE}"}
    return value


_FIXED = ("version", "name", "targets", "extends", "abstract", "jobs")
_OWN = ("version", "name", "extends", "abstract", "remove", "jobs")
"""Fields that no other layer gives, so that `null` removes nothing there."""
_LAID_OVER = ("RoleSpec", "Resources", "LifecycleSpec", "NeedSpec", "ProbeSpec")
"""Models that merge by key; all others are replaced as a whole."""

_NOTES = {"^x-": {"description": "Free for anchors and notes."}}
_CELL = {"type": ["string", "number", "boolean"]}
_LIST = {"type": "array", "items": _CELL}
_RANGE = {
    "type": "object",
    "properties": {
        "range": {
            **described(
                "range",
                "Whole numbers from the first up to but not including the second; a third is the step.",
                [0, 4],
            ),
            "type": "array",
            "items": {"type": ["integer", "string"]},
        }
    },
    "required": ["range"],
    "patternProperties": _NOTES,
    "additionalProperties": False,
}


def _group() -> Schema:
    """A name; or the values of an axis that is called so."""
    what = "The name that means all jobs of the matrix, where `name` holds references."
    name = {"type": "string", "pattern": LABEL}
    return {**described("group", what, "sweep"), "anyOf": [name, _LIST, _RANGE]}


def _combinations(key: str, what: str, example: Mapping[str, Any]) -> Schema:
    return {
        **described(key, what, [example]),
        "type": "array",
        "items": {"type": "object", "patternProperties": _NOTES, "additionalProperties": _CELL},
    }


def _matrix(*more: Schema) -> Schema:
    words = {
        "group": _group(),
        "exclude": _combinations(
            "exclude", "Combinations left out, by some of their values.", {"lr": 0.1, "seed": 3}
        ),
        "include": _combinations(
            "include",
            "After `exclude`: combinations added, with a value for every axis; and further values, for the"
            " combinations with these values of the axes.",
            {"lr": 0.1, "epochs": 20},
        ),
    }
    return {
        "type": "object",
        "properties": {key: nullable(value) if more else value for key, value in words.items()},
        "patternProperties": _NOTES,
        "additionalProperties": {"anyOf": [_LIST, _RANGE, *more]},
    }


def _defaults(*more: Schema) -> Schema:
    role: Schema = {"$ref": "#/$defs/RoleSpecOverlay"}
    return {
        "type": "object",
        "properties": {
            "role": {
                **described("role", "Fields of every role.", {"image": "python:3.12-slim"}),
                **({"anyOf": [role, *more]} if more else role),
            }
        },
        "patternProperties": _NOTES,
        "additionalProperties": False,
    }


BY_HAND: Mapping[str, Schema] = {
    "matrix": _matrix(),
    "defaults": _defaults(),
    "targets": {
        "anyOf": [
            {
                "title": "targets by name",
                "type": "object",
                "patternProperties": {LABEL: {"$ref": "#/$defs/Overlay"}},
                "additionalProperties": False,
            },
            {"title": "names of targets", "type": "array", "items": {"type": "string", "pattern": LABEL}},
        ]
    },
    "jobs": {
        "type": "object",
        "patternProperties": {f"{LABEL}|{NAME_PATTERN}": {"$ref": "#/$defs/Job"}},
        "additionalProperties": False,
    },
}


def _layer(job: Schema) -> Schema:
    """The properties of a job file whose other layers may have what `null` removes."""
    fields = job["properties"]
    return {"properties": {k: v if k in _OWN else nullable(v) for k, v in fields.items()}}


def _one_of_several(job: Schema) -> Schema:
    """The schema of one of the `jobs` of a file: the fields beside `jobs` lie under it."""
    left_out = ("version", "name", "abstract", "jobs")
    fields = {k: v for k, v in _layer(job)["properties"].items() if k not in left_out}
    words = {"title": "Job", "description": "One of several jobs, by its name."}
    return {**{k: v for k, v in job.items() if k != "required"}, **words, "properties": fields}


def _one_or_several(job: Schema) -> Schema:
    """Errors for fields of one job beside `jobs`, and for a file that is neither a job nor abstract."""
    own = {key: False for key in job["properties"] if key not in (*BESIDE_JOBS, "jobs")}
    is_abstract = {"required": ["abstract"], "properties": {"abstract": {"enum": [True]}}}
    return {
        "if": {"required": ["jobs"]},
        "then": {"properties": own},
        "else": {"if": is_abstract, "then": {"properties": {"name": False}}, "else": {"required": ["name"]}},
    }


def _null_below(job: Schema) -> Schema:
    """An error for `null` in a file without a parent, at fields that launcher.toml does not give."""
    fields = (key for key in job["properties"] if key not in (*_OWN, *DEFAULTS))
    kinds = {key: {"type": sorted(_kinds(job["properties"][key]) - {"null"})} for key in fields}
    return {"if": {"required": ["extends"]}, "then": {}, "else": {"properties": kinds}}


def _kinds(value: Schema) -> set[str]:
    """The types that a schema takes."""
    if "anyOf" in value:
        return {kind for each in value["anyOf"] for kind in _kinds(each)}
    kinds = value.get("type", "object")  # that of a reference to a model
    return {kinds} if isinstance(kinds, str) else {*kinds}


def overlays(job: Schema, models: Mapping[str, Schema]) -> dict[str, Schema]:
    """The schemas of overlays, by name: nothing has to be there, and `null` removes."""
    made = {f"{name}Overlay": _overlay(models[name]) for name in _LAID_OVER}
    top = _overlay({**job, "properties": {k: v for k, v in job["properties"].items() if k not in _FIXED}})
    own = {"vars": _defaults_of_variables(), "matrix": _matrix(NOTHING), "defaults": _defaults(NOTHING)}
    for key, value in own.items():
        words = {word: job["properties"][key][word] for word in WORDS}
        top["properties"][key] = nullable({**words, **value})
    top["properties"]["vars"] |= described(
        "vars", "Other defaults for variables that the job has.", {"epochs": {"default": 1}}
    )
    top["title"] = "Overlay"
    top["description"] = "What is different in a target."
    return {**made, "Overlay": top}


def filled_in(role: Schema) -> Schema:
    """A role to which `defaults` may add: nothing has to be there, and `null` takes a default away."""
    out = _overlay(role)
    out["title"] = role["title"]
    for key, value in role["properties"].items():
        if "default" in value:
            out["properties"][key]["default"] = value["default"]
    return out


def _overlay(model: Schema) -> Schema:
    out = {key: deepcopy(value) for key, value in model.items() if key != "required"}
    out["title"] = f"{model['title']}Overlay"
    out["properties"] = {key: nullable(_merging(value)) for key, value in out["properties"].items()}
    return out


def _merging(value: Any) -> Any:
    """Mappings by name take `null` for each, references to models become those to their overlays."""
    if isinstance(value, list):
        return [_merging(part) for part in value]
    if not isinstance(value, dict):
        return value
    out = {key: _merging(part) for key, part in value.items() if key != "items"}
    if "items" in value:
        out["items"] = value["items"]  # lists are replaced
    name = str(value.get("$ref", "")).removeprefix("#/$defs/")
    if name in _LAID_OVER:
        out["$ref"] = f"#/$defs/{name}Overlay"
    if out.get("type") == "object":
        for key in ("patternProperties", "properties"):
            if key in out:
                out[key] = {name: nullable(part) for name, part in out[key].items()}
        if isinstance(out.get("additionalProperties"), dict):
            out["additionalProperties"] = nullable(out["additionalProperties"])
    return out


def _defaults_of_variables() -> Schema:
    default = {
        **described("default", "The value where none is given, in this target.", 1),
        "type": ["string", "number", "boolean", "null"],
    }
    variable = {
        "type": "object",
        "properties": {"default": default},
        "patternProperties": _NOTES,
        "additionalProperties": False,
    }
    return {"type": "object", "patternProperties": {VAR_NAME: variable}, "additionalProperties": False}
