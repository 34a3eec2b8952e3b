"""Arguments for job files and their variables, and the launches that the files compile to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from launcher.cli.arguments import key_value
from launcher.cli.console import Console
from launcher.text import plural

if TYPE_CHECKING:
    from launcher.jobfile.compile.compiled import Compiled
    from launcher.jobfile.compile.project import Checkout
    from launcher.specs.launch import Launch


def is_saved_plan(path: str) -> bool:
    """Whether `path` is a saved plan rather than a job file: every `.json` file is."""
    return path.endswith(".json")


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
    parser.add_argument(
        "--var",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=key_value,
        help="set a variable of the job files; may be repeated",
    )
    parser.add_argument(
        "--var-file",
        metavar="FILE",
        action="append",
        default=[],
        help="read variables from a YAML, JSON or TOML file; may be repeated; --var takes precedence",
    )
    parser.add_argument(
        "-t",
        "--target",
        metavar="TARGET",
        help="which of the `targets` of a job file to use (default: the one set in launcher.toml, or none)",
    )
    parser.add_argument(
        "--allow-dirty",
        action="store_true",
        help="if files differ from the commit, add -dirty to $<git.sha> instead of failing",
    )
    parser.add_argument(
        "--no-components",
        action="store_true",
        help="reject components other than the built-in ones, so that no code of the checkout runs "
        "(LAUNCHER_COMPONENTS=never does the same)",
    )
    parser.add_argument(
        "--no-env-vars",
        action="store_true",
        help="reject variables that take their value from the environment",
    )
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    if is_kept:
        parser.add_argument(
            "--no-cache",
            action="store_true",
            help="compile the job files, even if nothing has changed that they stand on",
        )


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
    from launcher.schedulers.rules import SchedulerRules

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
        from launcher.cli.render.findings import exit_code
        from launcher.jobfile.diagnostics.diagnostic import job_file_error, render

        if exit_code(result.diagnostics, strict=args.strict):
            raise job_file_error(result.diagnostics)
        console.note(render(result.diagnostics, color=console.err_color) + "\n")
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
