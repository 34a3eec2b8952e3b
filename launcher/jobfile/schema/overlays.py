"""The schemas of layers: job files with parents, targets and defaults; and of the matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from launcher.jobfile.model.job_file import BESIDE_JOBS
from launcher.jobfile.model.types import LABEL, MOUNT_TYPES, VAR_NAME, VAR_TYPES
from launcher.jobfile.schema.words import (
    A_REFERENCE,
    MOUNT_TEXT,
    NAME_PATTERN,
    NOT_EMPTY,
    NOTHING,
    REFERENCE,
    WORDS,
    by_name,
    described,
    nullable,
    or_reference,
)
from launcher.specs.app import CONDITIONS
from launcher.specs.projectfile import DEFAULTS

Schema = dict[str, Any]

_FIXED = ("version", "name", "targets", "extends", "abstract", "jobs")
_OWN = ("version", "name", "extends", "abstract", "remove", "jobs")
"""Fields that no other layer gives, so that `null` would remove nothing."""
_LAID_OVER = ("RoleSpec", "Resources", "LifecycleSpec", "NeedSpec", "ProbeSpec")
"""Models that a layer may have in part. Every layer may have parts of variables and secrets."""

_NOTES = {"^x-": {"description": "Free for anchors and notes."}}
_CELL = {"type": ["string", "number", "boolean"]}
_LIST = {"type": "array", "items": _CELL, "minItems": 1}
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
            "items": or_reference({"type": "integer"}),
            "minItems": 2,
            "maxItems": 3,
        }
    },
    "required": ["range"],
    "patternProperties": _NOTES,
    "additionalProperties": False,
}


def without(schema: Schema, *keys: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in keys}


def _combinations(key: str, what: str, example: Mapping[str, Any]) -> Schema:
    return {
        **described(key, what, [example]),
        "type": "array",
        "items": {
            "type": "object",
            "patternProperties": _NOTES,
            "additionalProperties": _CELL,
            "minProperties": 1,
        },
    }


def _matrix(*more: Schema) -> Schema:
    """Return the schema of a matrix; with `more`, of a matrix in a layer over others."""
    group = "The name that means all jobs of the matrix, where `name` holds references."
    words = {
        "group": {
            **described("group", group, "sweep"),
            "anyOf": [{"type": "string", "pattern": LABEL}, _LIST, _RANGE],
        },
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
        "additionalProperties": {"anyOf": [_LIST, without(_RANGE, "required") if more else _RANGE, *more]},
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


def _of(model: str) -> Schema:
    return {"$ref": f"#/$defs/{model}"}


def _tagged(title: str, example: str, models: Sequence[str], tags: Sequence[str]) -> Schema:
    """Return a choice of mappings by `type`. The tags are listed beside it so that editors offer them."""
    kinds = {"type": "string", "enum": list(tags)}
    return {
        "title": title,
        "type": "object",
        "required": ["type"],
        "properties": {"type": {**described("type", "Which kind.", example), **kinds}},
        "oneOf": [_of(name) for name in models],
    }


_VARIABLE = _tagged("variable", "int", ["IntVar", "FloatVar", "StrVar", "BoolVar", "VarOverlay"], VAR_TYPES)
_MOUNT = _tagged("mount", "bind", ["BindMount", "VolumeMount", "DeviceMount"], MOUNT_TYPES)
_TEXT = {"type": "string", "pattern": NOT_EMPTY}
_EVERY_APPLY = {"type": "string", "enum": ["every_apply"]}
_NEED = f"{LABEL}|{REFERENCE}"
_NEEDS = {"type": "array", "items": {"type": "string", "pattern": _NEED}}
_NEEDS_BY_NAME = by_name(_NEED, {"anyOf": [_of("NeedSpec"), dict(NOTHING)]})
_NAMES = {"type": "array", "items": {"type": "string"}}
_BY_CONDITION = {"type": "object", "additionalProperties": {"type": "string", "enum": list(CONDITIONS)}}
_PROJECTS = by_name(NOT_EMPTY, {"type": "string"})
BY_HAND: Mapping[str, Schema] = {
    "vars": by_name(VAR_NAME, {**without(_VARIABLE, "required"), "type": ["object", "null"]}),
    "mounts": {"type": "array", "items": {"anyOf": [_MOUNT, {"type": "string", "pattern": MOUNT_TEXT}]}},
    "resource": {"anyOf": [_of("Resources"), _TEXT]},
    "rerun_on": {"type": "array", "items": {"anyOf": [_of("FilesTrigger"), _EVERY_APPLY, dict(A_REFERENCE)]}},
    "needs": {"anyOf": [_NEEDS, _NEEDS_BY_NAME]},
    "depends_on": {"anyOf": [_NAMES, _BY_CONDITION]},
    "workspace": {"anyOf": [_TEXT, _PROJECTS]},
    # `on` and `off` are text in YAML 1.2.
    "queue": {"anyOf": [{"type": "string", "enum": ["on", "off"]}, {"type": "boolean"}, dict(A_REFERENCE)]},
    "matrix": _matrix(),
    "defaults": _defaults(),
    "targets": {
        "anyOf": [
            {"title": "targets by name", **by_name(LABEL, _of("Overlay"))},
            {"title": "names of targets", "type": "array", "items": {"type": "string", "pattern": LABEL}},
        ]
    },
    "jobs": by_name(f"{LABEL}|{NAME_PATTERN}", _of("Job")),
}


def layer(job: Schema) -> Schema:
    """Return the properties of a layer: other layers may have the other parts, and `null` removes keys."""
    fields = job["properties"] | {"matrix": {**job["properties"]["matrix"], **_matrix(NOTHING)}}
    fields["defaults"] = {**fields["defaults"], **_defaults(NOTHING)}
    merging = {key: _merging(fields[key]) for key in ("metadata", "workspace", "lifecycle")}
    return {"properties": {k: v if k in _OWN else nullable(v) for k, v in {**fields, **merging}.items()}}


def one_of_several(job: Schema) -> Schema:
    """The schema of one of the `jobs` of a file: the fields beside `jobs` lie under it."""
    left_out = ("version", "name", "abstract", "jobs")
    fields = {k: v for k, v in layer(job)["properties"].items() if k not in left_out}
    words = {"title": "Job", "description": "One of several jobs, by its name."}
    return {**{k: v for k, v in job.items() if k != "required"}, **words, "properties": fields}


def one_or_several(job: Schema) -> Schema:
    """Return rules against fields of one job beside `jobs`, and files that are neither a job nor abstract."""
    own = {key: False for key in job["properties"] if key not in (*BESIDE_JOBS, "jobs")}
    is_abstract = {"required": ["abstract"], "properties": {"abstract": {"enum": [True]}}}
    return {
        "if": {"required": ["jobs"]},
        "then": {"properties": own},
        "else": {"if": is_abstract, "then": {"properties": {"name": False}}, "else": {"required": ["name"]}},
    }


def null_below(job: Schema, lifecycle: Schema) -> Schema:
    """Return a rule against `null` in a file without a parent, for fields that launcher.toml cannot give."""
    fields = _not_null({k: v for k, v in job["properties"].items() if k not in (*_OWN, *DEFAULTS)})
    fields["lifecycle"]["properties"] = _not_null(lifecycle["properties"])
    fields["roles"]["patternProperties"] = {LABEL: {"type": "object"}}
    fields["matrix"]["patternProperties"] = {"^x-": {}}
    fields["matrix"]["additionalProperties"] = {"type": ["array", "object", "string"], "required": ["range"]}
    return {"if": {"required": ["extends"]}, "then": {}, "else": {"properties": fields}}


def _not_null(fields: Mapping[str, Schema]) -> dict[str, Schema]:
    return {key: {"type": sorted(_kinds(value) - {"null"})} for key, value in fields.items()}


def _kinds(value: Schema) -> set[str]:
    if "anyOf" in value:
        return {kind for each in value["anyOf"] for kind in _kinds(each)}
    kinds = value.get("type", "object")  # a reference to a model means a mapping
    return {kinds} if isinstance(kinds, str) else {*kinds}


def overlays(job: Schema, models: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the schemas of overlays by name: no field is required, and `null` removes."""
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
    top["type"] = ["object", "null"]
    return {**made, "Overlay": top}


