"""The JSON Schema of launcher.toml: its own tables, and the tables that are a layer below all job files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.jobfile.messages.collector import entry
from launcher.jobfile.model.job_file import BudgetSpec, LifecycleSpec, NotifySpec, QueueSpec
from launcher.jobfile.model.types import LABEL
from launcher.jobfile.schema.job import language, plain_model, whole
from launcher.jobfile.schema.options import Schedulers, arguments, options_of
from launcher.jobfile.schema.words import subschemas
from launcher.specs.jobkey import DEFAULT_SCHEDULER
from launcher.specs.projectfile import CI, COMMANDS, DEFAULTS
from launcher.specs.runopts import runopts

Schema = dict[str, Any]

ID = "urn:launcher:project-v1"
_NAME = {"type": "string", "pattern": LABEL}
_NOTES = {"^x-": {"description": "Free for notes."}}
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
        "patternProperties": _NOTES,
        "additionalProperties": False,
    }
    made = whole(ID, "launcher.toml", top, _reachable(top, models))
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
        "ci": _mapping("ci", "What `launcher ci` does with pull requests and merges.", {"prune": True}, ci),
    }


def _budget() -> Schema:
    """Return the schema of amounts, and of tables of amounts by target."""
    text = (
        "What the jobs that one plan starts for a target may take, by their last attempts. More is refused."
    )
    limits = plain_model(BudgetSpec)
    target = {**limits, "title": "a target", "description": "What those of this target may take instead."}
    made = _mapping("budget", text, {"gpu_hours": 100}, limits["properties"])
    return {**made, "patternProperties": {LABEL: target, **_NOTES}}


def _shared(job: Mapping[str, Schema], scheduler: str) -> dict[str, Schema]:
    """Return the parts that are a layer below every job file; `job` has the fields of a job."""
    variables = "Variables of all job files. Each is resolved only where a file uses it."
    defaults = "Fields of every job that does not say otherwise."
    targets = "Overlays by name, of the job files that name the target."
    named = job["vars"]["patternProperties"]
    role = {
        "title": "role",
        "description": _words("role", "Fields of every role.", {"image": "x"})["description"],
    }
    fields = {"role": {**role, "$ref": "#/$defs/RoleSpecOverlay"}} | {key: job[key] for key in DEFAULTS[1:]}
    return {
        "vars": {
            **job["vars"],
            **_words("vars", variables, {"epochs": {"type": "int", "default": 3}}),
            "patternProperties": {key: {**value, "required": ["type"]} for key, value in named.items()},
        },
        "defaults": _mapping("defaults", defaults, {"timeout": "2h"}, fields),
        "targets": {
            **_words("targets", targets, {"cluster": {"scheduler": scheduler}}),
            "type": "object",
            "patternProperties": {LABEL: {"$ref": "#/$defs/Overlay"}},
            "additionalProperties": False,
        },
    }


def _commands(scheduler: str) -> Schema:
    examples = {"scheduler": scheduler, "workspace": "."}
    tables = {
        command: _mapping(
            command,
            f"Defaults of the options of `launcher {command}`.",
            {"scheduler": scheduler},
            {key: {**_words(key, _COMMANDS[key], examples[key]), "type": "string"} for key in keys},
        )
        for command, keys in COMMANDS.items()
    }
    return _mapping("cli", "Defaults of options of commands.", {"run": {"scheduler": scheduler}}, tables)


def _words(key: str, text: str, example: Any) -> Schema:
    return {"title": key, "description": f"{text} Example: `{entry(key, example, 'toml')}`"}


def _mapping(key: str, text: str, example: Any, fields: Mapping[str, Schema]) -> Schema:
    shape = {"type": "object", "properties": dict(fields), "patternProperties": _NOTES}
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
