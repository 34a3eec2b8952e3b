"""`launcher logs`: what the replicas of an app have printed, byte for byte."""

from __future__ import annotations

from launcher.cli.kinds import count, moment, one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.cli.log_reader import Asked
    from launcher.inventory.find import Selected

USAGE = "logs APP[/ROLE[/REPLICA[,REPLICA…]]] [OPTIONS]"
HELP = """\
Print what the replicas of an app have printed. One replica is printed as it
is; several are put in order of time, each line behind `role/replica |`, and
of a progress bar that redraws its line only the last frame.

TIME is a duration (so long ago: 10m, 2h), a local time (12:30,
2025-03-01T12:30), or seconds since the epoch (@1740832200)."""
EXAMPLES = """\
  launcher logs train                        all replicas, up to now
  launcher logs train/trainer/0,1 --follow   two of them, as they write
  launcher logs train@2 --stream stderr --regex 'error|warn'
  launcher logs train --since 10m --timestamps"""

STREAMS = ("combined", "stdout", "stderr")


def add_arguments(parser: Any) -> None:
    parser.add_argument("app", metavar="APP", help="a job's name, JOB@ATTEMPT, an app id or a handle")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the app has ended")
    parser.add_argument("-t", "--tail", metavar="N", type=count, help="only the last N lines of each replica")
    parser.add_argument("--regex", metavar="REGEX", help="only lines in which this is found")
    parser.add_argument("--since", metavar="TIME", type=moment, help="only what was written since then")
    parser.add_argument("--until", metavar="TIME", type=moment, help="only what was written until then")
    parser.add_argument(
        "--stream",
        metavar="STREAM",
        type=one_of(*STREAMS),
        choices=STREAMS,
        default="combined",
        help="stdout, stderr, or combined (the default)",
    )
    parser.add_argument("--timestamps", action="store_true", help="show when each line was written")
    parser.add_argument("--no-prefix", action="store_true", help="do not say which replica a line is of")


def run(args: Any, console: Console) -> int:
    from launcher.cli.log_reader import display, show
    from launcher.inventory.find import find
    from launcher.inventory.installed import scheduler_of

    if args.follow:
        from launcher.cli.interrupts import terminate_with_exception

        terminate_with_exception()
    if args.regex is not None:
        check_regex(args.regex)
    selected = find(args.app)
    app, asked = selected.app, _asked(args, selected, console)
    display(asked, console)
    show(app, asked, console)
    for warning in scheduler_of(app).warnings(app.app_id):
        console.warn(f"{app.app_id}: {warning}")
    return 0


def _asked(args: Any, selected: Selected, console: Console) -> Asked:
    from launcher.cli.log_reader import Asked
    from launcher.inventory.logs import replicas_of

    asked = Asked(replicas_of(selected), args.stream)
    asked.since, asked.until, asked.tail, asked.follow = args.since, args.until, args.tail, args.follow
    asked.regex, asked.timestamps = args.regex, args.timestamps
    if len(asked.replicas) > 1 and not args.no_prefix:
        from launcher.cli.render.log_lines import prefixes

        asked.prefixes = list(prefixes(asked.replicas, console.color))
    return asked


def check_regex(regex: str) -> None:
    """Raises UsageError before anything is read or waited for."""
    import re

    from launcher.errors import UsageError

    try:
        re.compile(regex)
    except re.error as error:
        raise UsageError(f"--regex: `{regex}` is no regular expression: {error}") from error
