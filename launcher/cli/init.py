"""`launcher init`: write a first job file, and settings for editors, pre-commit and CI."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from textwrap import indent
from typing import Any, Literal, NamedTuple

from launcher.cli.console import Console
from launcher.cli.init_files import (
    IGNORE_FILE,
    WORKFLOW,
    Starter,
    Wanted,
    files,
    label,
    modeline,
    requirement,
    top_of,
)
from launcher.errors import LauncherError, UsageError
from launcher.files import PROJECT_FILE, project_file, read_regular, write_whole
from launcher.jobfile.compile.discover import find_files
from launcher.text import paint

USAGE = "init [DIR] [OPTIONS]"
HELP = """\
Write a first job file that runs as it is, launcher.toml, which names the
project, and .launcherignore, which keeps .venv and caches out of workspaces.
DIR defaults to the current directory.

--editor, --pre-commit and --ci also serve repositories that have job files: if
DIR has some and --name is not given, init writes only these extras. It merges
them into existing files, or prints what to add. Without --force, it overwrites
no other file, and leaves a launcher.toml that applies to DIR as it is."""
EXAMPLES = """\
  launcher init
  launcher init jobs/ --name train --toml
  launcher init --editor --pre-commit --ci"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("dir", metavar="DIR", nargs="?", default=".", help="the folder to write to")
    parser.add_argument("--name", metavar="NAME", help="name of the job (default: hello)")
    parser.add_argument("--toml", action="store_true", help="write the job file in TOML instead of YAML")
    extras = parser.add_argument_group("Extras")
    extras.add_argument(
        "--editor",
        action="store_true",
        help="write the JSON Schema, and settings with which editors check and complete job files",
    )
    extras.add_argument(
        "--pre-commit", action="store_true", help="write pre-commit hooks that format and check job files"
    )
    extras.add_argument(
        "--ci", action="store_true", help="write a GitHub workflow that checks and plans pull requests"
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")


def run(args: Any, console: Console) -> int:
    if args.name is not None and label(args.name) != args.name:
        raise _bad_name(args.name, label(args.name))
    folder = os.path.abspath(args.dir)
    jobs = [found.path for found in find_files([folder], folder)[0]] if os.path.isdir(folder) else []
    wanted = _wanted(args, folder, has_jobs=bool(jobs))
    steps = [_step(file, folder, force=args.force) for file in files(wanted, folder)]
    taken = [step.path for step in steps if step.kind == "taken"]
    if taken:
        raise _taken(taken)
    for step in steps:
        if step.kind in ("wrote", "merged"):
            _write(step.path, step.text)
            console.print(f"{'wrote' if step.kind == 'wrote' else 'added to'} {os.path.relpath(step.path)}")
    console.flush()
    for step in steps:
        _report(step, console)
    if wanted.name and jobs and not os.path.lexists(os.path.join(folder, IGNORE_FILE)):
        console.note(
            f"did not write {IGNORE_FILE}: it would change the jobs that have this folder as workspace"
        )
    if not wanted.name:
        _advise_for_jobs(jobs, wanted, steps, console)
    job = os.path.relpath(steps[0].path) if wanted.name else os.path.relpath(folder)
    _next_steps(job, wanted, steps, console)
    return 0


def _bad_name(name: str, near: str) -> LauncherError:
    hint = f"use at most 63 lower-case letters, digits and `-`, with no `-` at either end, such as `{near}`"
    return UsageError(f"`{name}` is not a valid job name", hint=hint)


def _wanted(args: Any, folder: str, *, has_jobs: bool) -> Wanted:
    """What to write: a job, unless the folder has jobs and only extras were requested."""
    is_extra = args.editor or args.pre_commit or args.ci
    return Wanted(
        name="" if has_jobs and is_extra and args.name is None else args.name or "hello",
        project=label(os.path.basename(top_of(folder))),
        is_toml=args.toml,
        ignore=not has_jobs,  # it would change the workspaces of those jobs, and with them their digests
        editor=args.editor,
        pre_commit=args.pre_commit,
        ci=args.ci,
    )


class _Step(NamedTuple):
    """What init does with one file: it writes `text` if `kind` is `wrote` or `merged`, else nothing."""

    kind: Literal["wrote", "merged", "unchanged", "by hand", "differs", "taken"]
    path: str
    text: str = ""


def _step(file: Starter, folder: str, *, force: bool) -> _Step:
    config = project_file(folder) if os.path.basename(file.path) == PROJECT_FILE else None
    if config is not None and not (force and file.path == config):
        return _Step("unchanged", config)
    if not os.path.lexists(file.path):
        return _Step("wrote", file.path, file.text)
    there = _read(file.path)
    if there == file.text:
        return _Step("unchanged", file.path)
    if file.merge is not None:
        out = file.merge(there) if there is not None and not os.path.islink(file.path) else None
        if out is not None:
            return _Step("unchanged" if out == there else "merged", file.path, out)
        if file.addition:
            return _Step("by hand", file.path, file.addition)
    if force:
        return _Step("wrote", file.path, file.text)
    return _Step("differs" if file.is_optional else "taken", file.path)


def _read(path: str) -> str | None:
    try:
        return read_regular(path).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _taken(taken: Sequence[str]) -> LauncherError:
    shown = ", ".join(os.path.relpath(path) for path in taken)
    exist = "already exists" if len(taken) == 1 else "already exist"
    return LauncherError(f"{shown} {exist}", hint="nothing was written; --force overwrites files")


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_whole(path, text, keeps_mode=True)
    except OSError as error:
        raise LauncherError(f"cannot write {os.path.relpath(path)}: {error.strerror or error}") from error


def _report(step: _Step, console: Console) -> None:
    shown = os.path.relpath(step.path)
    if step.kind == "unchanged":
        console.note(f"left {shown} unchanged")
    elif step.kind == "differs":
        is_generated = os.path.basename(step.path) != IGNORE_FILE
        more = ": it differs from what init writes; --force overwrites it" if is_generated else ""
        console.note(f"left {shown} unchanged{more}")
    elif step.kind == "by hand":
        console.note(f"left {shown} unchanged; add to it:\n{indent(step.text.rstrip(), '  ')}")


def _advise_for_jobs(jobs: Sequence[str], wanted: Wanted, steps: Sequence[_Step], console: Console) -> None:
    """Say what the new files mean for existing jobs."""
    if wanted.editor:
        first = jobs[0]
        schema = os.path.relpath(steps[0].path, os.path.dirname(first)).replace(os.sep, "/")
        line = modeline(schema, is_toml=first.endswith(".toml"))
        console.note(
            f"for editors other than VS Code, add this first line to {os.path.relpath(first)}: {line}"
        )
    if any(step.kind == "wrote" for step in steps) and any("workspace" in (_read(job) or "") for job in jobs):
        console.note(f"new files in a job's workspace change the job: list unneeded ones in {IGNORE_FILE}")


def _next_steps(job: str, wanted: Wanted, steps: Sequence[_Step], console: Console) -> None:
    file = shlex.quote(job)
    lines = [f"launcher plan {file}"]
    if wanted.name:
        lines.append(f"launcher apply {file} --wait --logs")
    if wanted.pre_commit:
        lines.append("pre-commit install")
    if (
        wanted.ci
        and not requirement()
        and any(step.kind == "wrote" and step.path.endswith(WORKFLOW) for step in steps)
    ):
        lines.append(f"set LAUNCHER in {WORKFLOW} to what pip should install")
    console.note("\n" + paint("Next:", "bold", console.err_color))
    for line in lines:
        console.note(f"  {line}")
