"""Parse text into a document, by its format; recognise files of other tools by their keys or text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from launcher.jobfile.diagnostic import Diagnostic
from launcher.jobfile.text.document import Document, Format, Source, leaves
from launcher.looks import is_noting, not_repeatable
from launcher.specs.secret import hide, may_hold_secret
from launcher.text import typed

_UNKEPT = ("component", "secret", "token", "passw", "pwd", "passphrase", "credential", "auth", "key", "\\")
"""Texts with a component or a sensitive name contain one of these; an escape may hide one in a key."""

_LONGEST = 1 << 16
"""The most characters of a text that is also tried in the other format: faulty YAML is parsed slowly."""


def parse(source: Source) -> Document:
    """Parse a job file. Never raises: faults are among the document's problems.

    A file of another tool has no value, and one problem, which names the tool.
    """
    document = parse_values(source)
    found = foreign_file(document) or (_other_format(source) if document.value is None else None)
    return document if found is None else Document(source, None, document.root, [found])


def _other_format(source: Source) -> Diagnostic | None:
    """Return the diagnostic for YAML in a file named as TOML, or the other way round."""
    if len(source.text) > _LONGEST:
        return None
    form: Format = "yaml" if source.format == "toml" else "toml"
    value = parse_values(Source(source.file, form, source.text)).value
    if not value or not {"version", "name", "roles"} & value.keys():
        return None
    stem = source.file.rpartition(".")[0]
    message = f"this is {form.upper()}, and the name of the file says {source.format.upper()}"
    code = "toml-syntax" if source.format == "toml" else "yaml-syntax"
    return source.diagnostic(0, 1, code, message, hint=f"name it `{stem}.{form}`")


def parse_values(source: Source) -> Document:
    """Parse a file of values that is no job file. Never raises, as `parse`."""
    document = _parsed(source)
    if is_noting() and not _may_be_kept(document):
        not_repeatable()
    return document


def _parsed(source: Source) -> Document:
    # imported only for its format, so that a TOML file does not wait for the YAML library
    if source.format == "toml":
        from launcher.jobfile.text.toml import parse_toml

        return parse_toml(source)
    from launcher.jobfile.text.yaml import parse_yaml

    return parse_yaml(source)


def _without_reference(value: Any) -> Any:
    """Return the values of a file without the key's name in `[notify]`, which is no value of a secret."""
    table = value.get("notify") if isinstance(value, dict) else None
    if not isinstance(table, dict) or not str(table.get("secret")).startswith(("env:", "file:")):
        return value
    return {**value, "notify": {name: each for name, each in table.items() if name != "secret"}}


def _may_be_kept(document: Document) -> bool:
    """Whether results from a document may be cached: it has no component, and no value that may be secret."""
    text = document.source.text.lower()
    if not any(word in text for word in _UNKEPT):
        return True
    value = _without_reference(document.value)
    if value is None or hide(value) != value:
        return False
    return not any(
        "component" in path
        or path[:1] == ("components",)
        or (isinstance(leaf, str) and may_hold_secret(leaf))
        for path, leaf in leaves(value)
    )


Fields = Mapping[str, Any]
_OURS = frozenset({"roles", "component"})
_OF_A_JOB = frozenset({"name", "description", "project", "scheduler", "timeout", "run", "image", "command"})
_COMMANDS = "its commands go into `run` of a role"
_CONTAINERS = "a container of it is a role: `image`, `entrypoint`, `args`, `env`, `resource`"
_TASKS = "each task of it is a job, which `needs` others; its commands go into `run` of a role"


class _Shape(NamedTuple):
    """A kind of file.

    Attributes:
        kind: its name in messages: "a Compose file".
        sign: a key of the file, at which the problem is noted; for a text, a pattern.
        is_alike: whether a mapping with this key is such a file.
        hint: the places of its parts in a job file; "" for a file that `launcher convert` reads.
    """

    kind: str
    sign: str
    is_alike: Callable[[Fields], bool] = lambda value: True
    hint: str = ""


def _parts(value: Any) -> list[Fields]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [each for each in inner if isinstance(each, dict)]


def _any_has(value: Any, *names: str) -> bool:
    return any(name in part for part in _parts(value) for name in names)


def _is_workflow(value: Fields) -> bool:
    return isinstance(value["jobs"], dict) and ("on" in value or _any_has(value["jobs"], "runs-on", "steps"))


def _is_procfile(value: Fields) -> bool:
    """Whether all values are commands, at least one of which has arguments. A job file may lack its roles."""
    if _OF_A_JOB & value.keys():
        return False
    texts = [each for each in value.values() if isinstance(each, str)]
    plain = all(re.fullmatch(r"[A-Za-z][\w-]*", key) for key in value)
    return plain and len(texts) == len(value) and any(len(text.split()) > 1 for text in texts)


