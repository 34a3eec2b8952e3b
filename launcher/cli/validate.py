"""`launcher validate`: report every problem of job files and saved plans."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from launcher.cli.arguments import choose_format
from launcher.cli.console import Console
from launcher.cli.jobs import add_arguments as add_job_files, compiled, is_saved_plan, note_left_out
from launcher.cli.render.findings import FORMATS, counts, exit_code, findings
from launcher.errors import JobFileError
from launcher.jobfile.diagnostic import Diagnostic, Span
from launcher.text import plural

USAGE = "validate [FILE…] [OPTIONS]"
HELP = """\
Check job files and report every problem, with its position and a remedy.

A directory stands for every *.launcher.yaml, .launcher.yml and .launcher.toml
file below it, except those matched by `exclude = ["PATTERN"]` in launcher.toml;
the default is the current directory. A saved plan (plan.json) is checked
for edits, and against its schema. Nothing is written but a cache.

A job file with `component:` runs that component, in a process with a time
limit. No other code of the checkout runs; with --no-components, none does: use
it for pull requests.

Exit code 6 if there is an error; `launcher explain CODE` explains a code."""
EXAMPLES = """\
  launcher validate jobs/train.launcher.yaml
  launcher validate jobs/ --var dataset=/data/mnist
  launcher validate --json jobs/ | jq .diagnostics
  launcher validate --format github --strict      in a GitHub workflow
  launcher validate --no-components --no-env-vars   files that you do not trust
  launcher validate --format sarif jobs/ >launcher.sarif"""


def add_arguments(parser: Any) -> None:
    add_job_files(parser, what="job files, directories or saved plans (default: .)")
    parser.option(
        "--format FORMAT",
        "text (with source lines), json, sarif (2.1.0) or github (annotations)",
        choices=FORMATS,
        default="text",
    )
    parser.option("--json", "print one JSON object: --format json")


def run(args: Any, console: Console) -> int:
    choose_format(args)
    plans = [path for path in args.files if is_saved_plan(path)]
    files = [path for path in args.files if path not in plans]
    found: list[Diagnostic] = []
    jobs = parents = 0
    if files or not plans:
        result = compiled(files, args, placeholders=True)
        found, jobs, parents = list(result.diagnostics), result.jobs, result.parents
        note_left_out(result, args, console)
    if plans:
        found += [diagnostic for path in plans for diagnostic in _of_plan(path)]
    _show(found, args, console, good=[(jobs, "job"), (parents, "abstract file"), (len(plans), "saved plan")])
    return exit_code(found, strict=args.strict)


def _show(found: Sequence[Diagnostic], args: Any, console: Console, good: Sequence[tuple[int, str]]) -> None:
    """Print the diagnostics to stdout, and counts to stderr."""
    text = findings(
        found, args.format, jobs=good[0][0], color=console.color, columns=console.columns, strict=args.strict
    )
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


def _of_plan(path: str) -> Sequence[Diagnostic]:
    """Return the problems that keep a saved plan from being applied; empty for a valid plan."""
    from launcher.cli.plan import plan_bytes
    from launcher.plan.codec import PlanFileError, loads

    try:
        raw = plan_bytes(path)
        if (found := _syntax_error(path, raw)) is not None:
            return [found]
        loads(raw, name=path)
    except JobFileError as error:
        return error.diagnostics
    except PlanFileError as error:
        return [
            Diagnostic(file=path, span=None, code="invalid-value", message=str(error), hint=error.hint or "")
        ]
    return ()


def _syntax_error(path: str, raw: bytes) -> Diagnostic | None:
    """Return where and why a file is not JSON, with line and column; None for JSON."""
    span, text = None, ""
    try:
        json.loads(raw.decode())
        return None
    except RecursionError:
        why = "it is nested too deeply"
    except json.JSONDecodeError as error:
        why, line, column = error.msg, error.lineno, error.colno
        text = error.doc.split("\n")[line - 1]
        span = Span(line=line, column=column, end_line=line, end_column=column + 1)
    except ValueError as error:
        why = str(error)
    message = f"the file is not a saved plan: it is not JSON ({why})"
    hint = "save a plan with `launcher plan --out`; job files end in .launcher.yaml or .launcher.toml"
    return Diagnostic(
        file=path, span=span, code="invalid-value", message=message, hint=hint, source_line=text
    )
