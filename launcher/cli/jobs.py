"""Arguments for job files and their variables, and the launches that the files compile to.

A component may stand in place of a job file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from launcher.cli.arguments import key_value
from launcher.cli.console import Console
from launcher.errors import LauncherError
from launcher.text import plural

if TYPE_CHECKING:
    from launcher.git import Repository
    from launcher.jobfile.compile.compiled import Compiled
    from launcher.jobfile.compile.project import Checkout
    from launcher.specs.launch import Launch

OF_FILES = ("job", "target", "var", "var_file", "allow_dirty", "no_components", "no_env_vars", "strict")
"""The options of `run` that only job files have."""


def is_saved_plan(path: str) -> bool:
    """Whether `path` is a saved plan and no job file: any `.json` file, or a file of `plan --out`."""
    if path.endswith(".json"):
        return True
    if not os.path.isfile(path):  # a pipe can be read only once
        return False
    try:
        with open(path, "rb") as file:
            return b'"version": "launcher.plan/' in file.read(64)
    except OSError:
        return False  # the compiler reports the problem


def add_arguments(
    parser: Any,
    *,
    nargs: str = "*",
    what: str = "job files or directories (default: .)",
    is_kept: bool = True,
) -> None:
    """Add the arguments for job files.

    Args:
        is_kept: whether the command takes launches from the cache, which lack the origins of values.
    """
    parser.add_argument("files", metavar="FILE", nargs=nargs, help=what)
    add_variables(parser, is_kept=is_kept)


def add_variables(parser: Any, *, is_kept: bool = True) -> None:
    parser.option(
        "--var NAME=VALUE", "set a variable of the job files; may be repeated", repeats=True, type=key_value
    )
    parser.option(
        "--var-file FILE",
        "read variables from a YAML, JSON or TOML file; may be repeated; --var takes precedence",
        repeats=True,
    )
    parser.option(
        "-t, --target TARGET",
        "which of the `targets` of a job file to use (default: the one set in launcher.toml, or none)",
    )
    parser.option(
        "--allow-dirty", "if files differ from the commit, add -dirty to $<git.sha> instead of failing"
    )
    parser.option(
        "--no-components",
        "reject components other than the built-in ones, so that no code of the checkout runs "
        "(LAUNCHER_COMPONENTS=never does the same)",
    )
    parser.option("--no-env-vars", "reject variables that take their value from the environment")
    parser.option("--strict", "treat warnings as errors")
    if is_kept:
        parser.option("--no-cache", "compile the job files, even if nothing has changed that they stand on")


def add_cfg(parser: Any) -> None:
    """Declare --cfg, for commands that choose a scheduler."""
    help = "run option of the scheduler (see `launcher runopts`); may be repeated"
    parser.option("-c, --cfg KEY=VALUE", help, repeats=True)


def compiled(
    files: Sequence[str],
    args: Any,
    *,
    placeholders: bool = False,
    cwd: str = "",
    checkout: Checkout | None = None,
) -> Compiled:
    """Compile job files with the variables and options of the command line. Errors are in the result.

    Args:
        cwd, checkout: set when the files are those of another commit.
        placeholders: replace variables without a value, and warn of needs that the project does not declare;
            only the number of launches is then valid.
    """
    flags = (args.target, args.allow_dirty, args.no_components, args.no_env_vars, placeholders)
    question = (tuple(files), tuple(args.var), tuple(args.var_file), *flags)

    def compile() -> Compiled:
        return _compiled(files, args, placeholders, cwd, checkout)

    if checkout is not None or getattr(args, "no_cache", True):
        return compile()
    from launcher.jobfile.compile.compiled import kept

    return kept(question, compile, is_counted=placeholders)


def _compiled(
    files: Sequence[str], args: Any, placeholders: bool, cwd: str, checkout: Checkout | None
) -> Compiled:
    from launcher.jobfile.compile.files import Environment, compile_files
    from launcher.schedulers.registry import SchedulerRules

    schedulers = SchedulerRules()
    environment = Environment(
        schedulers=schedulers,
        rules=schedulers.problems,
        reach=schedulers.unreadable,
        components=False if args.no_components else None,
        reads_environ=not args.no_env_vars,
        cwd=cwd,
        checkout=checkout,
    )
    return compile_files(
        list(files) or ["."],
        variables=dict(args.var),
        var_files=args.var_file,
        target=args.target,
        environment=environment,
        placeholders=placeholders,
        neighbours=placeholders,
        allow_dirty=args.allow_dirty,
    )


def launches(files: Sequence[str], args: Any, console: Console) -> tuple[Launch, ...]:
    """Compile job files and return their launches; print warnings to stderr.

    Raises JobFileError with every diagnostic if one is an error, or with `--strict` a warning.
    """
    return accepted(compiled(files, args), args, console)


def accepted(result: Compiled, args: Any, console: Console) -> tuple[Launch, ...]:
    """Return the launches of a compilation, or raise, as `launches` does."""
    if result.diagnostics:
        from launcher.cli.render.findings import exit_code, note
        from launcher.jobfile.diagnostic import job_file_error

        if exit_code(result.diagnostics, strict=args.strict):
            raise job_file_error(result.diagnostics)
        note(result.diagnostics, console)
    note_left_out(result, args, console)
    return result.launches


def note_left_out(result: Compiled, args: Any, console: Console) -> None:
    """Name the files that have jobs without the target asked for."""
    if result.left_out:
        files = plural(len(result.left_out), "file")
        have = "has" if len(result.left_out) == 1 else "have"
        console.note(f"left out: {files} that {have} no target `{args.target}`: {', '.join(result.left_out)}")


def declared_in(launch: Launch, job: str) -> str:
    """Return the project's job file that declares a need but is not on the command line; "" for none."""
    from launcher.jobfile.compile.needs import declared_elsewhere

    return declared_elsewhere(job, launch)


