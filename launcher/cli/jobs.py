"""Job files on a command line: which there are, their variables, and the launches they compile to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from launcher.cli.console import Console
from launcher.cli.kinds import key_value
from launcher.specs import Launch

if TYPE_CHECKING:
    from launcher.jobfile import Compiled


def is_saved_plan(path: str) -> bool:
    """Whether `path` is a saved plan rather than a job file: a JSON file is, whatever is in it."""
    return path.endswith(".json")


def add_arguments(parser: Any, *, nargs: str = "*", what: str = "job files, or directories of them") -> None:
    parser.add_argument("files", metavar="FILE", nargs=nargs, help=what)
    add_variables(parser)


def add_variables(parser: Any) -> None:
    parser.add_argument(
        "--var",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=key_value,
        help="give a variable of the job files a value; may be repeated",
    )
    parser.add_argument(
        "--var-file",
        metavar="FILE",
        action="append",
        default=[],
        help="take values of variables from this YAML, JSON or TOML file; may be repeated, --var wins",
    )
    parser.add_argument(
        "-t",
        "--target",
        metavar="TARGET",
        help="the overlay to take, out of `targets` (default: launcher.toml's, else none)",
    )
    parser.add_argument(
        "--allow-dirty",
        action="store_true",
        help="$<git.sha> may name a commit that files differ from, as SHA-dirty",
    )
    parser.add_argument(
        "--no-components",
        action="store_true",
        help="refuse components of job files, the built-in ones aside: nothing of the checkout is run "
        "(LAUNCHER_COMPONENTS=never does the same)",
    )
    parser.add_argument(
        "--no-env-vars",
        action="store_true",
        help="refuse variables that take their value from the environment",
    )
    parser.add_argument("--strict", action="store_true", help="warnings count as errors do")


def compiled(files: Sequence[str], args: Any, *, placeholders: bool = False) -> Compiled:
    """Compile job files with what the arguments say of them; never fails for what is in the files.

    Args:
        placeholders: stand in for variables without a value; the launches are then only good for counting.
    """
    from launcher.jobfile import Environment, compile_files
    from launcher.schedulers.rules import SchedulerRules

    schedulers = SchedulerRules()
    environment = Environment(
        schedulers=schedulers,
        rules=schedulers.problems,
        components=False if args.no_components else None,
        reads_environ=not args.no_env_vars,
    )
    return compile_files(
        list(files) or ["."],
        variables=dict(args.var),
        var_files=args.var_file,
        target=args.target,
        environment=environment,
        placeholders=placeholders,
        allow_dirty=args.allow_dirty,
    )


def launches(files: Sequence[str], args: Any, console: Console) -> tuple[Launch, ...]:
    """The launches of job files; warnings go to stderr.

    Raises JobFileError, with every diagnostic, when one is an error; under `--strict` for a warning too.
    """
    return accepted(compiled(files, args), args, console)


def accepted(result: Compiled, args: Any, console: Console) -> tuple[Launch, ...]:
    """The launches of what was compiled, as `launches` gives them."""
    from launcher.cli.render.findings import exit_code

    if exit_code(result.diagnostics, strict=args.strict):
        from launcher.jobfile import job_file_error

        raise job_file_error(result.diagnostics)
    if result.diagnostics:
        from launcher.jobfile import render

        console.note(render(result.diagnostics, color=console.err_color) + "\n")
    return result.launches
