"""`launcher cancel`: stop apps, and leave nothing of them running."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console

USAGE = "cancel APP… [--grace TIME]"
HELP = """\
Stop apps: every replica gets SIGTERM, after its grace period SIGKILL, and so
does whatever it has started. Returns when nothing of them is left. A local
supervisor that does not answer is killed with its replicas.

An app that has ended stays as it ended. A cancelled job is held by the next
apply until you ask for it (--rerun)."""
EXAMPLES = """\
  launcher cancel train
  launcher cancel train --grace 1m     it may take a minute to clean up
  launcher cancel train@3 local_cwd://default/eval-1-k3fwx"""


def add_arguments(parser: Any) -> None:
    from launcher.cli.kinds import duration

    parser.add_argument(
        "apps", metavar="APP", nargs="+", help="a job's name, JOB@ATTEMPT, an app id or a handle"
    )
    parser.add_argument(
        "--grace",
        metavar="TIME",
        type=duration,
        help="from SIGTERM to SIGKILL: 0, 30s, 2m (default: what the app says, else 10s)",
    )


def run(args: Any, console: Console) -> int:
    from launcher.cli.interrupts import terminate_with_exception
    from launcher.inventory.find import whole
    from launcher.inventory.installed import scheduler_of
    from launcher.inventory.status import inspect

    terminate_with_exception()
    for app in [whole(text) for text in args.apps]:
        before = inspect(app)
        if before.is_live:
            scheduler = scheduler_of(app)
            scheduler.on_wait = lambda app_id, what: console.note(f"waiting for {app_id} to stop: {what}")
            scheduler.cancel(app.app_id, *([] if args.grace is None else [args.grace]))
            after = inspect(app)
            console.note(f"{app.handle} {after.state.upper()}")
        else:
            console.note(f"{app.handle} has ended before: {before.state.upper()}")
    return 0
