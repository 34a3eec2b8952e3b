"""`launcher start`: start apps in line without waiting for their turns."""

from __future__ import annotations

from launcher.cli.arguments import add_apps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.cli.render.findings import Problem
    from launcher.errors import LauncherError
    from launcher.state.records import AppRecord

USAGE = "start APP… --now [-t TARGET] [--json]"
HELP = """\
Start apps that are in line (`launcher queue`) at once: each leaves the line and
takes its cores, memory and GPUs, also where that is more than this machine has.
Those behind it keep their order. Returns when the apps have started.

Jobs that wait for other jobs cannot be started: what they need does not exist
yet. To start a job, or to run one again, use `launcher apply`.

The name of a matrix selects all of its jobs in line, a quoted pattern the jobs
and app ids that it matches."""
EXAMPLES = """\
  launcher start train --now
  launcher start 'sweep-0p1-*' --now"""

_STARTED_S = 30.0  # seconds that an app in line may take to start
_LOOK_S = 0.05


def add_arguments(parser: Any) -> None:
    add_apps(parser)
    parser.option("--now", "do not wait for their turns")
    parser.option("--json", "print one JSON object when done")


def run(args: Any, console: Console, *, always_asks: bool = False) -> int:
    """Start apps. `always_asks`: whether to ask before apps are started."""
    from launcher.errors import LauncherError, UsageError
    from launcher.inventory.find import find_each

    if not args.now:
        raise UsageError(
            "start needs --now: an app in line starts by itself when its turn comes",
            hint="`launcher queue` shows the line; `launcher apply FILE` starts jobs",
        )
    found = find_each(args.apps, args.target)
    of_groups = {app.handle for each in found if each.is_group for app in each.apps}
    apps = {app.handle: app for each in found for app in each.apps}
    problems: list[Problem] = []
    seen = _seen([*apps.values()])
    asked = _start(seen, console, always_asks=always_asks)
    started = {app.app_id for app in asked}

    def report(app: AppRecord, error: LauncherError) -> None:
        if len(apps) == 1:
            raise error
        console.error(error)
        problems.append((app.handle, error))

    for app in seen:
        try:
            if app.app_id not in started:
                _say_why_not(app, console, is_picked=app.handle not in of_groups)
        except LauncherError as error:
            report(app, error)
    for app in _show_starts(asked, console.aside() if args.json else console):
        problem = f"{app.handle} has left the line and not started within {_STARTED_S:g} s"
        report(app, LauncherError(problem, hint=f"launcher status {app.app_id}"))
    if args.json:
        from launcher.cli.render.findings import apps_result
        from launcher.inventory.listing import current

        console.print(apps_result(current(seen), problems, int(bool(problems))))
    return int(bool(problems))


def _start(seen: list[AppRecord], console: Console, *, always_asks: bool) -> list[AppRecord]:
    """Start the apps that are in line; return the apps that were asked to start. Raises BlockedError."""
    from launcher.inventory.turns import start_now

    in_line = [app for app in seen if app.state == "queued" and not app.abandoned]
    if not in_line:
        return []
    if always_asks:
        from launcher.errors import BlockedError
        from launcher.text import FEW, plural

        for app in in_line[:FEW]:
            console.note(f"{app.handle} {app.state.upper()}: {app.message}")
        if len(in_line) > FEW:
            console.note(f"and {plural(len(in_line) - FEW, 'more app')} in line")
        if not console.ask("\nStart them at once, also where that is more than this machine has?"):
            raise BlockedError("not approved; nothing was started")
    started = start_now(in_line)
    return [app for app in in_line if app.app_id in started]


def _seen(apps: list[AppRecord]) -> list[AppRecord]:
    """Return the present apps, with their places in line."""
    from launcher.inventory.listing import current, say_why_held
    from launcher.inventory.status import inspect

    if len(apps) == 1:
        return [inspect(apps[0])]
    seen = current(apps)
    say_why_held(seen)
    return seen


def _say_why_not(app: AppRecord, console: Console, *, is_picked: bool) -> None:
    """Print the state of an app that is not in line. Raises LauncherError for one that is still in line.

    Args:
        is_picked: whether the user named this app; raises LauncherError then, unless it has started.
    """
    from launcher.inventory.status import inspect

    found = inspect(app) if app.state == "queued" and not app.abandoned else app  # its turn may have come
    if found.state == "queued":
        raise _not_in_line(found)
    if found.is_live and found.state != "waiting":
        console.note(f"{found.handle} has already started: {found.state.upper()}")
    elif is_picked:
        raise _not_in_line(found)
    else:
        console.note(f"{found.handle} {found.state.upper()}: not in line")


def _show_starts(apps: list[AppRecord], console: Console) -> list[AppRecord]:
    """Print the apps when they leave the line; return the apps that have not started in time."""
    import time

    from launcher.inventory.listing import current

    deadline = time.monotonic() + _STARTED_S
    lines = {app.handle: app.message for app in apps}
    while apps and time.monotonic() < deadline:
        apps = current(apps)
        for app in apps:
            if app.state != "queued":
                console.print(f"{app.handle} {app.state.upper()}, was {lines[app.handle]}", flush=True)
        apps = [app for app in apps if app.state == "queued"]
        if apps:
            time.sleep(_LOOK_S)
    return apps


def _not_in_line(app: AppRecord) -> LauncherError:
    """Return the error that says why an app cannot be started, with the remedy."""
    from launcher.errors import LauncherError

    if app.state == "waiting":
        why = f"{app.message}: what a job needs cannot be skipped"
        hint = "remove the job from `needs:` and apply again"
    elif app.state == "queued":
        other = "is in line, in a table or of a state folder that is not in use here"
        why = app.message if app.abandoned else other
        hint = (
            "set LAUNCHER_HOME and LAUNCHER_SLOTS as they were when the app was started;"
            " `launcher queue` names the table in use"
        )
    else:
        why = f"is not in line: it has ended, {app.state.upper()}"
        hint = f"launcher apply FILE{f' --rerun {app.job}' if app.job else ''}"
    return LauncherError(f"{app.handle} {why}", hint=hint)
