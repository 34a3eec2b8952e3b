"""Texts of the schema for editors: names, descriptions with examples, meanings of choices, snippets.

Nothing here decides what is valid. `markdownDescription`, `enumDescriptions`, `defaultSnippets` and
`patternErrorMessage` are keywords of the YAML language server and of VS Code; other tools ignore them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps
from typing import Any

from launcher.jobfile.messages.wording_fields import LABEL_RULE
from launcher.jobfile.model import job_file as model, role as model_role
from launcher.jobfile.model.job_file import choices
from launcher.jobfile.model.types import ENV_NAME, LABEL, MEMORY_PATTERN, SECRET_PATTERN, Model
from launcher.specs.resources import GPU_TYPE_FORM
from launcher.specs.text import to_yaml
from launcher.text import DURATION_PATTERN

Schema = dict[str, Any]

REFERENCE = r"\$<[A-Za-z_][A-Za-z0-9_.-]*>"
NAME_PATTERN = r"^([a-z0-9-]*\$<matrix\.[A-Za-z_][A-Za-z0-9_-]*>)+[a-z0-9-]*$"
"""The pattern of a name with values of the matrix."""
NOT_EMPTY = r"^[\s\S]+$"
MOUNT_TEXT = r"(^|,)\s*type="
WORDS = ("title", "description", "markdownDescription")
A_REFERENCE = {
    "title": "reference",  # editors show the alternatives of a choice by their names
    "description": "The value of a variable.",
    "type": "string",
    "pattern": REFERENCE,
    "patternErrorMessage": "want one of the names above, or a reference such as $<var.NAME>",
}
NOTHING = {"title": "nothing", "type": "null"}

_MESSAGES: Mapping[str, str] = {
    LABEL: f"want {LABEL_RULE}",
    f"{LABEL}|{NAME_PATTERN}": f"want {LABEL_RULE}; with a `matrix` also its values: train-$<matrix.lr>",
    ENV_NAME: "want a name that is not empty and holds no `=`",
    NOT_EMPTY: "want text that is not empty",
    MEMORY_PATTERN: 'want an amount with its unit, such as "4GiB" or "512MiB"',
    DURATION_PATTERN: 'want a duration such as "2h", "90s" or "1h30m"',
    SECRET_PATTERN: 'want "env:NAME" or "file:PATH"',
    MOUNT_TEXT: 'want "type=bind,src=PATH,dst=PATH", or a mapping with a `type`',
    GPU_TYPE_FORM: "want a kind of GPU such as a100",
    r"^/": "want a path that begins with `/`, such as /health",
    r"^[rwm]+$": "want some of the letters r, w and m",
}

# Meanings of values without a model field: triggers, and the types of mounts and variables.
_CHOICES: Mapping[str, str] = {
    "every_apply": "Every apply runs finished work again.",
    "bind": "A file or folder of the host.",
    "volume": "A named volume of the engine.",
    "device": "A device of the host.",
    "int": "A whole number.",
    "float": "A number.",
    "str": "Text.",
    "bool": "True or false.",
}

_TITLES: Mapping[str, str] = {
    "BindMount": "bind mount",
    "BoolVar": "variable: true or false",
    "DeviceMount": "device mount",
    "FilesTrigger": "files",
    "FloatVar": "variable: number",
    "IntVar": "variable: whole number",
    "Job": "job",
    "LifecycleSpec": "lifecycle",
    "NeedSpec": "need",
    "Overlay": "target",
    "ProbeSpec": "probe",
    "Resources": "resource",
    "RoleSpec": "role",
    "SecretRef": "secret",
    "StrVar": "variable: text",
    "Var": "variable",
    "VolumeMount": "volume mount",
}

_ROLE = {"entrypoint": "${2:python}", "args": ["${3:train.py}"]}
_JOB = {"version": 1, "name": "${1:my-job}"}
_CALL = {"component": "${2:utils.echo}", "args": {"${3:msg}": "${4:hello}"}}
_MOUNTS: Mapping[str, Mapping[str, str]] = {
    "bind": {"src": "${1:./data}", "dst": "${2:/data}"},
    "volume": {"src": "${1:cache}", "dst": "${2:/cache}"},
    "device": {"src": "${1:/dev/fuse}"},
}


def _snippet(label: str, description: str, body: Mapping[str, Any], **more: str) -> Schema:
    return {"label": label, **more, "description": description, "body": body}


def by_name(pattern: str, value: Schema) -> Schema:
    """Return the schema of a mapping whose keys match a pattern."""
    return {"type": "object", "patternProperties": {pattern: value}, "additionalProperties": False}


def described(key: str, text: str, example: Any, default: Any = None) -> Schema:
    """Return the texts of a field: its key, its purpose, and an example as a file writes it."""
    shown = example if isinstance(example, str) else dumps(example)
    otherwise = f" Default: `{dumps(default).strip(chr(34))}`." if default not in (None, "") else ""
    return {
        "title": key,
        "description": f"{text} Example: `{shown}`",
        "markdownDescription": f"{text}{otherwise}\n\n```yaml\n{to_yaml({key: example})}```",
    }


def wants(pattern: str) -> str:
    """Return the message for a text that does not match a pattern; "" where the pattern has none."""
    plain = pattern.removesuffix(f"|{REFERENCE}")
    message = _MESSAGES.get(plain, "")
    return message + ", or a reference such as $<var.NAME>" if message and plain != pattern else message


def dressed(whole: Schema) -> Schema:
    """Return the schema with names, and texts of choices and patterns. Edits `whole`."""
    for name, definition in whole["$defs"].items():
        if "." in name:
            continue  # options of a component or a scheduler have a title already
        plain = name.removesuffix("Overlay")
        definition["title"] = _TITLES[name] if name in _TITLES else f"{_TITLES[plain]}, laid over"
    meanings = {**_CHOICES, **choices()}
    for part in subschemas(whole):
        if "enum" in part and "enumDescriptions" not in part:
            part["enumDescriptions"] = [meanings[value] for value in part["enum"]]
            part["markdownEnumDescriptions"] = list(part["enumDescriptions"])
        message = wants(part.get("pattern", ""))
        if message:
            part.setdefault("patternErrorMessage", message)
    return whole


def with_snippets(job: Schema) -> Schema:
    """The schema of job files with snippets. Edits `job`."""
    job["defaultSnippets"] = [
        _snippet("job", "A job with one role.", {**_JOB, "roles": {"main": _ROLE}}),
        _snippet("job of a component", "A job whose roles a component makes.", {**_JOB, **_CALL}),
    ]
    roles = _snippet("role", "One kind of replica.", {"${1:main}": _ROLE})
    job["properties"]["roles"]["defaultSnippets"] = [roles]
    role = job["$defs"]["RoleSpec"]
    role["defaultSnippets"] = [_snippet("role", "A program and its arguments.", _ROLE)]
    role["properties"]["mounts"]["defaultSnippets"] = [
        # Of type array, so that the server adds the missing dash.
        _snippet(f"{kind} mount", _CHOICES[kind], {"type": kind, **fields}, type="array")
        for kind, fields in _MOUNTS.items()
    ]
    return job


def subschemas(schema: Any) -> Iterator[Schema]:
    """Every schema in a schema, itself first."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "patternProperties", "$defs"):
        for part in schema.get(key, {}).values():
            yield from subschemas(part)
    for key in ("items", "additionalProperties"):
        yield from subschemas(schema.get(key))
    for key in ("oneOf", "anyOf"):
        for part in schema.get(key, ()):
            yield from subschemas(part)


