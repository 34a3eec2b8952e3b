"""`launcher wait`: block until apps have ended."""

from __future__ import annotations

from launcher.cli.kinds import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.apps import App
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

    from launcher.cli.apps import tell_warnings, whole
    from launcher.cli.interrupts import terminate_with_exception

    terminate_with_exception()
    apps = [whole(text) for text in args.apps]
    deadline = None if args.timeout is None else time.monotonic() + args.timeout
    code = 0
    for app in apps:
        state = wait_for(app, None if deadline is None else max(0.0, deadline - time.monotonic()))
        why = _why(app) if state in ("failed", "lost") else ""
        console.print(f"{app.handle} {state.upper()}{': ' if why else ''}{why}", flush=True)
        tell_warnings(app, console)
        if state != "succeeded":
            code = NOT_SUCCEEDED
    return code


def wait_for(app: App, timeout_s: float | None) -> str:
    """Wait until the app has ended, or the time is over; its state then.

    Raises UnknownAppException.
    """
    from launcher.cli.apps import scheduler_of
    from launcher.cli.inventory import LIVE, LOCAL, EndRecorder

    scheduler = scheduler_of(app)
    recorder = EndRecorder()  # opened before we wait: whoever waits for us does not wait for that
    if app.scheduler in LOCAL:
        view = scheduler.wait_view(app.app_id, timeout_s)
    elif app.job is not None:
        view = scheduler.ended_attempt(app.app_id, timeout_s)
    else:
        answer = scheduler.wait(app.app_id, timeout_s)
        return _recorded_state(app) if answer is None else str(answer.state).lower()
    if view is None:
        return _recorded_state(app)
    if view.state not in LIVE:
        recorder.record(app.app_id, view)
    state: str = view.state
    return state


def _why(app: App) -> str:
    """How it ended and the error that came first, as far as each is known."""
    from launcher.cli.inspect_app import inspect

    found = inspect(app)
    return "; ".join(part for part in (found.item.message, found.cause) if part)


def _recorded_state(app: App) -> str:
    """How an app ended that its engine has forgotten."""
    from launcher.cli.inspect_app import inspect

    return inspect(app).item.state
