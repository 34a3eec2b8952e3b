"""`launcher use`: compare the resources that jobs asked for with those they used, and edit their files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from launcher.cli.arguments import add_project, add_target, moment, positive
from launcher.cli.console import Console
from launcher.cli.render import values
from launcher.cli.render.values import Cell, room, shortened, table, text_of, without_columns
from launcher.errors import LauncherError, UsageError
from launcher.inventory import recorded
from launcher.inventory.find import find_each
from launcher.inventory.listing import present
from launcher.inventory.use import Amount, JobUse, uses
from launcher.plan.diff import field, show_at
from launcher.specs.jobkey import JobKey, are_of_several_sessions
from launcher.text import listing, plural, typed

_MOST = 20
_WEEK_S = 7 * 86400.0

USAGE = "use [JOB…] [OPTIONS]"
HELP = """\
Show what jobs asked for and what they used: cores that a replica kept busy on
average, its highest memory, and the time of an attempt; the median and the
highest of the attempts of the last week. The jobs of a matrix count together.

Where two attempts agree, a better amount is suggested: memory a quarter above
the highest use, cores half above it, a timeout of twice the longest run.
Memory is judged by the peak of a cgroup or by accounting alone: where only the
largest process was measured, a replica of several processes used more.

--write edits the suggested values in the job files, in place, after it has
shown the change and asked. The next apply runs a job again whose amounts have
changed."""
EXAMPLES = """\
  launcher use
  launcher use train --since 30d
  launcher use 'sweep-*' --json | jq '.[].amounts[] | select(.suggested)'
  launcher use train --write"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="*", help="job, matrix or pattern (default: all jobs)")
    add_target(parser)
    add_project(parser)
    parser.option(
        "--since TIME",
        "only attempts that were made since then: 12h, 30d, 2025-03-01 (default: 7d)",
        type=moment,
    )
    parser.option("-n, --limit N", f"number of jobs (default: {_MOST})", type=positive, default=_MOST)
    parser.option("--write", "edit the job files as suggested")
    parser.option("-y, --yes", "write without asking")
    parser.option("--json", "print a JSON array")


def run(args: Any, console: Console) -> int:
    if args.json and args.write:
        raise UsageError("--json and --write cannot be combined")
    keys = _keys(args) if args.jobs else None
    present(recorded.live, warn=console.warn)  # records the ends that are not recorded yet
    since = time.time() - _WEEK_S if args.since is None else args.since
    limit = None if args.jobs else args.limit
    found, total = uses(since, keys, target=args.target, project=args.project, limit=limit)
    if args.json:
        console.json(list(map(job_use_json, found)))
        return 0
    if not found:
        console.note("no attempts since then; `--since 30d` looks further back")
        return 0
    in_full = are_of_several_sessions((each.project, each.target, each.name) for each in found)
    rows = [row for use in found for row in _rows(use, in_full=in_full)]
    console.print(_fitted(rows, console.columns, color=console.color))
    for line in reasons(found):
        console.note(line)
    if len(found) < total:
        console.note(f"showing {len(found)} of {total} jobs, the newest; --limit N shows more")
    return _write(found, args, console) if args.write else 0


def _keys(args: Any) -> list[JobKey]:
    """The jobs that were named."""
    found: list[JobKey] = []
    for text in args.jobs:
        if "@" in text:
            raise UsageError(f"`{text}`: all attempts of a job count together; name it without its attempt")
    for text, named in zip(args.jobs, find_each(args.jobs, args.target), strict=True):
        found += [JobKey(*app.key) for app in named.apps if app.job]
        if not any(app.job for app in named.apps):
            raise UsageError(
                f"`{text}` is no job: only attempts of jobs are compared with what they asked for"
            )
    return found


def _write(found: Sequence[JobUse], args: Any, console: Console) -> int:
    """Edit the files, each after its check. Returns 1 if a suggestion could not be written."""
    from launcher.cli.fmt import show_diff, write
    from launcher.cli.use_edits import edits

    made, refused = edits(found)
    for line in refused:
        console.warn(f"{line}")
    if not made:
        console.note("nothing to write" if refused else "nothing to write: no amount is suggested")
        return int(bool(refused))
    for each in made:
        console.print()
        show_diff(each.rewrite, console, "suggested")
        for note in each.notes:
            console.note(note)
    if not args.yes:
        what = plural(len(made), "file")
        console.agree(
            f"\nEdit {what}?",
            doing=f"before editing {what}",
            hint="pass --yes",
            otherwise="nothing was written",
        )
    failed = bool(refused)
    for each in made:
        try:
            write(each.rewrite, each.check)
        except LauncherError as error:
            console.error(error)
            failed = True
            continue
        file = each.rewrite.file
        console.note(f"edited {file}; `launcher plan {typed(file)}` shows what runs again")
    return int(failed)