def open_choice(texts: Mapping[str, str]) -> Schema:
    """Return the schema of a known name, each with its text, or of any other name."""
    shown = [*texts.values()]
    known = {
        "type": "string",
        "enum": [*texts],
        "enumDescriptions": shown,
        "markdownEnumDescriptions": list(shown),
    }
    return {"anyOf": [known, {"type": "string", "pattern": NOT_EMPTY}]}


def nullable(value: Schema) -> Schema:
    """Return a schema of `value` or null, with the field's texts repeated beside references to models."""
    words: Schema = {key: value[key] for key in WORDS if key in value}
    rest = {key: part for key, part in value.items() if key not in (*WORDS, "default")}
    if not rest:
        return value
    kinds = rest.get("type")
    if kinds is not None and not {"enum", "const", "oneOf"} & rest.keys():
        known = kinds if isinstance(kinds, list) else [kinds]
        return {**words, **rest, "type": [*known, *([] if "null" in known else ["null"])]}
    if rest.keys() == {"anyOf"}:
        options = [option for option in rest["anyOf"] if option != NOTHING]
    else:
        options = [rest]
    spoken = [{**words, **option} if "$ref" in option else option for option in options]
    return {**words, "anyOf": [*spoken, dict(NOTHING)]}


def or_reference(value: Schema) -> Schema:
    """Return a scalar's schema that also takes text with a reference."""
    kinds = value.get("type")
    if "enum" in value:
        return {"anyOf": [value, dict(A_REFERENCE)]}
    if kinds in ("integer", "number", "boolean"):
        message = f"want a{'n' if kinds == 'integer' else ''} {kinds}, or a reference such as $<var.NAME>"
        return {**value, "type": [kinds, "string"], "pattern": REFERENCE, "patternErrorMessage": message}
    if "pattern" in value and value["pattern"] != NOT_EMPTY:
        return {**value, "pattern": f"{value['pattern']}|{REFERENCE}"}
    return value


PARTS: tuple[tuple[str, str, type[Model]], ...] = (
    ("A job", "The top of the file.", model.JobFile),
    (
        "A need",
        "A value in `needs:`, where it is no list. In the name of a job, `train-$<matrix.lr>`, values of\n"
        "a matrix and numbers read as in the names that a matrix makes: `train-0p1`. Text reads as it is.",
        model.NeedSpec,
    ),
    ("A role", "`roles:` has one mapping for each, by name.", model_role.RoleSpec),
    ("Probes", "`ready:` of a role.", model_role.ProbeSpec),
    ("Resources", "`resource:` of a role, where it is no name of a resource.", model_role.Resources),
    ("Bind mounts", "An item of `mounts:`.", model_role.BindMount),
    ("Volume mounts", "An item of `mounts:`.", model_role.VolumeMount),
    ("Device mounts", "An item of `mounts:`.", model_role.DeviceMount),
    ("Secrets", "A value in `env:`.", model_role.SecretRef),
    ("Lifecycle", "`lifecycle:` of a job.", model.LifecycleSpec),
    ("Triggers", "An item of `lifecycle.rerun_on`.", model.FilesTrigger),
    ("Variables: whole numbers", "A value in `vars:`.", model.IntVar),
    ("Variables: numbers", "A value in `vars:`.", model.FloatVar),
    ("Variables: text", "A value in `vars:`.", model.StrVar),
    ("Variables: truth values", "A value in `vars:`.", model.BoolVar),
)
"""The mappings of a job file in the order of reference pages: title, place and model of each."""
