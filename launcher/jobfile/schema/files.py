"""The JSON Schemas of job files and of launcher.toml, as editors want them.

They are generated from the models, then made plainer: only keywords that every engine obeys stay (a test
walks the schemas for others). The models and the later checks decide what a schema cannot express.
launcher.toml has tables of its own, and tables that are a layer below all job files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from pydantic.fields import FieldInfo

from launcher.jobfile.messages.collector import entry
from launcher.jobfile.model.job_file import BudgetSpec, JobFile, LifecycleSpec, NotifySpec, QueueSpec
from launcher.jobfile.model.types import LABEL, Model, model_classes, traits_of
from launcher.jobfile.schema.options import (
    Schedulers,
    arguments,
    cfg_models,
    cfg_rules,
    component_name,
    either_roles_or_component,
    options_of,
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
)
from launcher.jobfile.schema.words import (
    NAME_PATTERN,
    NOT_EMPTY,
    WORDS,
    by_name,
    described,
    dressed,
    or_reference,
    subschemas,
    with_snippets,
)
from launcher.specs.jobkey import DEFAULT_SCHEDULER
from launcher.specs.projectfile import CI, COMMANDS, DEFAULTS
from launcher.specs.runopts import runopts

Schema = dict[str, Any]

# absolute, since engines refuse a relative id whose base is unknown
JOB_ID = "urn:launcher:job-v1"
PROJECT_ID = "urn:launcher:project-v1"
_AS_WRITTEN = {"type": ["string", "number", "boolean"]}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "minItems")
_KEPT = ("type", "const", "enum", "pattern", *_BOUNDS, "items", "$ref")


def job_schema(schedulers: Schedulers | None = None) -> Schema:
    """The schema of a job file, draft 2020-12. The same on every run, and with every pydantic.

    Args:
        schedulers: the schedulers that `scheduler` offers, and whose options check `cfg`.
    """
    job, models = language(schedulers or {})
    return with_snippets(whole(JOB_ID, "launcher job file", job, models))


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
        return by_name(pattern, or_reference(_value("", inner)))
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
        return by_name(next(iter(made["patternProperties"])), either)
    return {"type": "object", "additionalProperties": dict(_AS_WRITTEN)}


# -- launcher.toml -------------------------------------------------------------------------------------------

_NAME = {"type": "string", "pattern": LABEL}
_FREE = {"^x-": {"description": "Free for notes."}}
_OF_YAML = ("markdownDescription", "markdownEnumDescriptions", "defaultSnippets")

_CI: Mapping[str, str] = {
    "prune": "Where true, a merge that removes a job file stops the app of its job.",
    "components": "Where true, plans of pull requests call components of the repository.",
}
_COMMANDS: Mapping[str, str] = {
    "scheduler": "The scheduler of `launcher run` where the command line names none.",
    "workspace": "The folder that travels with what `launcher run` starts.",
}


def project_schema(schedulers: Schedulers) -> Schema:
    """The schema of launcher.toml, draft 2020-12; `schedulers` are offered, and their options are checked."""
    job, models = language(schedulers)
    example = next(reversed([*schedulers]), DEFAULT_SCHEDULER)
    components = {name.removesuffix(".args"): model for name, model, _ in arguments(lambda value: value)}
    top = {
        "type": "object",
        "description": "Settings of the job files in its folder and below.",
        "properties": {
            **_own(),
            **_shared(job["properties"], example),
            "schedulers": _tables(
                "schedulers",
                "Options of schedulers, below those that a job file sets in `cfg`.",
                {example: {"timeout_s": 3600}},
                {name: _options(name, each.options) for name, each in schedulers.items()},
            ),
            "components": _tables(
                "components",
                "Arguments of components, for `launcher run`.",
                {"utils.echo": {"msg": "good morning"}},
                components,
            ),
            "cli": _commands(example),
        },
        "patternProperties": _FREE,
        "additionalProperties": False,
    }
    made = whole(PROJECT_ID, "launcher.toml", top, _reachable(top, models))
    for part in subschemas(made):
        for word in _OF_YAML:
            part.pop(word, None)
    return made


def _own() -> dict[str, Schema]:
    """Return the fields that job files do not have."""
    target = "The target of commands that name none by `--target`."
    exclude = "Job files that are left out where a command is given a folder: patterns as in .dockerignore."
    lifecycle = "What happens to attempts of each job that does not say otherwise."
    queue = "How much of a machine the jobs of the project take together."
    notify = "Who gets the outcomes of the attempts that an apply starts."
    ci = {key: {**_words(key, _CI[key], True), "type": "boolean"} for key in CI}
    return {
        "project": {**_words("project", "The project of the job files that name none.", "vision"), **_NAME},
        "target": {**_words("target", target, "dev"), **_NAME},
        "exclude": {
            **_words("exclude", exclude, ["tests/bad"]),
            "type": "array",
            "items": {"type": "string"},
        },
        "lifecycle": {
            **plain_model(LifecycleSpec),
            **_words("lifecycle", lifecycle, {"on_failed": "rerun", "max_attempts": 3}),
        },
        "queue": {**plain_model(QueueSpec), **_words("queue", queue, {"gpus": 2, "max_parallel": 4})},
        "budget": _budget(),
        "notify": {
            **plain_model(NotifySpec),
            **_words("notify", notify, {"url": "https://example.com/hook", "secret": "env:HOOK_KEY"}),
            "anyOf": [{"required": ["url"]}, {"required": ["command"]}],
            "if": {"required": ["secret"]},
            "then": {"required": ["url"]},
        },
        "ci": _closed("ci", "What `launcher ci` does with pull requests and merges.", {"prune": True}, ci),
    }


def _budget() -> Schema:
    """Return the schema of amounts, and of tables of amounts by target."""
    text = (
        "What the jobs that one plan starts for a target may take, by their last attempts. More is refused."
    )
    limits = plain_model(BudgetSpec)
    target = {**limits, "title": "a target", "description": "What those of this target may take instead."}
    made = _closed("budget", text, {"gpu_hours": 100}, limits["properties"])
    return {**made, "patternProperties": {LABEL: target, **_FREE}}


def _shared(job: Mapping[str, Schema], scheduler: str) -> dict[str, Schema]:
    """Return the parts that are a layer below every job file; `job` has the fields of a job."""
    variables = "Variables of all job files. Each is resolved only where a file uses it."
    defaults = "Fields of every job that does not say otherwise."
    targets = "Overlays by name, of the job files that name the target."
    named = job["vars"]["patternProperties"]
    role = _words("role", "Fields of every role.", {"image": "x"})
    fields = {"role": {**role, "$ref": "#/$defs/RoleSpecOverlay"}} | {key: job[key] for key in DEFAULTS[1:]}
    return {
        "vars": {
            **job["vars"],
            **_words("vars", variables, {"epochs": {"type": "int", "default": 3}}),
            "patternProperties": {key: {**value, "required": ["type"]} for key, value in named.items()},
        },
        "defaults": _closed("defaults", defaults, {"timeout": "2h"}, fields),
        "targets": {
            **_words("targets", targets, {"cluster": {"scheduler": scheduler}}),
            **by_name(LABEL, {"$ref": "#/$defs/Overlay"}),
        },
    }


def _commands(scheduler: str) -> Schema:
    examples = {"scheduler": scheduler, "workspace": "."}
    tables = {
        command: _closed(
            command,
            f"Defaults of the options of `launcher {command}`.",
            {"scheduler": scheduler},
            {key: {**_words(key, _COMMANDS[key], examples[key]), "type": "string"} for key in keys},
        )
        for command, keys in COMMANDS.items()
    }
    return _closed("cli", "Defaults of options of commands.", {"run": {"scheduler": scheduler}}, tables)


def _words(key: str, text: str, example: Any) -> Schema:
    return {"title": key, "description": f"{text} Example: `{entry(key, example, 'toml')}`"}


def _closed(key: str, text: str, example: Any, fields: Mapping[str, Schema]) -> Schema:
    shape = {"type": "object", "properties": dict(fields), "patternProperties": _FREE}
    return {**_words(key, text, example), **shape, "additionalProperties": False}


def _tables(key: str, text: str, example: Any, known: Mapping[str, Schema]) -> Schema:
    """Return the schema of tables by name; tables with unknown names are free."""
    shape = {"type": "object", "properties": dict(known), "additionalProperties": {"type": "object"}}
    return {**_words(key, text, example), **shape}


def _options(scheduler: str, options: runopts) -> Schema:
    words = {"title": scheduler, "description": f"Options of the scheduler {scheduler}."}
    shape = {"type": "object", "properties": options_of(options), "additionalProperties": False}
    return {**words, **shape}


def _reachable(top: Schema, models: Mapping[str, Schema]) -> dict[str, Schema]:
    """The definitions that a schema refers to, directly or through others; sorted by name."""
    found: dict[str, Schema] = {}
    waiting = [{key: part for key, part in top.items() if key != "$defs"}]
    while waiting:
        for name in _named_in(waiting.pop()):
            if name not in found:
                found[name] = models[name]
                waiting.append(models[name])
    return dict(sorted(found.items()))


def _named_in(value: Any) -> Iterator[str]:
    """The definitions that the references in a schema lead to."""
    if isinstance(value, list):
        for part in value:
            yield from _named_in(part)
    elif isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].removeprefix("#/$defs/").partition("/")[0]
        for part in value.values():
            yield from _named_in(part)