_WORDS = {"cpu_millis": "cores", "memory_bytes": "memory", "timeout_s": "time"}
_JSON = {"cpu_millis": "cores", "memory_bytes": "memory_bytes", "timeout_s": "time_s"}
_HEADINGS = ("JOB", "ROLE", "AMOUNT", "ASKED", "MEDIAN", "HIGHEST", "OF", "SOURCE", "SUGGESTED")
_OPTIONAL = ("SOURCE", "OF", "MEDIAN")
"""The columns that a narrow terminal does not show, in the order in which they are dropped."""
_SHORTEST = 7  # columns that a name has at least


def _rows(use: JobUse, *, in_full: bool) -> list[list[Cell]]:
    """Return a row for each amount: asked for, median and highest of the attempts, suggestion.

    Args:
        in_full: whether the name of the job has its project and target.
    """
    name = str(JobKey(use.project, use.target, use.name)) if in_full else use.name
    title = f"{name} ({plural(len(use.keys), 'job')})" if len(use.keys) > 1 else name
    rows: list[list[Cell]] = []
    role = ""
    for amount in use.amounts:
        head: list[Cell] = ["" if rows else (title, "bold"), "" if amount.role == role else amount.role]
        role = amount.role
        name = field(amount.path).rpartition(".")[2]
        suggested = "" if amount.suggested is None else f"{name}: {show_at(amount.path, amount.suggested)}"
        rows.append(
            [
                *head,
                _WORDS[amount.name],
                _asked(amount),
                values.amount(amount.name, amount.median),
                values.amount(amount.name, amount.highest),
                str(len(amount.samples)),
                amount.source,
                (suggested, "green"),
            ]
        )
    return rows or [[(title, "bold"), "", "", "", "", "", str(use.attempts), "", ""]]


def _fitted(rows: list[list[Cell]], columns: int | None, *, color: bool) -> str:
    """Return the table without the columns for which a terminal is too narrow, and with shorter names."""
    without_columns(_HEADINGS, rows, columns, _OPTIONAL)
    if columns is not None:
        left = room([*_HEADINGS[1:], ""], [[*row[1:], ""] for row in rows], columns)
        for row in rows:
            row[0] = (shortened(text_of(row[0]), max(left, _SHORTEST)), "bold") if row[0] else ""
    return table(_HEADINGS, rows, color=color)


def _asked(amount: Amount) -> str:
    if amount.asked is None:
        return "-"
    is_time = amount.name == "timeout_s"
    return show_at(amount.path, amount.asked) if is_time else values.amount(amount.name, amount.asked)


def reasons(found: Sequence[JobUse]) -> list[str]:
    """Return the reasons why amounts far from their use have no suggestion, a line for each reason."""
    lines: dict[tuple[str, str], list[str]] = {}
    for use in found:
        for amount in use.amounts:
            if amount.reason:
                lines.setdefault((_WORDS[amount.name], amount.reason), []).append(use.name)
    return [
        f"{what} of {listing([*dict.fromkeys(names)])}: nothing is suggested, since {reason}"
        for (what, reason), names in lines.items()
    ]


def job_use_json(use: JobUse) -> dict[str, Any]:
    """The use of one job, or of the jobs of a matrix, as `use --json` prints it."""
    return {
        "name": use.name,
        "project": use.project,
        "target": use.target,
        "jobs": [key.job for key in use.keys],
        "path": use.path,
        "attempts": use.attempts,
        "amounts": list(map(_amount_json, use.amounts)),
    }


def _amount_json(amount: Amount) -> dict[str, Any]:
    def number(value: float) -> float:
        if amount.name == "memory_bytes":
            return round(value)
        return round(value / 1000 if amount.name == "cpu_millis" else value, 3)

    return {
        "amount": _JSON[amount.name],
        "role": amount.role or None,
        "asked": None if amount.asked is None else number(amount.asked),
        "median": number(amount.median),
        "highest": number(amount.highest),
        "attempts": len(amount.samples),
        "source": amount.source or None,
        "field": field(amount.path),
        "suggested": None if amount.suggested is None else show_at(amount.path, amount.suggested),
        "reason": amount.reason or None,
    }
