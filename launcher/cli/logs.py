"""`launcher logs`: print the output of replicas, byte for byte."""

from __future__ import annotations

from launcher.cli.arguments import add_target, attempts, count, moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.cli.log_reader import LogRequest, Logs
    from launcher.inventory.find import SelectedApps
    from launcher.schedulers.restarts import Restart
    from launcher.state.records import AppRecord

USAGE = "logs APP[/ROLE[/REPLICA[,REPLICA…]]] [OPTIONS]"
HELP = """\
Print the output of an app's replicas. The output of one replica is printed as
it is. Lines of several replicas are merged by time and prefixed with
`role/replica |`; of a progress bar, only the last state is printed. On a
terminal, control sequences other than colours are escaped.

The name of a matrix selects all of its jobs; a quoted pattern selects the jobs
and app ids that it matches. Lines are then prefixed with `job/role/replica |`.

TIME is a duration before now (10m, 2h), a local time (12:30, 2025-03-01T12:30)
or seconds since the epoch (@1740832200)."""
EXAMPLES = """\
  launcher logs train                        all replicas, so far
  launcher logs train/trainer/0,1 --follow   two replicas, as they write
  launcher logs train@2 --stream stderr --regex 'error|warn'
  launcher logs train --attempt 1..3 --tail 5   three attempts
  launcher logs 'sweep-*/trainer/0' --follow   of several jobs
  launcher logs train/trainer/0 --restart 0  before its first restart
  launcher logs train --since 10m --timestamps
  launcher logs train --tail 100 --json | jq -r .text"""

STREAMS = ("combined", "stdout", "stderr")


def add_arguments(parser: Any) -> None:
    parser.add_argument("app", metavar="APP", help="[PROJECT/]JOB, JOB@ATTEMPT, app id or handle")
    add_target(parser, "--target")
    parser.option("-f, --follow", "keep printing until the app has ended")
    parser.option("-t, --tail N", "only the last N lines of each replica", type=count)
    parser.option(
        "--attempt N",
        "several attempts of a job, one after the other: 1,3, 1..5, or 3.. for 3 and later",
        type=attempts,
        default=(),
    )
    parser.option("--regex REGEX", "only lines that match this regular expression")
    parser.option("--since TIME", "only output written since TIME", type=moment)
    parser.option("--until TIME", "only output written until TIME", type=moment)
    parser.option(
        "--restart N", "only the output of restart N of each replica; 0 is the first run", type=count
    )
    parser.option(
        "--stream STREAM", "stdout, stderr, or combined (the default)", choices=STREAMS, default="combined"
    )
    parser.option("--timestamps", "print the time of each line")
    parser.option("--no-prefix", "do not prefix lines with their replica")
    parser.option("--raw", "let control sequences through to a terminal")
    parser.option("--json", "print a JSON object for each line, on one line")


def run(args: Any, console: Console) -> int:
    from launcher.inventory.find import find_all

    if args.regex is not None:
        from launcher.errors import UsageError
        from launcher.schedulers.logs import LineSearch

        try:
            LineSearch(args.regex)
        except UsageError as error:
            raise UsageError(f"--regex: {error}") from error
    if args.attempt:
        return _of_attempts(args, console)
    found = find_all(args.app, args.target)
    return _of_apps(args, found, console)


def _of_attempts(args: Any, console: Console) -> int:
    """Print the logs of several attempts, the oldest first, each below a heading."""
    from launcher.cli.log_reader import AttemptNames
    from launcher.cli.render.values import state_cell, timestamp
    from launcher.errors import LauncherError, UsageError
    from launcher.inventory.attempts import present, select
    from launcher.inventory.find import SelectedApps
    from launcher.inventory.project import projects_here
    from launcher.text import paint, typed

    found = [*present(select([args.app], target=args.target, numbers=args.attempt))][::-1]
    found.sort(key=lambda selected: selected.app.key)
    if not found:
        raise LauncherError(
            f"`{args.app}` has no such attempt",
            hint=f"`launcher history {typed(args.app)}` lists its attempts",
        )
    if args.follow and len(found) > 1:
        raise UsageError("--follow shows one attempt", hint="without --attempt, it is the latest one")
    for first, last in args.attempt:
        if not any(first <= (selected.app.number or 0) <= last for selected in found):
            console.warn(f"`{args.app}` has no attempt {first if first == last else f'{first}..{last}'}")
    if len(found) == 1:
        return _of_apps(args, SelectedApps(found, is_group=False), console)
    names = AttemptNames({*projects_here()}, args.target)
    failed = 0
    for number, selected in enumerate(found):
        if not args.no_prefix:
            state, style = state_cell(selected.app.state)
            name = paint(names.of(selected.app), "bold", console.color)
            at = timestamp(selected.app.started_at or selected.app.created_at)
            heading = f"==> {name}  {paint(state, style, console.color)}  {at}"
            console.print(("\n" if number else "") + heading, flush=True)
        try:
            _of_apps(args, SelectedApps([selected], is_group=False), console)
        except LauncherError as error:
            console.flush()
            console.warn(str(error))
            failed += 1
    return 1 if failed == len(found) else 0


