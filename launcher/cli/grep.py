"""`launcher grep`: search the logs of all attempts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from json import dumps
from re import Pattern
from typing import Any

from launcher.cli.arguments import add_project, add_target, attempts, count, moment
from launcher.cli.console import Console, visible
from launcher.cli.log_reader import AttemptNames
from launcher.cli.logs import STREAMS
from launcher.cli.render.log_lines import stamp
from launcher.cli.render.terminal_text import terminal_text
from launcher.cli.render.values import ago, iso, state_cell
from launcher.errors import UsageError
from launcher.inventory.attempts import select
from launcher.inventory.project import projects_here
from launcher.inventory.search import FoundLine, Query, Searched, search
from launcher.schedulers.logs import LineSearch
from launcher.state.records import AppRecord
from launcher.text import RESET, paint, plural

USAGE = "grep PATTERN [JOB…] [OPTIONS]"
HELP = """\
Search the kept logs of all attempts of jobs, or of all apps, on every engine,
the newest attempt first. Each line has the name that `launcher logs` takes,
the time, and the text; on a terminal, attempts have headings.

PATTERN is a regular expression of Python, as that of `logs --regex`. A repeat
of a repeat, such as (a+)+$, may take for ever on a long line: Ctrl-C ends it.

JOB is a job name or the name of a matrix, for all attempts of its jobs; a
quoted pattern; or JOB@ATTEMPT, an app id or a handle, for one attempt.
`/ROLE/REPLICA` may follow.

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
    parser.option(
        "--attempt N", "only these attempts: 3, 1,3, 1..5, or 3.. for 3 and later", type=attempts, default=()
    )
    parser.option("--since TIME", "only lines since TIME: 10m, 7d, 12:30", type=moment)
    parser.option("--role ROLE", "only replicas of this role", default="")
    parser.option("--stream STREAM", "stdout, stderr, or combined", choices=STREAMS, default="combined")
    parser.option("-i, --ignore-case", "match letters in either case")
    parser.option("-F, --fixed", "PATTERN is plain text")
    parser.option("-C, --context N", "also N lines around each match", type=count)
    parser.option("-A, --after N", "also N lines after each match", type=count)
    parser.option("-B, --before N", "also N lines before each match", type=count)
    parser.option("--tail N", "only the last N matches of each replica", type=count)
    parser.option("-l, --list", "list the attempts that match")
    parser.option("-c, --count", "count the matching lines of each attempt")
    parser.option("--json", "print a JSON object for each line")


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
        # `re.escape` escapes more than necessary, which would slow the search down.
        regex = re.sub(r"([.\[\](){}*+?|^$\\])", r"\\\1", args.pattern) if args.fixed else args.pattern
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
        if args.json:
            console.print(dumps(_about(app) | ({"count": number} if args.count else {})), flush=True)
        else:
            console.print(names.of(app) + (f"  {number}" if args.count else ""), flush=True)

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


_ON, _OFF = paint("|", "bold red").encode().split(b"|")
_BETWEEN = b"--\n"


