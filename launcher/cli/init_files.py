"""The files that `launcher init` writes: their paths and texts. Writes nothing itself."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from textwrap import indent
from typing import Any

from launcher.cli.init_templates import (
    CONFIG,
    IGNORE,
    SCHEMA,
    TOML_JOB,
    VSCODE_EXTENSIONS,
    VSCODE_SETTINGS,
    WORKFLOW_TEXT,
    YAML_JOB,
)
from launcher.cli.merge_hooks import HOOKS, with_hooks
from launcher.cli.merge_json import merged
from launcher.files import PROJECT_FILE
from launcher.git import repository
from launcher.jobfile import job_schema

DISTRIBUTION = "launcher-jobs"
"""The name of the distribution; `launcher` on PyPI is another project."""

IGNORE_FILE = ".launcherignore"
VSCODE = ".vscode/settings.json"
EXTENSIONS = ".vscode/extensions.json"
PRE_COMMIT = ".pre-commit-config.yaml"
WORKFLOW = ".github/workflows/launcher.yml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to write: the job's name and project, and which extras.

    Attributes:
        name: "" for no job, only extras.
    """

    name: str
    project: str
    is_toml: bool = False
    ignore: bool = True
    editor: bool = False
    pre_commit: bool = False
    ci: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """One file to write.

    Attributes:
        path: absolute.
        text: the content of a new file.
        merge: existing text → text with the additions, or None if it cannot be merged. None for files that
            only launcher writes.
        addition: what the user should add by hand to an existing file that cannot be merged.
        is_optional: whether an existing file with other content is left alone without an error.
    """

    path: str
    text: str
    merge: Callable[[str], str | None] | None = None
    addition: str = ""
    is_optional: bool = False


def files(wanted: Wanted, folder: str) -> list[Starter]:
    """The files to write: first those of the job, in `folder`; then extras, at the top of the repository."""
    top = top_of(folder)
    found = list(_of_job(wanted, folder, top)) if wanted.name else []
    if wanted.editor:
        found += _of_editor(top)
    if wanted.pre_commit:
        repos = "repos:\n" + indent(HOOKS, "  ")
        found.append(Starter(path=_in(top, PRE_COMMIT), text=repos, merge=with_hooks, addition=HOOKS))
    if wanted.ci:
        text = WORKFLOW_TEXT.replace("REQUIREMENT", requirement())
        found.append(Starter(path=_in(top, WORKFLOW), text=text, is_optional=True))
    return found


def _of_job(wanted: Wanted, folder: str, top: str) -> Iterator[Starter]:
    suffix, job = ("toml", TOML_JOB) if wanted.is_toml else ("yaml", YAML_JOB)
    text = job.replace("NAME", wanted.name)
    if wanted.editor:
        where = os.path.relpath(_in(top, SCHEMA), folder).replace(os.sep, "/")
        text = f"{modeline(where, is_toml=wanted.is_toml)}\n{text}"
    yield Starter(path=os.path.join(folder, f"{wanted.name}.launcher.{suffix}"), text=text)
    config = CONFIG.replace("PROJECT", wanted.project)
    yield Starter(path=os.path.join(folder, PROJECT_FILE), text=config)
    if wanted.ignore:
        yield Starter(path=os.path.join(folder, IGNORE_FILE), text=IGNORE, is_optional=True)


def modeline(schema: str, *, is_toml: bool) -> str:
    """The first line of a job file, from which editors find its schema."""
    return f"#:schema {schema}" if is_toml else f"# yaml-language-server: $schema={schema}"


def _of_editor(top: str) -> Iterator[Starter]:
    schema = json.dumps(job_schema(), indent=2) + "\n"
    yield Starter(path=_in(top, SCHEMA), text=schema, merge=partial(_newer_schema, schema), is_optional=True)
    for name, value in ((VSCODE, VSCODE_SETTINGS), (EXTENSIONS, VSCODE_EXTENSIONS)):
        text = json.dumps(value, indent=2) + "\n"
        yield Starter(path=_in(top, name), text=text, merge=partial(_with_members, value), addition=text)


def _newer_schema(schema: str, there: str) -> str | None:
    """The schema if the existing file is an older version of it; None for any other file."""
    try:
        return schema if json.loads(there).get("$id") == json.loads(schema)["$id"] else None
    except (ValueError, AttributeError):
        return None


def _with_members(wanted: Mapping[str, Any], there: str) -> str | None:
    return merged(there, wanted)


def _in(top: str, name: str) -> str:
    return os.path.join(top, *name.split("/"))


def top_of(folder: str) -> str:
    """The root of the work tree around a folder, which may not exist yet; else the folder itself."""
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    tree = repository(there)
    return tree.root if tree else folder


def label(text: str) -> str:
    """The nearest valid name of a job or project: "My Project_2" → "my-project-2"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].strip("-") or "default"


def requirement() -> str:
    """The requirement from which pip installs this launcher: the repository and commit that it came from.

    "" if unknown, as for an installation from a folder.
    """
    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return ""
    vcs = origin.get("vcs_info")
    return f"{DISTRIBUTION} @ {vcs['vcs']}+{origin['url']}@{vcs['commit_id']}" if vcs else ""
