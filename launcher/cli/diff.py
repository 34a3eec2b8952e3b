"""`launcher diff`: what differs between two attempts of a job, or between an attempt and its job file."""

from __future__ import annotations

from typing import Any

from launcher.cli import jobs
from launcher.cli.console import Console
from launcher.dataclass import asdict
from launcher.errors import LauncherError
from launcher.inventory.attempts import attempt_of
from launcher.inventory.difference import Difference, between_attempts, from_file
from launcher.inventory.find import find_app
from launcher.specs.jobkey import DEFAULT_TARGET
from launcher.text import paint, printable

USAGE = "diff JOB@ATTEMPT JOB@ATTEMPT|FILE [OPTIONS]"
HELP = """\
Show what differs between two attempts, or between an attempt and its job file
as it would run now: the documents field by field, input files, needs, edited
code, commit, pull request and outcome."""
EXAMPLES = """\
  launcher diff train@2 train@3
  launcher diff train train.launcher.yaml --var lr=0.3"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("old", metavar="JOB@ATTEMPT", help="[PROJECT/]JOB, JOB@ATTEMPT, app id or handle")
    parser.add_argument("new", metavar="JOB@ATTEMPT|FILE", help="another attempt, or a job file")
    jobs.add_variables(parser)
    parser.option("--json", "print one JSON object")


def run(args: Any, console: Console) -> int:
    found = _difference(args, console)
    if args.json:
        facts = [{"name": name, "old": old, "new": new} for name, old, new in found.facts]
        changes = [asdict(change) for change in found.changes]
        value = {"old": found.old, "new": found.new, "changes": changes, "facts": facts}
        console.json(value)
        return 0
    console.print(difference_text(found, color=console.color))
    return 0


def _difference(args: Any, console: Console) -> Difference:
    old = attempt_of(find_app(args.old, args.target or ""))
    if not args.new.endswith((".yaml", ".yml", ".toml")):
        return between_attempts(old, attempt_of(find_app(args.new, args.target or "")))
    if old.key.target != DEFAULT_TARGET:
        args.target = args.target or old.key.target
    launches = jobs.launches([args.new], args, console)
    launch = next((each for each in launches if each.key == old.key), None)
    if launch is None:
        problem = f"{args.new} does not declare the job `{old.key.job}` of project `{old.key.project}`"
        raise LauncherError(problem, hint="name the file of the job")
    return from_file(old, launch)


def difference_text(found: Difference, *, color: bool) -> str:
    """Return the differences of two attempts, one a line; a sentence when there are none."""
    lines = [paint(f"{found.old} → {found.new}", "bold", color)]
    lines += [f"  {change}" for change in found.changes]
    lines += [
        f"  {name}: {printable(old) or '-'} → {printable(new) or '-'}" for name, old, new in found.facts
    ]
    if not found.changes:
        lines.append("  the documents are equal")
    return "\n".join(lines)
