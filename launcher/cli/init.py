"""`launcher init`: write a first job file, and settings for editors, pre-commit, agents and CI."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from textwrap import indent
from typing import Any, Literal, NamedTuple

from launcher.cli import init_ci
from launcher.cli.console import Console
from launcher.cli.init_ci import ENGINES, PROVIDERS, WORKFLOW, Setup, asked_setup, filled_in, workflow
from launcher.cli.schema import schema as published
from launcher.cli.skill import skill_page
from launcher.errors import LauncherError, UsageError
from launcher.files import PROJECT_FILE, project_file, read_regular, write_whole
from launcher.git import repository
from launcher.jobfile.compile.discover import SUFFIXES, find_files
from launcher.text import paint, typed

USAGE = "init [DIR] [OPTIONS]"
HELP = """\
Write a first job file that runs as it is, launcher.toml, which names the
project, and .launcherignore, which keeps .venv and caches out of workspaces.
DIR defaults to the current directory.

--editor, --pre-commit, --agents and --ci also serve repositories that have job
files: if DIR has some and --name is not given, init writes only these extras.
For files that exist, it prints what to add to them. Without --force, it
overwrites no other file, and leaves a launcher.toml that applies to DIR as it is.

--agents writes the page of `launcher skill` to .agents/skills/launcher, which
most coding agents read on demand, and a section of AGENTS.md that leads to it.

