"""`launcher history`: the attempts of a job, and why each of them ran."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from launcher.ci_environment import pull_request
from launcher.cli.arguments import add_project, add_target, positive
from launcher.cli.console import Console
from launcher.cli.render.apps import attempt_json
from launcher.cli.render.values import Cell, ago, state_cell, table, took, without_columns
from launcher.inventory.attempts import attempts_of, newest_attempts
from launcher.inventory.find import find_app
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import are_of_several_sessions

_MOST = 20
_SHORT = 7
_OPTIONAL = ("ACTION", "TOOK", "BY", "PULL", "COMMIT", "CREATED")
"""The columns that a narrow terminal does not show, in the order in which they are dropped."""

USAGE = "history [JOB] [OPTIONS]"
HELP = """\
List the attempts of a job, or the newest attempts of all jobs, the newest
first: why each started, from which commit and pull request, who applied it, and
how it ended. `launcher describe JOB@2` shows all of one attempt, `launcher diff
JOB@1 JOB@2` what differs between two."""
EXAMPLES = """\
  launcher history train
  launcher history --project vision --limit 50
  launcher history train --json | jq '.[] | select(.pull_request == "12")'"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help="job name or app id (default: all jobs)")
    add_target(parser)
    add_project(parser)
    parser.option("-n, --limit N", f"number of attempts (default: {_MOST})", type=positive, default=_MOST)
    parser.option("--json", "print a JSON array")


def run(args: Any, console: Console) -> int:
    if args.job is None:
        found = newest_attempts(args.limit, args.project)
    else:
        found = attempts_of(find_app(args.job, args.target), args.limit + 1)
    shown = found[: args.limit]
    if args.json:
        console.json(list(map(attempt_json, shown)))
        return 0
    if not shown:
        console.note("no attempts yet; `launcher apply FILE` starts one")
        return 0
    with_jobs = args.job is None
    console.print(history_text(shown, with_jobs=with_jobs, color=console.color, columns=console.columns))
    if len(found) > len(shown) or (args.job is None and len(shown) == args.limit):
        console.note(f"showing the newest {args.limit}; --limit N shows more")
    return 0


def history_text(
    attempts: Sequence[Attempt], *, with_jobs: bool, color: bool, columns: int | None = None
) -> str:
    """Return a line for each attempt: number, state, action, times, commit, pull request, actor, reason."""
    now = time.time()
    names = ("JOB",) if with_jobs else ()
    in_full = are_of_several_sessions(each.key for each in attempts)
    headings = (*names, "ATTEMPT", "STATE", "ACTION", "CREATED", "TOOK", "COMMIT", "PULL", "BY", "WHY")
    rows: list[list[Cell]] = [
        [
            *([(str(each.key) if in_full else each.key.job, "bold")] if with_jobs else []),
            str(each.number),
            state_cell(each.state),
            each.action,
            ago(each.created_at, now),
            took(each.started_at, each.ended_at, now if each.is_live else None),
            oid[:_SHORT] + dash + rest,
            pull_request(each.pull_request, each.run_url)[0] if each.pull_request else "",
            each.actor,
            each.reason,
        ]
        for each in attempts
        for oid, dash, rest in [each.commit.partition("-")]
    ]
    without_columns(headings, rows, columns, _OPTIONAL)
    return table(headings, rows, color=color, columns=columns)