class MatchText:
    """Lines for a terminal, below a heading for each attempt, or for a pipe, each with its replica's name.

    Args:
        pattern: its matches are painted.
        has_context: whether lines that do not follow each other are set apart.
    """

    def __init__(
        self,
        names: AttemptNames,
        pattern: Pattern[str],
        *,
        color: bool,
        has_headings: bool,
        has_context: bool,
    ) -> None:
        self._names = names
        self._pattern = pattern
        self._color = color
        self._has_headings = has_headings
        self._has_context = has_context
        self._heading: AppRecord | None = None  # the attempt of the last heading
        self._app: AppRecord | None = None
        self._front = b""
        self._end = -1  # end of the last line; -1 where another replica begins
        self._is_first = True

    def begin(self, app: AppRecord, role: str, k: int) -> None:
        """Begin the output of another replica."""
        self._app = app
        where = visible(f"{role}/{k}").replace("\n", "\\x0a")
        if self._has_headings:
            self._front = paint(where, "cyan", self._color).encode()
        else:
            self._front = f"{self._names.of(app)}/{where}".encode(errors="backslashreplace")
        self._end = -1

    def lines(self, line: FoundLine) -> bytes:
        text = b""
        if self._has_headings and self._heading is not self._app and self._app is not None:
            state, style = state_cell(self._app.state)
            name = visible(self._names.of(self._app)).replace("\n", "\\x0a")
            name, state = paint(name, "bold", self._color), paint(state, style, self._color)
            heading = f"{name}  {state}  {ago(self._app.created_at, time.time())}\n"
            text = (b"" if self._is_first else b"\n") + heading.encode()
            self._heading = self._app
        elif self._has_context and not self._is_first and line.begin != self._end:
            text = _BETWEEN
        self._end, self._is_first = line.end, False
        mark = b" | " if line.is_match or not self._has_context else b" - "
        shown = _frames(line.text.removesuffix(b"\n"), self._pattern)
        if self._has_headings:
            local = time.localtime(line.time_ns // 1_000_000_000)
            at = paint(time.strftime("%Y-%m-%d %H:%M:%S ", local), "dim", self._color).encode()
            shown = b"\n".join(map(self._on_terminal, shown.split(b"\n")))
        else:
            at = stamp(line.time_ns)
        front = self._front + mark + at
        return text + front + shown.replace(b"\n", b"\n" + front) + b"\n"

    def _on_terminal(self, text: bytes) -> bytes:
        shown = _painted(text, self._pattern) if self._color else terminal_text(text)
        return shown + RESET.encode() if b"\x1b" in text else shown


def _frames(text: bytes, pattern: Pattern[str]) -> bytes:
    """Return the lines; of a line rewritten by carriage returns (a progress bar), the last matching frame."""
    if b"\r" not in text:
        return text
    return b"\n".join(_frame(line, pattern) for line in text.split(b"\n"))


def _frame(line: bytes, pattern: Pattern[str]) -> bytes:
    frames = line.rstrip(b"\r").split(b"\r")
    found = (each for each in reversed(frames) if pattern.search(each.decode("utf-8", "replace")))
    return next(found, frames[-1])


def _painted(line: bytes, pattern: Pattern[str]) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    parts, at = [], 0
    for found in pattern.finditer(text):
        if found[0]:
            parts += [_terminal_text(text[at : found.start()]), _ON, _terminal_text(found[0]), _OFF]
            at = found.end()
    return b"".join([*parts, _terminal_text(text[at:])])


def _terminal_text(text: str) -> bytes:
    return terminal_text(text.encode("utf-8", "surrogateescape"))


def json_lines(app: AppRecord, role: str, k: int, line: FoundLine, pattern: Pattern[str]) -> str:
    """Yield an object for each line."""
    about = _about(app) | {"role": role, "replica": k, "time": iso(line.time_ns / 1e9), "stream": line.stream}
    texts = _frames(line.text.removesuffix(b"\n"), pattern).decode("utf-8", "replace").split("\n")
    return "\n".join(dumps(about | {"text": text, "match": line.is_match}) for text in texts)


def _about(app: AppRecord) -> dict[str, Any]:
    known = {"handle": app.handle, "app_id": app.app_id, "project": app.project, "target": app.target}
    return known | {"job": app.job, "attempt": app.number, "state": app.state}


def unread_lines(report: Searched, names: AttemptNames) -> Iterator[str]:
    """`not searched: train@1, train@2 and 7 more: their logs were removed`, for each reason."""
    for reason, total in report.counts.items():
        known = [each if isinstance(each, str) else names.of(each) for each in report.examples(reason)]
        more = f" and {total - len(known)} more" if total > len(known) else ""
        yield f"not searched: {', '.join(known)}{more}: {reason}"