--ci github writes a workflow that plans pull requests, applies what is merged,
and reports how it ended; --ci gitlab writes a pipeline that does. At a terminal,
init asks where jobs run; otherwise they are processes of a self-hosted runner,
unless --ci-engine says more."""
EXAMPLES = """\
  launcher init
  launcher init jobs/ --name train --toml
  launcher init --editor --pre-commit --agents
  launcher init --ci github --ci-engine docker --ci-host me@gpu1"""

DISTRIBUTION = "launcher-jobs"
"""The name of the distribution; `launcher` on PyPI is another project."""

_IGNORE_FILE = ".launcherignore"
SCHEMA = ".launcher/job-v1.schema.json"
PROJECT_SCHEMA = ".launcher/project-v1.schema.json"
SKILL = ".agents/skills/launcher/SKILL.md"
"""Where agents of several vendors look for skills. They read a skill when its description fits."""

VSCODE_SETTINGS: dict[str, Any] = {
    "yaml.schemas": {SCHEMA: ["*.launcher.yaml", "*.launcher.yml"]},
    "evenBetterToml.schema.associations": {
        r".*\.launcher\.toml$": f"./{SCHEMA}",
        r".*/launcher\.toml$": f"./{PROJECT_SCHEMA}",
    },
}
VSCODE_EXTENSIONS: dict[str, Any] = {"recommendations": ["redhat.vscode-yaml", "tamasfe.even-better-toml"]}


def add_arguments(parser: Any) -> None:
    parser.add_argument("dir", metavar="DIR", nargs="?", default=".", help="the folder to write to")
    parser.option("--name NAME", "name of the job (default: hello)")
    parser.option("--toml", "write the job file in TOML instead of YAML")
    extras = parser.add_argument_group("Extras")
    extras.option(
        "--editor", "write the JSON Schema, and settings with which editors check and complete job files"
    )
    extras.option("--pre-commit", "write pre-commit hooks that format and check job files")
    extras.option("--agents", "write a page for coding agents, and a section of AGENTS.md")
    ci = parser.add_argument_group("Continuous integration")
    ci.option(
        "--ci PROVIDER",
        "write the workflow of github or the pipeline of gitlab: plan for review, apply on merge",
        choices=tuple(PROVIDERS),
    )
    ci.option("--ci-engine ENGINE", "where jobs run: local, docker or slurm", choices=tuple(ENGINES))
    ci.option("--ci-host HOST", "the engine's address, as ssh knows it")
    ci.option(
        "--ci-secret NAME", "a secret that jobs read (default: those that job files name)", repeats=True
    )
    parser.option("--force", "overwrite existing files")
    parser.option("--json", "print one JSON object, and ask nothing")


def run(args: Any, console: Console) -> int:
    if args.name is not None and label(args.name) != args.name:
        rule = "use at most 63 lower-case letters, digits and `-`, with no `-` at either end"
        hint = f"{rule}, such as `{label(args.name)}`"
        raise UsageError(f"`{args.name}` is not a valid job name", hint=hint)
    _check_folder(args.dir)
    folder = os.path.abspath(args.dir)
    jobs = [found.path for found in find_files([folder], folder)[0]] if os.path.isdir(folder) else []
    is_extra = args.editor or args.pre_commit or args.agents or args.ci
    name = "" if jobs and is_extra and args.name is None else args.name or "hello"
    setup = _ci_setup(args, jobs, _top_of(folder), console)
    files = [*_job_files(args, folder, name, has_jobs=bool(jobs))] if name else []
    files += _extra_files(args, _top_of(folder))
    if setup:
        files += _ci_files(args.ci, setup, _top_of(folder))
    steps = _steps(files, folder, force=args.force)
    written = [file.path for action, file in steps if action == "write"]
    _write_files([file for action, file in steps if action == "write"], args, console)
    kept = [_kept(action, file, folder) for action, file in steps if action != "write"]
    for line in kept:
        console.note(line)
    for line in _unwritten(folder) if name and jobs else ():
        console.note(line)
    if not name:
        _advise_for_jobs(args, jobs, written, _top_of(folder), console)
    is_new = any(path.endswith((WORKFLOW, init_ci.PIPELINE)) for path in written)
    steps_left = _next_steps(args, name, files[0].path if name else folder, setup if is_new else None)
    for line in ("\n" + paint("Next:", "bold", console.err_color), *(f"  {line}" for line in steps_left)):
        console.note(line)
    if args.json:
        value = {"written": list(map(os.path.relpath, written)), "kept": kept, "next": steps_left}
        console.json(value)
    return 0


def _check_folder(path: str) -> None:
    """Raise UsageError for the path of a file, which is given in place of its folder."""
    folder, file = os.path.split(path)
    ending = next((each for each in SUFFIXES if file.endswith(each)), "")
    if os.path.isdir(path) or not (ending or os.path.lexists(path)):
        return
    command = f"launcher init {typed(folder)}" if folder else "launcher init"
    if ending:
        command += f" --name {label(file.removesuffix(ending))}{' --toml' * ending.endswith('toml')}"
    raise UsageError(f"{path} names a file, and init writes to a folder", hint=command)


def _ci_setup(args: Any, jobs: Sequence[str], top: str, console: Console) -> Setup | None:
    """The setup of the workflow; None without `--ci`."""
    if not args.ci:
        given = [f"--ci-{name}" for name in ("engine", "host", "secret") if getattr(args, f"ci_{name}")]
        if given:
            raise UsageError(f"{given[0]} belongs to a workflow", hint="add `--ci github` or `--ci gitlab`")
        return None
    tree = repository(top)
    branch = (tree.default_branch() if tree else "") or "main"
    return asked_setup(args, map(_read, jobs), branch, _requirement(), console)


def _ci_files(provider: str, setup: Setup, top: str) -> Iterator[_File]:
    if provider == "github":
        yield _File(os.path.join(top, WORKFLOW), workflow(setup), is_optional=True)
        return
    texts = init_ci.pipeline_files(setup)
    yield _File(os.path.join(top, init_ci.PIPELINE), texts[init_ci.PIPELINE], is_optional=True)
    include = texts[init_ci.INCLUDING]
    yield _File(os.path.join(top, init_ci.INCLUDING), include, include, (init_ci.PIPELINE,))


class _File(NamedTuple):
    """One file that init writes, or adds to.

    Attributes:
        path: absolute.
        text: the content of a new file.
        addition: what to add to an existing file of the user, which is never overwritten.
        marks: words; an existing file that contains all of them needs no addition.
        own_mark: a word in every version of a file of launcher's own; the newest version replaces others.
        is_optional: whether an existing file with other content is left alone without an error.
    """

    path: str
    text: str
    addition: str = ""
    marks: tuple[str, ...] = ()
    own_mark: str = ""
    is_optional: bool = False


def _job_files(args: Any, folder: str, name: str, *, has_jobs: bool) -> Iterator[_File]:
    top = _top_of(folder)
    suffix = "toml" if args.toml else "yaml"
    text = filled_in(f"job.{suffix}", {"NAME": name})
    path = os.path.join(folder, f"{name}.launcher.{suffix}")
    config_path = os.path.join(folder, PROJECT_FILE)
    config = filled_in("project.toml", {"PROJECT": label(os.path.basename(top))})
    if args.editor:
        text = f"{_modeline(path, top, SCHEMA)}\n{text}"
        config = f"{_modeline(config_path, top, PROJECT_SCHEMA)}\n{config}"
    yield _File(path, text)
    if not has_jobs or project_file(folder):  # else jobs that exist would belong to another project
        yield _File(config_path, config)
    if not has_jobs:  # the file would change the workspaces of those jobs, and with them their digests
        yield _File(os.path.join(folder, _IGNORE_FILE), filled_in("launcherignore", {}), is_optional=True)


def _extra_files(args: Any, top: str) -> Iterator[_File]:
    """Yield the files at the top of the repository that options ask for."""
    if args.editor:
        for kind, place in (("job", SCHEMA), ("project", PROJECT_SCHEMA)):
            schema = published(kind)
            own = f'"$id": "{schema["$id"]}"'
            yield _File(os.path.join(top, place), _json(schema), own_mark=own, is_optional=True)
        settings, extensions = _json(VSCODE_SETTINGS), _json(VSCODE_EXTENSIONS)
        yield _File(
            os.path.join(top, ".vscode/settings.json"),
            settings,
            settings,
            (SCHEMA, f"./{SCHEMA}", f"./{PROJECT_SCHEMA}"),
        )
        recommended = tuple(VSCODE_EXTENSIONS["recommendations"])
        yield _File(os.path.join(top, ".vscode/extensions.json"), extensions, extensions, recommended)
    if args.pre_commit:
        hooks, marks = filled_in("pre-commit.yaml", {}), ("launcher-fmt", "launcher-validate")
        yield _File(
            os.path.join(top, ".pre-commit-config.yaml"), "repos:\n" + indent(hooks, "  "), hooks, marks
        )
    if args.agents:
        yield _File(os.path.join(top, SKILL), skill_page(), is_optional=True)
        section = filled_in("agents.md", {"SKILL": SKILL})
        yield _File(os.path.join(top, "AGENTS.md"), section, section, (SKILL,))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _modeline(path: str, top: str, schema: str) -> str:
    """Return the first line of a job file, from which editors find its schema."""
    relative = os.path.relpath(os.path.join(top, schema), os.path.dirname(path)).replace(os.sep, "/")
    return f"#:schema {relative}" if path.endswith(".toml") else f"# yaml-language-server: $schema={relative}"


def _top_of(folder: str) -> str:
    """Return the root of the work tree around a folder, which may not exist yet; else the folder itself."""
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    tree = repository(there)
    return tree.root if tree else folder


def label(text: str) -> str:
    """Return the nearest valid name of a job or project: "My Project_2" → "my-project-2"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].strip("-") or "default"


