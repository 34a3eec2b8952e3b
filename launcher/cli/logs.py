"""`launcher logs`: what the replicas of an app have printed, byte for byte."""

from __future__ import annotations

from launcher.cli.kinds import add_target, count, moment, one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.cli.log_reader import Logs
    from launcher.inventory.find import Found

USAGE = "logs APP[/ROLE[/REPLICA[,REPLICA…]]] [OPTIONS]"
HELP = """\
Print what the replicas of an app have printed. One replica is printed as it
is; several are put in order of time, each line behind `role/replica |`, and
of a progress bar that redraws its line only the last frame.

A matrix's name means all of its jobs, a quoted pattern the jobs and app ids
that it matches: then lines stand behind `job/role/replica |`.

TIME is a duration (so long ago: 10m, 2h), a local time (12:30,
2025-03-01T12:30), or seconds since the epoch (@1740832200)."""
EXAMPLES = """\
  launcher logs train                        all replicas, up to now
  launcher logs train/trainer/0,1 --follow   two of them, as they write
  launcher logs train@2 --stream stderr --regex 'error|warn'
  launcher logs 'sweep-*/trainer/0' --follow   of several jobs
  launcher logs train --since 10m --timestamps"""

STREAMS = ("combined", "stdout", "stderr")


def add_arguments(parser: Any) -> None:
    parser.add_argument("app", metavar="APP", help="a job's name, JOB@ATTEMPT, an app id or a handle")
    add_target(parser, "--target")
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
    from launcher.inventory.find import find_all
    from launcher.inventory.installed import scheduler_of

    if args.follow:
        from launcher.cli.interrupts import terminate_with_exception

        terminate_with_exception()
    if args.regex is not None:
        check_regex(args.regex)
    found = find_all(args.app, args.target)
    logs = _asked(args, found, console)
    display(logs, console)
    show(logs, console)
    for app, _ in logs:
        for warning in scheduler_of(app).warnings(app.app_id):
            console.warn(f"{app.app_id}: {warning}")
    return 0


def _asked(args: Any, found: Found, console: Console) -> Logs:
    """What to show of each app. Of a group, apps that have no such logs are left out with a warning.

    Raises LauncherError when there are no logs at all.
    """
    from launcher.cli.log_reader import Asked
    from launcher.errors import LauncherError
    from launcher.inventory.logs import replicas_of

    logs: Logs = []
    errors = []
    for selected in found.selected:
        try:
            asked = Asked(replicas_of(selected), args.stream)
        except LauncherError as error:
            errors.append(error)
            continue
        asked.since, asked.until, asked.tail, asked.follow = args.since, args.until, args.tail, args.follow
        asked.regex, asked.timestamps = args.regex, args.timestamps
        logs.append((selected.app, asked))
    if not logs:
        raise errors[0]
    for left_out in errors:
        console.warn(str(left_out))
    if not args.no_prefix and (found.is_group or len(logs[0][1].replicas) > 1):
        _set_prefixes(logs, found.is_group, console)
    return logs


def _set_prefixes(logs: Logs, is_group: bool, console: Console) -> None:
    """`role/replica |` for each replica, with the job in front where there may be several."""
    from launcher.cli.render.log_lines import prefixes

    labels = [
        (f"{app.name or app.app_id}/{role}" if is_group else role, k)
        for app, asked in logs
        for role, k in asked.replicas
    ]
    made = prefixes(labels, console.color)
    for _, asked in logs:
        asked.prefixes = [next(made) for _ in asked.replicas]


def check_regex(regex: str) -> None:
    """Raises UsageError before anything is read or waited for."""
    import re

    from launcher.errors import UsageError

    try:
        re.compile(regex)
    except re.error as error:
        raise UsageError(f"--regex: `{regex}` is no regular expression: {error}") from error