def compiled_at(revision: str, files: Sequence[str], args: Any) -> Compiled:
    """Compile `files` as a commit of this repository has them, with the options of the command line.

    The commit is written into a private folder that is removed again; its errors are in the result. Raises
    LauncherError where the current directory is in no repository, or the commit is not there.
    """
    from copy import copy

    from launcher.git import repository
    from launcher.jobfile.compile.compiled import Compiled
    from launcher.jobfile.compile.project import Checkout

    tree = repository(os.getcwd())
    if tree is None:
        raise LauncherError("--base needs a git repository, and there is none here")
    commit = tree.commit_of(revision)
    if not commit:
        raise LauncherError(f"this clone has no commit `{revision}`", hint=tree.why_missing(revision))
    with tree.exported(commit) as root:
        cwd = os.path.join(root, os.path.relpath(os.getcwd(), os.path.realpath(tree.root)))
        os.makedirs(cwd, exist_ok=True)
        moved = [_moved(path, tree.root, root) for path in files or ["."]]
        there = [path for path in moved if os.path.lexists(os.path.join(cwd, path))]
        if not there:
            return Compiled((), ())
        checkout = Checkout(root, tree.origin or tree.root, commit, revision)
        known = copy(args)
        # Use the commit's version of a file of variables, else the file of the working tree.
        known.var_file = [
            path if os.path.exists(os.path.join(cwd, path)) else os.path.abspath(path)
            for path in args.var_file
        ]
        return compiled(there, known, cwd=cwd, checkout=checkout)


def work_tree() -> Repository:
    """The work tree of the current directory. Raises LauncherError outside of one."""
    from launcher.git import repository

    tree = repository(os.getcwd())
    if tree is None:
        raise LauncherError("the current directory is in no git repository", hint="check it out first")
    return tree


def _moved(path: str, old_root: str, new_root: str) -> str:
    """Return an absolute path moved below another root, and a relative path unchanged."""
    if not os.path.isabs(path):
        return path
    return os.path.join(new_root, os.path.relpath(os.path.realpath(path), os.path.realpath(old_root)))


def words_of(
    words: Sequence[str], declared: Any, *, always: bool = False
) -> tuple[Sequence[str], Sequence[str] | None]:
    """Split words into those up to the component and those after it; (all, None) without a component.

    Args:
        declared: the command's own options (`launcher.cli.arguments.Arguments`).
        always: whether the first name is a component in any case.
    """
    takes_value = {name for option in declared.declared if not option.is_flag for name in option.names}
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--" and position + 1 < len(words):
            own = [*words[:position], words[position + 1]]
            return (own, words[position + 2 :]) if always or is_component(own[-1]) else (words, None)
        if not word.startswith("-") or word == "-":
            own = [*words[: position + 1]]
            return (own, words[position + 1 :]) if always or is_component(word) else (words, None)
        position += 2 if word in takes_value else 1
    return words, None


def is_component(word: str) -> bool:
    """Whether a word names a component, not a file: no such file exists, and it has no suffix of a file.

    A name without dots must be registered by a package: in `launcher run train` it may be a misspelt file.
    """
    if ".py:" in word or word.endswith(".py"):
        return True
    is_file = os.path.exists(word) or os.sep in word or word.endswith((".yaml", ".yml", ".toml", ".json"))
    if is_file or not all(part.isidentifier() for part in word.split(".")):
        return False
    if "." in word:
        return True
    from launcher.components.finder import is_registered

    return is_registered(word)