def _requirement() -> str:
    """The requirement from which pip installs this launcher: its version, or its repository and commit.

    "" if unknown, as for an installation from a folder.
    """
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return ""
    direct = installed.read_text("direct_url.json")
    if direct is None:  # from an index, unless a build has left this description in a checkout
        return f"{DISTRIBUTION}=={installed.version}" if installed.read_text("RECORD") else ""
    origin = json.loads(direct)
    vcs = origin.get("vcs_info")
    return f"{DISTRIBUTION} @ {vcs['vcs']}+{origin['url']}@{vcs['commit_id']}" if vcs else ""


_Action = Literal["write", "keep", "add by hand", "differs", "taken"]


def _steps(files: Sequence[_File], folder: str, *, force: bool) -> list[tuple[_Action, _File]]:
    """Return each file with its action. Raises LauncherError for a file of the user's in the way."""
    steps = [(_action(file, folder, force=force), file) for file in files]
    taken = [os.path.relpath(file.path) for action, file in steps if action == "taken"]
    if taken:
        text = f"{', '.join(taken)} already exist{'s' if len(taken) == 1 else ''}"
        raise LauncherError(text, hint="nothing was written; --force overwrites files")
    return steps


def _action(file: _File, folder: str, *, force: bool) -> _Action:
    config = project_file(folder) if os.path.basename(file.path) == PROJECT_FILE else None
    if config is not None and not (force and file.path == config):
        return "keep"
    if not os.path.lexists(file.path):
        return "write"
    there = _read(file.path)
    if there == file.text:
        return "keep"
    if file.addition:
        return "keep" if all(mark in there for mark in file.marks) else "add by hand"
    if force or (file.own_mark and file.own_mark in there and not os.path.islink(file.path)):
        return "write"
    return "differs" if file.is_optional else "taken"


