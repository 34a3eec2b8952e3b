"""The schema of what no model has: `targets`, `defaults`, `matrix`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from launcher.jobfile.model.base import LABEL, VAR_NAME
from launcher.jobfile.schema.words import WORDS, described

Schema = dict[str, Any]

_FIXED = ("version", "name", "targets")
_LAID_OVER = ("RoleSpec", "Resources", "LifecycleSpec", "NeedSpec", "ProbeSpec")
"""Models that merge by key; all others are replaced as a whole."""

NOTHING = {"title": "nothing", "type": "null"}
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


def _combinations(key: str, what: str) -> Schema:
    return {
        **described(key, what, [{"lr": 0.1, "seed": 3}]),
        "type": "array",
        "items": {"type": "object", "additionalProperties": _CELL},
    }


def _matrix(*more: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {
            "exclude": _combinations("exclude", "Combinations left out, by some of their values."),
            "include": _combinations("include", "Combinations added, with a value for every axis."),
        },
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
        "type": "object",
        "patternProperties": {LABEL: {"$ref": "#/$defs/Overlay"}},
        "additionalProperties": False,
    },
}


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


def nullable(value: Schema) -> Schema:
    """`value`, or null."""
    words: Schema = {key: value[key] for key in WORDS if key in value}
    rest = {key: part for key, part in value.items() if key not in (*WORDS, "default")}
    if not rest:
        return value
    kinds = rest.get("type")
    if kinds is not None and not {"enum", "const", "oneOf"} & rest.keys():
        known = kinds if isinstance(kinds, list) else [kinds]
        return {**words, **rest, "type": [*known, *([] if "null" in known else ["null"])]}
    if rest.keys() == {"anyOf"}:
        return {**words, "anyOf": [*rest["anyOf"], *([] if NOTHING in rest["anyOf"] else [NOTHING])]}
    return {**words, "anyOf": [rest, dict(NOTHING)]}


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
