"""`launcher wait`: wait until apps have ended."""

from __future__ import annotations

from launcher.cli.arguments import add_apps, duration
from launcher.cli.main import terminate_with_exception
from launcher.errors import NOT_SUCCEEDED
from launcher.state.records import WAITING
from launcher.text import FEW, with_cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.cli.render.findings import Problem
    from launcher.state.records import AppRecord

USAGE = "wait APP… [-t TARGET] [--timeout TIME] [--json]"
HELP = """\
Wait until apps have ended, and print the outcome of each, with the first error
of its replicas. The kernel or the engine wakes the command: it does not poll.

The name of a matrix selects all of its jobs, a quoted pattern the jobs and app
ids that it matches, as of now: it does not wait for jobs applied later.

Exit codes: 0 all have succeeded, 5 one has not, or has not ended in time,
1 one could not be waited for. Of several apps, the worst counts."""
EXAMPLES = """\
  launcher wait train && launcher logs train --tail 1
  launcher wait 'sweep-*'
  launcher wait train eval --timeout 1h30m"""

_EXPLAINED = ("failed", "skipped", "lost", *WAITING)


def add_arguments(parser: Any) -> None:
    add_apps(parser)
    parser.option("--timeout TIME", "stop waiting after this time: 90, 10s, 1h30m", type=duration)
    parser.option("--json", "print one JSON object when done")


def run(args: Any, console: Console) -> int:
    from launcher import outages
    from launcher.inventory.find import find_each
    from launcher.inventory.status import wait_for, wait_for_all

    outages.report = console.note
    terminate_with_exception()
    apps = {app.handle: app for found in find_each(args.apps, args.target) for app in found.apps}
    shown = console.aside() if args.json else console
    seen: list[AppRecord] = []
    problems: list[Problem] = []
    if len(apps) == 1:
        seen = [wait_for(next(iter(apps.values())), args.timeout)]
        codes = {_show(seen[0], shown, in_full=True)}
    else:
        codes = set()
        for number, (app, error) in enumerate(wait_for_all([*apps.values()], args.timeout)):
            if error is not None:
                console.error(error)
                problems.append((app.handle, error))
                codes.add(1)
            else:
                seen.append(app)
                codes.add(_show(app, shown, in_full=number < FEW and not app.is_held))
    code = min(codes - {0}, default=0)  # exit code 1 is worse than 5
    if args.json:
        from launcher.cli.render.findings import apps_result

        console.print(apps_result(seen, problems, code))
    return code


def _show(app: AppRecord, console: Console, *, in_full: bool) -> int:
    """Print the outcome of an app, and keep its reason; returns the exit code.

    Args:
        in_full: whether to ask its scheduler for the first error of its replicas and its warnings.
    """
    from launcher.inventory.recorded import scheduler_of
    from launcher.inventory.status import inspect

    state, why, warnings = app.state, app.message, app.warnings
    if in_full and state in _EXPLAINED:
        found = inspect(app)
        app.message = why = with_cause(found.message, found.cause)
    shown = f": {why}" if why and state in _EXPLAINED else ""
    console.print(f"{app.handle} {state.upper()}{shown}", flush=True)
    for warning in scheduler_of(app).warnings(app.app_id) if in_full else warnings:
        console.warn(f"{app.app_id}: {warning}")
    return 0 if state == "succeeded" else NOT_SUCCEEDED
