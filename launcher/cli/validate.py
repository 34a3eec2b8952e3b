"""`launcher validate`: every problem of job files at once; saved plans too."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.jobfile import Diagnostic

USAGE = "validate [FILE…] [OPTIONS]"
HELP = """\
Check job files and show every problem in them, with its place and remedy.

A directory means every *.launcher.yaml, .launcher.yml and .launcher.toml
below it; without FILE, the current directory. A saved plan (plan.json) is
checked against its schema. Nothing is run or written. Exit code 6 when
something is wrong."""
EXAMPLES = """\
  launcher validate jobs/train.launcher.yaml
  launcher validate jobs/ --var dataset=/data/mnist
  launcher validate --format json jobs/ | jq .diagnostics"""

FORMATS = ("text", "json")
INVALID = 6


def add_arguments(parser: Any) -> None:
    from launcher.cli.jobs import add_arguments as add_job_files
    from launcher.cli.kinds import one_of

    add_job_files(parser, what="job files, directories of them, saved plans")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        type=one_of(*FORMATS),
        choices=FORMATS,
        default="text",
        help="text (with the lines in question) or json",
    )


def run(args: Any, console: Console) -> int:
    from launcher.cli.jobs import compiled
    from launcher.cli.saved import is_saved_plan

    plans = [path for path in args.files if is_saved_plan(path)]
    files = [path for path in args.files if path not in plans]
    found: list[Diagnostic] = []
    jobs = 0
    if files or not plans:
        result = compiled(files, args.var, placeholders=True)
        found, jobs = list(result.diagnostics), len(result.launches)
    found += [diagnostic for path in plans for diagnostic in _check_plan(path)]
    if args.format == "json":
        from json import dumps

        envelope = {"version": 1, "jobs": jobs, "diagnostics": [diagnostic.to_json() for diagnostic in found]}
        console.print(dumps(envelope, indent=2, ensure_ascii=False))
    else:
        _show(found, jobs, len(plans), console)
    return INVALID if any(diagnostic.severity == "error" for diagnostic in found) else 0


def _show(found: Sequence[Diagnostic], jobs: int, plans: int, console: Console) -> None:
    from launcher.cli.render.values import plural

    if found:
        from launcher.jobfile import render

        console.print(render(found, color=console.color) + "\n")
    counts = [[diagnostic.severity for diagnostic in found].count(word) for word in ("error", "warning")]
    problems = [
        plural(count, word) for count, word in zip(counts, ("error", "warning"), strict=True) if count
    ]
    good = [plural(count, word) for count, word in ((jobs, "job"), (plans, "saved plan")) if count]
    if not counts[0] and good:
        console.note(f"valid: {', '.join(good)}{'; ' + ', '.join(problems) if problems else ''}")
    elif problems:
        console.note(", ".join(problems))


def _check_plan(path: str) -> list[Diagnostic]:
    """What the plan's schema has against a saved plan."""
    from jsonschema import Draft202012Validator

    from launcher.cli.saved import read_json
    from launcher.jobfile import Diagnostic
    from launcher.plan.codec import plan_schema

    errors = Draft202012Validator(plan_schema()).iter_errors(read_json(path))
    return [
        Diagnostic(file=path, span=None, code="invalid-value", message=f"{error.json_path}: {error.message}")
        for error in sorted(errors, key=lambda error: error.json_path)
    ]
