"""`launcher grep`: search the logs of all attempts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from launcher.cli.arguments import add_project, add_target, attempts, count, moment
from launcher.cli.console import Console
from launcher.cli.logs import STREAMS
from launcher.cli.render.matches import AttemptNames, MatchText, json_attempt, json_lines, unread_lines
from launcher.errors import UsageError
from launcher.inventory.attempts import select
from launcher.inventory.project import projects_here
from launcher.inventory.search import FoundLine, Query, Searched, search
from launcher.schedulers.logs import LineSearch
from launcher.state.records import AppRecord
from launcher.text import plural

USAGE = "grep PATTERN [JOB…] [OPTIONS]"
HELP = """\
Search the kept logs of all attempts of jobs, or of all apps, on every engine,
the newest attempt first. Each line has the name that `launcher logs` takes,
the time, and the text; on a terminal, attempts have headings.

PATTERN is a regular expression, as that of `logs --regex`. JOB is a job name
or the name of a matrix, for all attempts of its jobs; a quoted pattern; or
JOB@ATTEMPT, an app id or a handle, for one attempt. `/ROLE/REPLICA` may follow.

Attempts that cannot be searched are named on stderr at the end, with the
reason: their logs were removed, or an engine does not answer.

Exit codes: 0 a line matches, 1 none does, or nothing could be searched."""
EXAMPLES = """\
  launcher grep 'CUDA out of memory' --since 7d
  launcher grep -i 'warn|error' train --attempt 3.. --stream stderr -C 3
  launcher grep -F 'loss=nan' 'sweep-*' -l    the attempts that diverged
  launcher grep epoch train/trainer/0 --tail 1 --json"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("pattern", metavar="PATTERN", help="regular expression")
    parser.add_argument("jobs", metavar="JOB", nargs="*", help="jobs or apps (default: all)")
    add_target(parser)
    add_project(parser)
    parser.add_argument(
        "--attempt",
        metavar="N",
        type=attempts,
        default=(),
        help="only these attempts: 3, 1,3, 1..5, or 3.. for 3 and later",
    )
    parser.add_argument("--since", metavar="TIME", type=moment, help="only lines since TIME: 10m, 7d, 12:30")
    parser.add_argument("--role", metavar="ROLE", default="", help="only replicas of this role")
    parser.add_argument(
        "--stream", metavar="STREAM", choices=STREAMS, default="combined", help="stdout, stderr, or combined"
    )
    parser.add_argument("-i", "--ignore-case", action="store_true", help="match letters in either case")
    parser.add_argument("-F", "--fixed", action="store_true", help="PATTERN is plain text")
    parser.add_argument("-C", "--context", metavar="N", type=count, help="also N lines around each match")
    parser.add_argument("-A", "--after", metavar="N", type=count, help="also N lines after each match")
    parser.add_argument("-B", "--before", metavar="N", type=count, help="also N lines before each match")
    parser.add_argument("--tail", metavar="N", type=count, help="only the last N matches of each replica")
    parser.add_argument("-l", "--list", action="store_true", help="list the attempts that match")
    parser.add_argument("-c", "--count", action="store_true", help="count the matching lines of each attempt")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each line")


def run(args: Any, console: Console) -> int:
    query = _query(args)
    found = select(
        args.jobs, target=args.target, project=args.project, numbers=args.attempt, since=args.since
    )
    report = Searched()
    names = AttemptNames({*projects_here()}, args.target)
    replicas = search(found, query, report)
    try:
        if args.list or args.count:
            has_match = _print_attempts(replicas, args, names, console)
        else:
            has_match = _print_lines(replicas, args, query, names, console)
    finally:
        for line in unread_lines(report, names):
            console.note(line)
    if not has_match:
        searched = plural(len(found) - sum(report.counts.values()), "attempt")
        has_role = report.replicas or not args.role
        console.note(f"no line matches in {searched}" if has_role else f"no role `{args.role}` in {searched}")
    return 0 if has_match else 1


def _query(args: Any) -> Query:
    if args.list and args.count:
        raise UsageError("-l and -c cannot be combined", hint="-c names the attempts that match, too")
    around = args.context or 0
    try:
        regex = _escaped(args.pattern) if args.fixed else args.pattern
        found = LineSearch(regex, ignore_case=args.ignore_case)
    except UsageError as error:
        raise UsageError(str(error), hint="-F searches for plain text") from error
    return Query(
        search=found,
        stream=args.stream,
        since=args.since,
        before=around if args.before is None else args.before,
        after=around if args.after is None else args.after,
        tail=args.tail,
        role=args.role,
    )


def _escaped(text: str) -> str:
    """Return the regular expression for a text. The needless escapes of `re.escape` would slow it down."""
    return re.sub(r"([.\[\](){}*+?|^$\\])", r"\\\1", text)


Replicas = Iterable[tuple[AppRecord, str, int, Iterator[FoundLine]]]


def _print_lines(replicas: Replicas, args: Any, query: Query, names: AttemptNames, console: Console) -> bool:
    text = MatchText(
        names,
        query.search.pattern,
        color=console.color,
        has_headings=console.is_terminal,
        has_context=bool(query.before or query.after),
    )
    has_match = False
    for app, role, k, lines in replicas:
        text.begin(app, role, k)
        for line in lines:
            if args.json:
                console.print(json_lines(app, role, k, line, query.search.pattern), flush=console.is_terminal)
            else:
                console.copy(text.lines(line), flush=console.is_terminal)
            has_match = True
        console.flush()
    return has_match


def _print_attempts(replicas: Replicas, args: Any, names: AttemptNames, console: Console) -> bool:
    """Print the attempts with a match, each as soon as it is known; return whether there were any."""
    has_match = False
    last, number = None, 0

    def show(app: AppRecord, number: int) -> None:
        counted = number if args.count else None
        if args.json:
            console.print(json_attempt(app, counted), flush=True)
        else:
            console.print(names.of(app) + (f"  {counted}" if args.count else ""), flush=True)

    for app, _, _, lines in replicas:
        if last is not None and last is not app:
            if number:
                show(last, number)
            number = 0
        last = app
        if args.list and number:
            continue
        number += sum(line.count for line in lines) if args.count else any(True for _ in lines)
        has_match = has_match or number > 0
    if last is not None and number:
        show(last, number)
    return has_match
