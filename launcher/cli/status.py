"""`launcher status`: one app with its replicas; without an app, all that run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console

USAGE = "status [APP] [--json]"
HELP = """\
Show an app: its state, its replicas with their exit codes and restarts.
Without APP, every app that is running.

APP is a job's name (its latest attempt), JOB@ATTEMPT, an app id or a handle."""
EXAMPLES = """\
  launcher status train
  launcher status train@3
  launcher status local_cwd://vision/train-3-k3fwx --json"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("app", metavar="APP", nargs="?", help="the app; all that run without it")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Any, console: Console) -> int:
    if args.app is None:
        return _live(args, console)
    from launcher.inventory.find import whole
    from launcher.inventory.status import inspect

    found = inspect(whole(args.app))
    if args.json:
        from json import dumps

        from launcher.cli.render.apps import status_json

        console.print(dumps(status_json(found), indent=2))
        return 0
    from launcher.cli.render.status_text import status_text

    console.print(status_text(found, color=console.color))
    return 0


def _live(args: Any, console: Console) -> int:
    from launcher.cli.render.apps import app_json, apps_table
    from launcher.inventory.listing import live

    apps = live(warn=console.warn)
    if args.json:
        from json import dumps

        console.print(dumps(list(map(app_json, apps)), indent=2))
    elif apps:
        console.print(apps_table(apps, color=console.color, columns=console.columns))
    else:
        console.note("nothing is running; `launcher list` shows what has ended")
    return 0
