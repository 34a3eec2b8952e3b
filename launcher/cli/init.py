"""`launcher init`: a first job file that works, and what goes with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from launcher.cli.console import Console
from launcher.cli.starter import PRE_COMMIT, WORKFLOW, Wanted, files, label, requirement, top_of
from launcher.errors import LauncherError, UsageError
from launcher.files import PROJECT_FILE, project_file, write_whole
from launcher.text import paint

USAGE = "init [DIR] [OPTIONS]"
HELP = """\
Begin: write a job file that runs as it stands, and launcher.toml, which names
the project. DIR is the current directory where it is left out.

Files that are there already are never overwritten without --force; a
launcher.toml that applies to DIR already is kept."""
EXAMPLES = """\
  launcher init
  launcher init jobs/ --name train --toml
  launcher init --editor --pre-commit --ci"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("dir", metavar="DIR", nargs="?", default=".", help="the folder to write to")
    parser.add_argument("--name", metavar="NAME", default="hello", help="name of the job (hello)")
    parser.add_argument("--toml", action="store_true", help="write the job file in TOML instead of YAML")
    extras = parser.add_argument_group("What goes with it")
    extras.add_argument(
        "--editor", action="store_true", help="the schema, and settings with which editors check and complete"
    )
    extras.add_argument("--pre-commit", action="store_true", help="hooks that check what is committed")
    extras.add_argument("--ci", action="store_true", help="a GitHub workflow that checks pull requests")
    parser.add_argument("--force", action="store_true", help="overwrite files that are there")


def run(args: Any, console: Console) -> int:
    if label(args.name) != args.name:
        raise _bad_name(args.name, label(args.name))
    folder = os.path.abspath(args.dir)
    wanted = Wanted(
        name=args.name,
        project=label(os.path.basename(top_of(folder))),
        is_toml=args.toml,
        editor=args.editor,
        pre_commit=args.pre_commit,
        ci=args.ci,
    )
    texts = files(wanted, folder)
    job = next(iter(texts))
    kept = _kept(texts, project_file(folder), force=args.force)
    taken = [path for path in texts if os.path.lexists(path)]
    if taken and not args.force:
        raise _taken(taken, texts)
    for path, text in texts.items():
        _write(path, text)
        console.print(f"wrote {os.path.relpath(path)}")
    console.flush()
    for path in kept:
        console.note(f"kept {os.path.relpath(path)}")
    _what_next(os.path.relpath(job), wanted, console)
    return 0


def _bad_name(name: str, near: str) -> LauncherError:
    hint = f"such as `{near}`: lower-case letters, digits and `-`, at most 63, none of them `-` at either end"
    return UsageError(f"`{name}` cannot name a job", hint=hint)


def _kept(texts: dict[str, str], config: str | None, *, force: bool) -> list[str]:
    """Takes out of `texts` what is there already and serves, and says what that is: the launcher.toml that
    applies, and files with the very same text."""
    kept = []
    for path in [*texts]:
        is_config = os.path.basename(path) == PROJECT_FILE and config is not None
        if is_config and not (force and path == config):
            kept.append(str(config))
        elif _read(path) == texts[path]:
            kept.append(path)
        else:
            continue
        del texts[path]
    return kept


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError):
        return None


def _taken(taken: list[str], texts: Mapping[str, str]) -> LauncherError:
    """What is in the way; of a file that is shared with other tools, what to put into it by hand."""
    shown = ", ".join(os.path.relpath(path) for path in taken)
    there = "is there already" if len(taken) == 1 else "are there already"
    hint = "nothing was written; --force overwrites"
    shared = next((path for path in taken if os.path.basename(path) == PRE_COMMIT), None)
    if shared is not None:
        hooks = texts[shared].partition("repos:\n")[2].rstrip()
        hint += f". Or leave --pre-commit out and add to the `repos` of {PRE_COMMIT}:\n{hooks}"
    return LauncherError(f"{shown} {there}", hint=hint)


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise LauncherError(f"cannot write {os.path.relpath(path)}: {error.strerror or error}") from error


def _what_next(job: str, wanted: Wanted, console: Console) -> None:
    import shlex

    file = shlex.quote(job)
    lines = [f"launcher plan {file}", f"launcher apply {file} --wait --logs"]
    if wanted.pre_commit:
        lines.append("pre-commit install")
    if wanted.ci and not requirement():
        lines.append(f"say in {WORKFLOW} what to install as launcher")
    console.note("\n" + paint("Next:", "bold", console.err_color))
    for line in lines:
        console.note(f"  {line}")