def filled_in(role: Schema) -> Schema:
    """Return a role that `defaults` may complete: it requires no field, and `null` removes a default."""
    out = _overlay(role)
    out |= {"title": role["title"], "type": ["object", "null"]}
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
    """Let mappings by name take `null` for each entry, and point references to models at their overlays."""
    if isinstance(value, list):
        return [_merging(part) for part in value]
    if not isinstance(value, dict):
        return value
    out = {key: _merging(part) for key, part in value.items() if key != "items"}
    if "items" in value:
        out["items"] = value["items"]  # a list replaces the lower one
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
    return by_name(VAR_NAME, nullable(variable))


def parts_of_variables(models: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the schemas by name of partial variables and secrets: a lower layer may have the rest."""
    kinds = {name: model for name, model in models.items() if name.endswith("Var")}
    made = {name: _overlay(model) for name, model in kinds.items()}
    for name, model in kinds.items():
        made[name] |= {"title": model["title"], "required": model["required"]}
        made[name]["properties"]["type"] = model["properties"]["type"]
    fields = {
        key: value for each in ("StrVar", "FloatVar") for key, value in made[each]["properties"].items()
    }
    fields["default"] = {**fields["default"], "type": _CELL["type"] + ["null"]}
    fields["choices"] = {**fields["choices"], "items": _CELL}
    part = {**made["StrVar"], "type": ["object", "null"], "properties": without(fields, "type")}
    secret = without(models["SecretRef"], "required")
    return {**made, "VarOverlay": without(part, "required"), "SecretRef": secret}