def _of_apps(args: Any, found: SelectedApps, console: Console) -> int:
    from launcher.cli.log_reader import display, note, show
    from launcher.inventory.recorded import scheduler_of

    held = _held(found, console, follow=args.follow)
    if not found.selected:
        return 0
    logs = _requests(args, found, console)
    display(logs, console)
    if args.follow:
        from functools import partial

        from launcher import outages

        outages.report = lambda text: note(logs[0][1], console, text)
        for app, request in logs:
            request.is_held = app.handle in held
            front = f"{app.name or app.app_id} " if found.is_group else ""
            request.on_restart = partial(_note_restart, request, console, front)
    show(logs, console)
    for app, _ in logs:
        for warning in scheduler_of(app).warnings(app.app_id):
            console.warn(f"{app.app_id}: {warning}")
    return 0


def _held(found: SelectedApps, console: Console, *, follow: bool) -> set[str]:
    """The handles of the apps that have not started, whose output is to be followed from their start.

    Prints why held and skipped apps have no output, and removes from `found` apps without output to follow.
    An app that its scheduler has queued again has the output of its earlier runs.
    """
    held = set()
    for selected in list(found.selected):
        app = selected.app
        if app.is_held:  # as recorded; the app may have started since
            from launcher.inventory.status import inspect

            app = selected.app = inspect(app)
        if app.is_held or app.state == "skipped":
            console.note(f"{app.name or app.app_id} {app.idle_verb}: {app.message}")
            if app.is_held and app.started_at is not None:
                continue
            if app.is_held and follow:
                held.add(app.handle)
            else:
                found.selected.remove(selected)
    return held


def _requests(args: Any, found: SelectedApps, console: Console) -> Logs:
    """Return the log requests of the apps found. In a group, apps without logs are skipped with a warning.

    Raises LauncherError if no app has logs.
    """
    from launcher.cli.log_reader import LogRequest
    from launcher.errors import LauncherError
    from launcher.inventory.logs import replicas_of

    logs: Logs = []
    errors = []
    for selected in found.selected:
        try:
            request = LogRequest(replicas_of(selected), args.stream)
            if args.restart is not None:
                _choose_runs(selected.app, request, args.restart)
        except LauncherError as error:
            errors.append(error)
            continue
        request.since, request.until = args.since, args.until
        request.tail, request.follow = args.tail, args.follow
        request.regex, request.timestamps, request.raw = args.regex, args.timestamps, args.raw
        request.as_json = args.json
        logs.append((selected.app, request))
    if not logs:
        raise errors[0]
    for left_out in errors:
        console.warn(str(left_out))
    if not (args.no_prefix or args.json) and (found.is_group or len(logs[0][1].replicas) > 1):
        _set_prefixes(logs, found.is_group, console)
    return logs


def _choose_runs(app: AppRecord, request: LogRequest, restart: int) -> None:
    """Select the output of one restart. Raises LauncherError if no replica had it."""
    from launcher.errors import LauncherError
    from launcher.inventory.logs import run_times

    request.runs = run_times(app, request.replicas, restart)
    if not request.runs:
        raise LauncherError(
            f"{app.app_id} has no output of restart {restart}",
            hint=f"`launcher status {app.app_id}` shows how often each replica was restarted",
        )
    request.replicas = [where for where in request.replicas if where in request.runs]


def _note_restart(request: LogRequest, console: Console, front: str, restart: Restart) -> None:
    from launcher.cli.log_reader import note

    note(request, console, f"{front}{restart}")


def _set_prefixes(logs: Logs, is_group: bool, console: Console) -> None:
    """Set the prefix `role/replica |` of each replica, or `job/role/replica |` for a group."""
    from launcher.cli.render.log_lines import prefixes

    labels = [
        (f"{app.name or app.app_id}/{role}" if is_group else role, k)
        for app, request in logs
        for role, k in request.replicas
    ]
    made = prefixes(labels, console.color)
    for _, request in logs:
        request.prefixes = [next(made) for _ in request.replicas]
