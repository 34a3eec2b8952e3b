"""`launcher diff`: what differs between two attempts of a job, or between an attempt and its job file."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import Any

from launcher.cli import jobs
from launcher.cli.console import Console
from launcher.cli.render.history_text import difference_text
from launcher.errors import LauncherError
from launcher.inventory.difference import Difference, between_attempts, from_file
from launcher.inventory.find import find_app
from launcher.inventory.history import attempt_of
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import DEFAULT_TARGET

USAGE = "diff JOB@ATTEMPT JOB@ATTEMPT|FILE [OPTIONS]"
HELP = """\
Show what differs between two attempts, or between an attempt and its job file
as it would run now: the documents field by field, input files, needs, edited
code, commit, pull request and outcome."""
EXAMPLES = """\
  launcher diff train@2 train@3
  launcher diff train train.launcher.yaml --var lr=0.3"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("old", metavar="JOB@ATTEMPT", help="job name, JOB@ATTEMPT, app id or handle")
    parser.add_argument("new", metavar="JOB@ATTEMPT|FILE", help="another attempt, or a job file")
    jobs.add_variables(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Any, console: Console) -> int:
    found = _difference(args, console)
    if args.json:
        facts = [{"name": name, "old": old, "new": new} for name, old, new in found.facts]
        changes = [asdict(change) for change in found.changes]
        value = {"old": found.old, "new": found.new, "changes": changes, "facts": facts}
        console.print(dumps(value, indent=2, ensure_ascii=False))
        return 0
    console.print(difference_text(found, color=console.color))
    return 0


def _difference(args: Any, console: Console) -> Difference:
    old = attempt_of(find_app(args.old, args.target or ""))
    if not args.new.endswith((".yaml", ".yml", ".toml")):
        return between_attempts(old, attempt_of(find_app(args.new, args.target or "")))
    args.target = args.target or _target_of(old)
    launches = jobs.launches([args.new], args, console)
    launch = next((each for each in launches if each.key == old.key), None)
    if launch is None:
        raise _undeclared(args.new, old)
    return from_file(old, launch)


def _target_of(old: Attempt) -> str | None:
    return None if old.key.target == DEFAULT_TARGET else old.key.target


def _undeclared(file: str, old: Attempt) -> Exception:
    problem = f"{file} does not declare the job `{old.key.job}` of project `{old.key.project}`"
    return LauncherError(problem, hint="name the file of the job")
