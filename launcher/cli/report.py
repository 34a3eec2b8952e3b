"""`launcher report`: report what ran, what it used and why it failed, as one page to open, print or send."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from launcher.cli.arguments import add_project, add_target, moment, size
from launcher.cli.console import write_text
from launcher.cli.render.markdown import MAX_BYTES
from launcher.cli.render.report_html import BYTES_PER_APP, LEAST_BYTES, report_html
from launcher.cli.render.report_text import report_json, report_markdown
from launcher.errors import UsageError
from launcher.inventory.report import ReportChoice, gather

if TYPE_CHECKING:
    from launcher.cli.console import Console

_DAYS = 7
_DEFAULT_BYTES = 5_000_000

USAGE = "report [APP…] [OPTIONS] --html FILE"
HELP = f"""\
Show what ran, in one page: what failed and why, with the last lines of its
output; a timeline; resources asked for and used; results; commits and pull
requests; which job needs which. The page is one HTML file that loads nothing,
opens from disk, prints, and may be sent.

APP selects all attempts of a job, JOB@ATTEMPT one of them; the name of a matrix
or a quoted pattern selects several jobs. Without APP the report has all apps
that were live in the last {_DAYS} days.

The results are the numbers in `metrics.json` of a job's output folder, those of
its latest success beside those of the success before."""
EXAMPLES = """\
  launcher report --html report.html
  launcher report train evaluate --html report.html
  launcher report --since 24h --markdown >>"$GITHUB_STEP_SUMMARY"
  launcher report --select +evaluate --json | jq '.failures[].last_lines'"""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "apps", metavar="APP", nargs="*", help="job names, JOB@ATTEMPT, app ids, handles, patterns"
    )
    add_target(parser)
    add_project(parser)
    parser.option(
        "--since TIME",
        "only apps that were live then or later: a time ago, such as 7d or 12h, or a date",
        type=moment,
    )
    parser.option(
        "--select JOB",
        "also this job; +JOB with the jobs that it needs, JOB+ with those that need it; may be repeated",
        repeats=True,
    )
    parser.option("--html FILE", "write the page to this file, `-` for stdout")
    parser.option("--markdown", "print a short form, for a pull request")
    parser.option("--json", "print one JSON object")
    parser.option(
        "--max-bytes SIZE",
        "most bytes of the page or the Markdown, such as 5MB; the oldest attempts are only counted then "
        "(default: 5MB, and 60kB of Markdown)",
        type=size,
    )


def run(args: Any, console: Console) -> int:
    _check_arguments(args)
    most = args.max_bytes or (MAX_BYTES if args.markdown else _DEFAULT_BYTES)
    since = args.since
    if since is None and not args.apps and not args.select:
        since = time.time() - _DAYS * 86400
    choice = ReportChoice(
        names=args.apps, select=args.select, since=since, project=args.project, target=args.target
    )
    report = gather(choice, most // BYTES_PER_APP + 1, console.warn)
    if args.json:
        console.json(report_json(report))
    elif args.markdown:
        console.print(report_markdown(report, max_bytes=most), end="")
    elif args.html == "-":
        console.copy(report_html(report, max_bytes=most).encode(errors="backslashreplace"))
    else:
        write_text(args.html, report_html(report, max_bytes=most), errors="backslashreplace")
        console.note(f"wrote {args.html}")
    return 0


def _check_arguments(args: Any) -> None:
    forms = [args.html is not None, args.markdown, args.json]
    if sum(forms) != 1:
        problem = "cannot be combined" if any(forms) else "say which form to write"
        hint = "write one of --html FILE, --markdown and --json"
        raise UsageError(f"--html, --markdown and --json {problem}" if any(forms) else problem, hint=hint)
    if args.html is not None and args.max_bytes is not None and args.max_bytes < LEAST_BYTES:
        raise UsageError(
            f"--max-bytes: a page takes at least {LEAST_BYTES // 1000}kB",
            hint=f"--max-bytes {LEAST_BYTES // 1000}kB",
        )
