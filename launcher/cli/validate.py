"""`launcher validate`: every problem of job files at once; saved plans too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.cli.console import Console
from launcher.cli.jobs import add_arguments as add_job_files
from launcher.cli.jobs import compiled, is_saved_plan
from launcher.cli.kinds import one_of
from launcher.cli.render.findings import FORMATS, counts, exit_code, findings
from launcher.jobfile import Diagnostic
from launcher.text import plural

USAGE = "validate [FILE…] [OPTIONS]"
HELP = """\
Check job files and show every problem in them, with its place and remedy.

A directory means every *.launcher.yaml, .launcher.yml and .launcher.toml
below it, less what `exclude = ["PATTERN"]` in launcher.toml takes; without
FILE, the current directory. A saved plan (plan.json) is
checked against its seal and its schema. Nothing is written. A job file with
`component:` runs that component, in a process with a time limit; no other code of the
checkout runs, and with --no-components none does: use it for pull requests.
Exit code 6 when something is wrong; `launcher explain CODE` tells more."""
EXAMPLES = """\
  launcher validate jobs/train.launcher.yaml
  launcher validate jobs/ --var dataset=/data/mnist
  launcher validate --format json jobs/ | jq .diagnostics
  launcher validate --format github --strict      a step of a workflow
  launcher validate --no-components --no-env-vars a checkout of others
  launcher validate --format sarif jobs/ >launcher.sarif"""


def add_arguments(parser: Any) -> None:
    add_job_files(parser, what="job files, directories of them, saved plans")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        type=one_of(*FORMATS),
        choices=FORMATS,
        default="text",
        help="text (with the lines in question), json, sarif (2.1.0) or github (annotations)",
    )


def run(args: Any, console: Console) -> int:
    plans = [path for path in args.files if is_saved_plan(path)]
    files = [path for path in args.files if path not in plans]
    found: list[Diagnostic] = []
    jobs = 0
    if files or not plans:
        result = compiled(files, args, placeholders=True)
        found, jobs = list(result.diagnostics), len(result.launches)
    if plans:
        from launcher.cli import saved

        found += [diagnostic for path in plans for diagnostic in saved.findings(path)]
    _show(found, args, console, good=[(jobs, "job"), (len(plans), "saved plan")])
    return exit_code(found, strict=args.strict)


def _show(found: Sequence[Diagnostic], args: Any, console: Console, good: Sequence[tuple[int, str]]) -> None:
    """The diagnostics to stdout; how many of what to stderr."""
    text = findings(found, args.format, jobs=good[0][0], color=console.color)
    if text:
        console.print(text)
    if args.format in ("json", "sarif"):
        return
    problems = counts(found)
    valid = ", ".join(plural(count, word) for count, word in good if count)
    if valid and not exit_code(found, strict=args.strict):
        console.note(f"valid: {valid}{'; ' + problems if problems else ''}")
    elif problems:
        console.note(problems)
