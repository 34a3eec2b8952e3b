"""`launcher start`: start apps in line without waiting for their turns."""

from __future__ import annotations

from launcher.cli.arguments import add_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.state.records import AppRecord

USAGE = "start APP… --now [-t TARGET]"
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

_STARTED_S = 30.0  # how long an app in line may take to start
_LOOK_S = 0.05


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "apps", metavar="APP", nargs="+", help="job name, JOB@ATTEMPT, app id, handle or pattern"
    )
    add_target(parser)
    parser.add_argument("--now", action="store_true", help="do not wait for their turns")


def run(args: Any, console: Console) -> int:
    from launcher.errors import LauncherError, UsageError
    from launcher.inventory.find import find_apps

    if not args.now:
        raise UsageError(
            "start needs --now: an app in line starts by itself when its turn comes",
            hint="`launcher queue` shows the line; `launcher apply FILE` starts jobs",
        )
    found = [find_apps(text, args.target) for text in args.apps]
    of_groups = {app.handle for each in found if each.is_group for app in each.apps}
    apps = {app.handle: app for each in found for app in each.apps}
    code = 0
    for app in apps.values():
        try:
            _start(app, console, is_picked=app.handle not in of_groups)
        except LauncherError as error:
            if len(apps) == 1:
                raise
            console.error(error)
            code = 1
    return code


def _start(app: AppRecord, console: Console, *, is_picked: bool) -> None:
    """Start one app, and return when it has started.

    Args:
        is_picked: whether it was named by itself; of a group, those that are not in line are passed over.
    """
    from launcher.errors import LauncherError
    from launcher.inventory.status import inspect
    from launcher.inventory.turns import start_now

    found = inspect(app)
    if found.state == "queued" and not found.abandoned:
        line = found.message
        if start_now(app.app_id):
            found = _started(app)
            console.print(f"{app.handle} {found.state.upper()}, was {line}", flush=True)
            return
        found = inspect(app)  # its turn has come meanwhile
    if found.state == "queued":
        raise LauncherError(f"{app.handle} {_why_not(found)}", hint=_hint(found))
    if found.is_live and found.state != "waiting":
        console.note(f"{app.handle} has already started: {found.state.upper()}")
    elif is_picked:
        raise LauncherError(f"{app.handle} {_why_not(found)}", hint=_hint(found))
    else:
        console.note(f"{app.handle} {found.state.upper()}: not in line")


def _started(app: AppRecord) -> AppRecord:
    """The app once it is no longer in line. Raises LauncherError when that takes too long."""
    import time

    from launcher.errors import LauncherError
    from launcher.inventory.status import inspect

    deadline = time.monotonic() + _STARTED_S
    while (found := inspect(app)).state == "queued":
        if time.monotonic() > deadline:
            raise LauncherError(
                f"{app.handle} has left the line and not started within {_STARTED_S:g} s",
                hint=f"launcher status {app.app_id}",
            )
        time.sleep(_LOOK_S)
    return found


def _why_not(app: AppRecord) -> str:
    if app.state == "waiting":
        return f"{app.message}: what a job needs cannot be skipped"
    if app.state == "queued":
        other = "is in line, in a table or of a state folder that is not in use here"
        return app.message if app.abandoned else other
    return f"is not in line: it has ended, {app.state.upper()}"


def _hint(app: AppRecord) -> str:
    if app.state == "waiting":
        return "remove the job from `needs:` and apply again"
    if app.state == "queued":
        return (
            "set LAUNCHER_HOME and LAUNCHER_SLOTS as they were when the app was started;"
            " `launcher queue` names the table in use"
        )
    again = f" --rerun {app.job}" if app.job else ""
    return f"launcher apply FILE{again}"
