"""Job files on a command line: which there are, their variables, and the launches they compile to."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.jobfile import Compiled
    from launcher.specs import Launch


def add_arguments(parser: Any, *, nargs: str = "*", what: str = "job files, or directories of them") -> None:
    parser.add_argument("files", metavar="FILE", nargs=nargs, help=what)
    add_variables(parser)


def add_variables(parser: Any) -> None:
    from launcher.cli.kinds import key_value

    parser.add_argument(
        "--var",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=key_value,
        help="give a variable of the job files a value; may be repeated",
    )


def compiled(
    files: Sequence[str], variables: Sequence[tuple[str, str]], *, placeholders: bool = False
) -> Compiled:
    """Compile job files; never fails for what is in them: see its diagnostics.

    Args:
        placeholders: stand in for variables without a value; the launches are then only good for counting.
    """
    from launcher.cli.run_options import RunOptions
    from launcher.jobfile import Environment, compile_files

    environment = Environment(schedulers=RunOptions())
    return compile_files(
        list(files) or ["."],
        variables=dict(variables),
        environment=environment,
        placeholders=placeholders,
    )


def launches(
    files: Sequence[str], variables: Sequence[tuple[str, str]], console: Console
) -> tuple[Launch, ...]:
    """The launches of job files; warnings go to stderr.

    Raises JobFileError, with every diagnostic, when one is an error.
    """
    result = compiled(files, variables)
    result.raise_for_errors()
    if result.diagnostics:
        from launcher.jobfile import render

        console.note(render(result.diagnostics, color=console.err_color) + "\n")
    return result.launches