PROCFILE = "a Procfile"
_SHAPES = (
    _Shape("a Compose file", "services", lambda value: isinstance(value["services"], dict)),
    _Shape(
        "a workflow of Argo",
        "apiVersion",
        lambda value: str(value["apiVersion"]).startswith("argoproj.io/") and "kind" in value,
        _TASKS,
    ),
    _Shape(
        "a Kubernetes manifest",
        "apiVersion",
        lambda value: isinstance(value["apiVersion"], str) and isinstance(value.get("kind"), str),
        _CONTAINERS,
    ),
    _Shape(
        "a saved plan",
        "seal",
        lambda value: str(value.get("version", "")).startswith("launcher.plan/"),
        "`launcher apply` takes a plan, when it is the only file and no pipe; a job file has other fields",
    ),
    _Shape(
        "a configuration of CircleCI",
        "jobs",
        lambda value: str(value.get("version", "")).startswith("2") and _is_workflow(value),
        _TASKS,
    ),
    _Shape("a workflow of GitHub Actions", "jobs", _is_workflow, _TASKS),
    _Shape(
        "a pipeline of GitLab",
        "stages",
        lambda value: isinstance(value["stages"], list) and _any_has(value, "script", "trigger"),
        _TASKS,
    ),
    _Shape("a pipeline of GitLab", "", lambda value: _any_has(value, "script"), _TASKS),
    _Shape("a pipeline of Azure", "steps", lambda value: bool({"pool", "trigger"} & value.keys()), _TASKS),
    _Shape(
        "a Snakefile",
        "",
        lambda value: any(re.match(r"(?:rule|checkpoint) \w+\Z", key) for key in value),
        _TASKS,
    ),
    _Shape("a job of Nomad", "Job", lambda value: "TaskGroups" in str(value["Job"]), _TASKS),
    _Shape(
        "a configuration of dstack",
        "type",
        lambda value: value["type"] in ("task", "service", "dev-environment"),
        _COMMANDS,
    ),
    _Shape(
        "a task of SkyPilot",
        "run",
        lambda value: bool({"setup", "resources", "num_nodes", "workdir", "file_mounts"} & value.keys()),
        "`run` and `setup` go into `run` of a role, `resources` into its `resource`",
    ),
    _Shape(
        "a pyproject.toml",
        "build-system",
        hint="a job file has a name of its own, such as train.launcher.toml",
    ),
    _Shape(PROCFILE, "", _is_procfile),
)
_TEXTS = (
    _Shape("a Snakefile", r"^(?:rule|checkpoint) \w+:[ \t]*$", hint=_TASKS),
    _Shape("an sbatch script", r"\A#!.*\n(?:.*\n)*?#SBATCH[ \t]"),
    _Shape("a shell script", r"\A#!\S*(?:/|env )\w*sh\b", hint=_COMMANDS),
    _Shape(
        "a Python script",
        r"\A#!.*python|^(?:from [\w.]+ import \w|import [\w.]+(?: as \w+)?$|def \w+\(.*:$)",
        hint="`launcher run FILE:FUNCTION` runs a component of it; "
        "a job file names it in `args` of a role, below `entrypoint: python`",
    ),
    _Shape("a job of Nomad", r'\Ajob "[^"\n]+" \{', hint=_TASKS),
    _Shape(
        "a Dockerfile",
        r"\A(?:#.*\n|[ \t]*\n)*(?:ARG .*\n)*FROM \S+.*\n(?:.*\n)*(?:RUN|CMD|COPY|ENTRYPOINT) ",
        hint="build and push its image, and name that in `image` of a role",
    ),
    _Shape(
        "a crontab",
        r"\A(?:#.*\n|[ \t]*\n)*(?:[0-9*/,-]+[ \t]+){5}\S",
        hint="nothing starts by itself: a crontab may run `launcher apply`",
    ),
    _Shape("a Kubernetes manifest", r"^apiVersion: .*\nkind: ", hint=_CONTAINERS),
    _Shape("a Makefile", r"^[\w./-]+:[^=\n]*\n\t\S", hint=_COMMANDS),
)


def foreign_file(document: Document) -> Diagnostic | None:
    """The one diagnostic for a file of another tool; None for other files."""
    shape = _shape_of(document)
    if shape is None:
        return None
    start, end = 0, 1
    if document.value:
        _, start, end = document.key_range((shape.sign or next(iter(document.value)),))
    source = document.source
    begin = "`version: 1`, `name: …`" if source.format == "yaml" else '`version = 1`, `name = "…"`'
    hint = f"{shape.hint}; it begins with {begin} and `roles`, and `launcher init` writes one"
    if not shape.hint:
        hint = f"`launcher convert {typed(source.file)}` writes a job file from it"
    message = f"this is {shape.kind} and no job file"
    return source.diagnostic(start, end, "unknown-field", message, hint=hint)


def kind_of_file(document: Document) -> str:
    """The kind of a file of another tool, "a Dockerfile"; "" for other files."""
    shape = _shape_of(document)
    return shape.kind if shape else ""


def _shape_of(document: Document) -> _Shape | None:
    source = document.source
    value = document.value
    if value is None:
        if re.search(r"^(?:version|name|roles) *[:=]", source.text, re.MULTILINE):
            return None
        found = (each for each in _TEXTS if re.search(each.sign, source.text, re.MULTILINE))
        return next(found, None) if source.text.strip() else None
    if not value or _OURS & value.keys() or value.get("version") == 1:
        return None
    for shape in _SHAPES:
        if shape.kind == PROCFILE and source.format != "yaml":
            continue
        if (not shape.sign or shape.sign in value) and shape.is_alike(value):
            return shape
    return None
