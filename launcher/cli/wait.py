"""`launcher wait`: block until apps have ended."""

from __future__ import annotations

from launcher.cli.kinds import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console

USAGE = "wait APP… [--timeout TIME]"
HELP = """\
Wait until apps have ended, and print how each of them did, with the error that
came first where a replica left one. The kernel wakes it: nothing is polled.

Exit code 0 when all have succeeded, 5 when one has not, or not in time."""
EXAMPLES = """\
  launcher wait train && launcher logs train --tail 1
  launcher wait train eval --timeout 1h30m"""

NOT_SUCCEEDED = 5


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "apps", metavar="APP", nargs="+", help="a job's name, JOB@ATTEMPT, an app id or a handle"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", type=duration, help="give up after that long: 90, 10s, 1h30m"
    )


def run(args: Any, console: Console) -> int:
    import time

    from launcher.cli.interrupts import terminate_with_exception
    from launcher.inventory.find import whole
    from launcher.inventory.installed import scheduler_of
    from launcher.inventory.status import cause, inspect
    from launcher.inventory.wait import wait_for

    terminate_with_exception()
    apps = [whole(text) for text in args.apps]
    deadline = None if args.timeout is None else time.monotonic() + args.timeout
    code = 0
    for app in apps:
        state = wait_for(app, None if deadline is None else max(0.0, deadline - time.monotonic()))
        why = ""
        if state in ("failed", "lost"):
            found = inspect(app)
            why = "; ".join(part for part in (found.message, cause(found)) if part)
        console.print(f"{app.handle} {state.upper()}{': ' if why else ''}{why}", flush=True)
        for warning in scheduler_of(app).warnings(app.app_id):
            console.warn(f"{app.app_id}: {warning}")
        if state != "succeeded":
            code = NOT_SUCCEEDED
    return code