def _read(path: str) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return read_regular(path).decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _write_files(files: Sequence[_File], args: Any, console: Console) -> None:
    shown = console.aside() if args.json else console
    for file in files:
        name = os.path.relpath(file.path)
        try:
            os.makedirs(os.path.dirname(file.path), exist_ok=True)
            write_whole(file.path, file.text, keeps_mode=True)
        except OSError as error:
            raise LauncherError(f"cannot write {name}: {error.strerror or error}") from error
        shown.print(f"wrote {name}")
    console.flush()


def _kept(action: _Action, file: _File, folder: str) -> str:
    """Return the message about a file that is left as it is."""
    is_config = os.path.basename(file.path) == PROJECT_FILE
    path = project_file(folder) or file.path if is_config else file.path
    kept = f"left {os.path.relpath(path)} unchanged"
    if action == "add by hand":
        return f"{kept}; add to it:\n{indent(file.addition.rstrip(), '  ')}"
    if action == "differs" and os.path.basename(file.path) != _IGNORE_FILE:
        return f"{kept}: it differs from what init writes; --force overwrites it"
    return kept


def _unwritten(folder: str) -> Iterator[str]:
    """Yield a message about each file that init does not write beside jobs that exist."""
    if project_file(folder) is None:
        why = "the jobs that exist would belong to another project, and run again"
        yield f"did not write {PROJECT_FILE}: {why}"
    if not os.path.lexists(os.path.join(folder, _IGNORE_FILE)):
        yield f"did not write {_IGNORE_FILE}: it would change the jobs that have this folder as workspace"


def _advise_for_jobs(
    args: Any, jobs: Sequence[str], written: Sequence[str], top: str, console: Console
) -> None:
    """Tell the user what the new files mean for existing jobs."""
    if args.editor:
        console.note(
            "for editors other than VS Code, add this first line to "
            f"{os.path.relpath(jobs[0])}: {_modeline(jobs[0], top, SCHEMA)}"
        )
    if written and any("workspace" in _read(job) for job in jobs):
        console.note(f"new files in a job's workspace change the job: list unneeded ones in {_IGNORE_FILE}")


def _next_steps(args: Any, name: str, path: str, setup: Setup | None) -> list[str]:
    """Return commands, and notes on the steps that are left to the user."""
    file = typed(os.path.relpath(path))
    lines = [f"launcher plan {file}"]
    if name:
        lines.append(f"launcher apply {file} --wait --logs")
    if args.pre_commit:
        lines.append("pre-commit install")
    if setup and args.ci == "gitlab":
        lines += init_ci.gitlab_steps(setup)
    elif setup:
        lines += init_ci.github_steps(setup)
    return lines
