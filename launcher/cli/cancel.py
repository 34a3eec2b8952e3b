"""`launcher cancel`: stop apps and every process that they started."""

from __future__ import annotations

from launcher.cli.arguments import add_apps, duration
from launcher.cli.main import terminate_with_exception
from launcher.text import FEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.cli.render.findings import Problem
    from launcher.state.records import AppRecord

USAGE = "cancel APP… [-t TARGET] [--grace TIME] [--yes] [--json]"
HELP = """\
Stop apps. Every replica and its child processes get SIGTERM, and SIGKILL after
the grace period. Returns when all of them have exited. A local supervisor that
does not respond is killed together with its replicas.

The name of a matrix selects all of its jobs; a quoted pattern selects the jobs
and app ids that it matches. If that is more than one running app, cancel lists
them and asks for confirmation; without a terminal, it fails with exit code 3
unless --yes is given.

Apps that have already ended are not changed. The next apply holds a cancelled
job until you re-run it (--rerun). If one of several apps cannot be stopped,
the others are stopped all the same, and the exit code is 1."""
EXAMPLES = """\
  launcher cancel train
  launcher cancel train --grace 1m     give it a minute to clean up
  launcher cancel 'sweep-*' --yes
  launcher cancel train@3 local_cwd://default/eval-1-k3fwx"""


def add_arguments(parser: Any) -> None:
    add_apps(parser)
    parser.option(
        "--grace TIME",
        "time between SIGTERM and SIGKILL: 0, 30s, 2m (default: the app's own, or 10s)",
        type=duration,
    )
    parser.option("-y, --yes", "stop several apps without asking")
    parser.option("--json", "print one JSON object when done")


def run(args: Any, console: Console, *, always_asks: bool = False) -> int:
    """Cancel apps. `always_asks`: whether to ask also before a single app is stopped."""
    from launcher.inventory.find import find_each

    terminate_with_exception()
    found = find_each(args.apps, args.target)
    of_groups = {app.handle for each in found if each.is_group for app in each.apps}
    apps = {app.handle: app for each in found for app in each.apps}
    problems: list[Problem] = []
    seen = _inspected(list(apps.values()), problems, console)
    live = [app for app in seen if app.is_live]
    ended = [app for app in seen if not app.is_live]
    for app in ended:
        if app.handle not in of_groups:
            console.note(f"{app.handle} had already ended: {app.state.upper()}")
    left = [app for app in ended if app.handle in of_groups]
    if left:
        from launcher.cli.render.apps import in_short

        console.note(in_short(left, "had already ended"))
    is_unclear = len(live) > 1 and not of_groups.isdisjoint(app.handle for app in live)
    if live and not args.yes and (is_unclear or always_asks):
        _ask(live, console)
    _cancel_all(live, args.grace, problems, console)
    code = int(bool(problems))
    if args.json:
        from launcher.cli.render.findings import apps_result
        from launcher.inventory.listing import current

        console.print(apps_result(current(seen), problems, code))
    return code


def _inspected(apps: Sequence[AppRecord], problems: list[Problem], console: Console) -> list[AppRecord]:
    """Return the current records of apps. Among several, apps that cannot be read are reported and left out.

    Args:
        problems: gets the errors.
    """
    from launcher.errors import LauncherError
    from launcher.inventory.status import inspect

    if len(apps) > 1:
        from launcher.inventory.listing import current

        apps = current(apps)
    seen = []
    for app in apps:
        try:
            is_known = len(apps) > 1 and app.state != "unknown"
            seen.append(app if is_known else inspect(app))
        except LauncherError as error:
            if len(apps) == 1:
                raise
            console.error(error)
            problems.append((app.handle, error))
    return seen


def _ask(apps: Sequence[AppRecord], console: Console) -> None:
    """Raise BlockedError unless the user agrees."""
    from launcher.text import plural

    if len(apps) > FEW:
        from launcher.cli.render.apps import in_short

        console.note(in_short(apps, "would be stopped"))
    else:
        for app in apps:
            console.note(f"{app.handle} {app.state.upper()}")
    console.agree(
        f"\nStop these {len(apps)} apps?" if len(apps) > 1 else "\nStop this app?",
        doing=f"before stopping {plural(len(apps), 'app')}",
        hint="pass --yes to stop them all",
        otherwise="nothing was stopped",
    )


def _cancel_all(
    apps: Sequence[AppRecord], grace_s: float | None, problems: list[Problem], console: Console
) -> None:
    """Stop apps together. Among several, an app that cannot be stopped is reported; many others are counted.

    Args:
        problems: gets the errors.
    """
    from launcher.errors import LauncherError
    from launcher.inventory.listing import current
    from launcher.inventory.status import inspect, stop

    waiting: list[str] = []

    def waits(app_id: str, what: str) -> None:
        waiting.append(app_id)
        if len(waiting) <= FEW:
            console.note(f"waiting for {app_id} to stop: {what}")
        elif len(waiting) == FEW + 1:
            console.note("waiting for more apps to stop")

    stopped = []
    for app, error in stop(apps, grace_s, waits):
        try:
            if error is not None:
                raise error
            if len(apps) <= FEW:
                console.note(f"{app.handle} {inspect(app).state.upper()}")
            else:
                stopped.append(app)
        except LauncherError as found:
            if len(apps) == 1:
                raise
            console.error(found)
            problems.append((app.handle, found))
    if stopped:
        from launcher.cli.render.apps import in_short

        console.note(in_short(current(stopped)))
