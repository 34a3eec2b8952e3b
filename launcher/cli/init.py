"""`launcher init`: a first job file that works, and what goes with it, also for a repository in use."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from textwrap import indent
from typing import Any, Literal, NamedTuple

from launcher.cli.console import Console
from launcher.cli.starter import (
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
Begin: write a job file that runs as it stands, launcher.toml, which names the
project, and .launcherignore, which keeps .venv and caches out of workspaces.
DIR is the current directory where it is left out.

--editor, --pre-commit and --ci serve a repository in use as well: where DIR
has job files and no --name is given, only they are written. They are merged
into files that are there, or what to add is shown. Other files that are there
are never overwritten without --force; a launcher.toml that applies to DIR
already is kept."""
EXAMPLES = """\
  launcher init
  launcher init jobs/ --name train --toml
  launcher init --editor --pre-commit --ci"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("dir", metavar="DIR", nargs="?", default=".", help="the folder to write to")
    parser.add_argument("--name", metavar="NAME", help="name of the job (hello)")
    parser.add_argument("--toml", action="store_true", help="write the job file in TOML instead of YAML")
    extras = parser.add_argument_group("What goes with it")
    extras.add_argument(
        "--editor", action="store_true", help="the schema, and settings with which editors check and complete"
    )
    extras.add_argument("--pre-commit", action="store_true", help="hooks that check what is committed")
    extras.add_argument(
        "--ci", action="store_true", help="a GitHub workflow that checks and plans pull requests"
    )
    parser.add_argument("--force", action="store_true", help="overwrite files that are there")


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
        _tell(step, console)
    if wanted.name and jobs and not os.path.lexists(os.path.join(folder, IGNORE_FILE)):
        console.note(f"no {IGNORE_FILE} written: it would change the jobs whose workspace this is")
    if not wanted.name:
        _tell_of_jobs(jobs, wanted, steps, console)
    job = os.path.relpath(steps[0].path) if wanted.name else os.path.relpath(folder)
    _what_next(job, wanted, steps, console)
    return 0


def _bad_name(name: str, near: str) -> LauncherError:
    hint = f"such as `{near}`: lower-case letters, digits and `-`, at most 63, none of them `-` at either end"
    return UsageError(f"`{name}` cannot name a job", hint=hint)


def _wanted(args: Any, folder: str, *, has_jobs: bool) -> Wanted:
    """With a job, unless extras are asked for where there are jobs already."""
    is_extra = args.editor or args.pre_commit or args.ci
    return Wanted(
        name="" if has_jobs and is_extra and args.name is None else args.name or "hello",
        project=label(os.path.basename(top_of(folder))),
        is_toml=args.toml,
        ignore=not has_jobs,  # or the workspaces of those jobs would change, and with them their digests
        editor=args.editor,
        pre_commit=args.pre_commit,
        ci=args.ci,
    )


class _Step(NamedTuple):
    """What happens to one file: `text` is written where it is `wrote` or `merged`, else it stays as it is."""

    kind: Literal["wrote", "merged", "kept", "by hand", "differs", "taken"]
    path: str
    text: str = ""


def _step(file: Starter, folder: str, *, force: bool) -> _Step:
    config = project_file(folder) if os.path.basename(file.path) == PROJECT_FILE else None
    if config is not None and not (force and file.path == config):
        return _Step("kept", config)
    if not os.path.lexists(file.path):
        return _Step("wrote", file.path, file.text)
    there = _read(file.path)
    if there == file.text:
        return _Step("kept", file.path)
    if file.merge is not None:
        out = file.merge(there) if there is not None and not os.path.islink(file.path) else None
        if out is not None:
            return _Step("kept" if out == there else "merged", file.path, out)
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
    there = "is there already" if len(taken) == 1 else "are there already"
    return LauncherError(f"{shown} {there}", hint="nothing was written; --force overwrites")


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_whole(path, text, keeps_mode=True)
    except OSError as error:
        raise LauncherError(f"cannot write {os.path.relpath(path)}: {error.strerror or error}") from error


def _tell(step: _Step, console: Console) -> None:
    shown = os.path.relpath(step.path)
    if step.kind == "kept":
        console.note(f"kept {shown}")
    elif step.kind == "differs":
        is_ours = os.path.basename(step.path) != IGNORE_FILE
        more = ": it is not what init writes; --force writes that" if is_ours else ""
        console.note(f"kept {shown}{more}")
    elif step.kind == "by hand":
        console.note(f"kept {shown}: add to it\n{indent(step.text.rstrip(), '  ')}")


def _tell_of_jobs(jobs: Sequence[str], wanted: Wanted, steps: Sequence[_Step], console: Console) -> None:
    """What the new files mean for jobs that are there."""
    if wanted.editor:
        first = jobs[0]
        schema = os.path.relpath(steps[0].path, os.path.dirname(first)).replace(os.sep, "/")
        line = modeline(schema, is_toml=first.endswith(".toml"))
        console.note(f"editors other than VS Code want a first line in {os.path.relpath(first)}: {line}")
    if any(step.kind == "wrote" for step in steps) and any("workspace" in (_read(job) or "") for job in jobs):
        console.note(
            f"new files in a job's workspace change the job: name those it does not need in {IGNORE_FILE}"
        )


def _what_next(job: str, wanted: Wanted, steps: Sequence[_Step], console: Console) -> None:
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
        lines.append(f"say in {WORKFLOW} what to install as launcher")
    console.note("\n" + paint("Next:", "bold", console.err_color))
    for line in lines:
        console.note(f"  {line}")
