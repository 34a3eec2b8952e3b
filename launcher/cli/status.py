"""`launcher status`: one app with its replicas, or several in a table; without an app, all that run."""

from __future__ import annotations

from launcher.cli.kinds import add_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.inventory.listing import Warn
    from launcher.state.records import AppRecord

USAGE = "status [APP] [OPTIONS]"
HELP = """\
Show an app: its state, its replicas with their exit codes and restarts.
Without APP, every app that is running.

APP is a job's name (its latest attempt), JOB@ATTEMPT, an app id or a handle. A
matrix's name means all of its jobs, a quoted pattern the jobs and app ids that
it matches: these are shown in a table.

With --watch, a live table until they have ended (without APP, until nothing
runs); the exit code is then that of `launcher wait`: 0 when all have succeeded,
5 when one has not, 1 when the scheduler of one cannot be asked. Ctrl-C stops
watching, and nothing else."""
EXAMPLES = """\
  launcher status train
  launcher status train@3
  launcher status train -t docker      its app in target `docker`
  launcher status 'sweep-*' --watch
  launcher status local_cwd://vision/train-3-k3fwx --json"""


_NOTHING = "nothing is running; `launcher list` shows what has ended"


def add_arguments(parser: Any) -> None:
    parser.add_argument("app", metavar="APP", nargs="?", help="the app or apps; all that run without it")
    add_target(parser)
    parser.add_argument("-w", "--watch", action="store_true", help="show a live table until they have ended")
    parser.add_argument("--json", action="store_true", help="print JSON, an array for several apps")


def run(args: Any, console: Console) -> int:
    if args.watch:
        return _watch(args, console)
    if args.app is None:
        return _live(args, console)
    from launcher.inventory.find import wholes
    from launcher.inventory.status import inspect

    found = wholes(args.app, args.target)
    if found.is_group:
        return _group(args, console, found.apps)
    app = inspect(found.apps[0])
    if args.json:
        from json import dumps

        from launcher.cli.render.apps import status_json

        console.print(dumps(status_json(app), indent=2))
        return 0
    from launcher.cli.render.status_text import status_text

    console.print(status_text(app, color=console.color))
    return 0


def _group(args: Any, console: Console, apps: list[AppRecord]) -> int:
    if args.json:
        from json import dumps

        from launcher.cli.render.apps import status_json

        console.print(dumps([status_json(_inspected(app, console)) for app in apps], indent=2))
        return 0
    from launcher.cli.render.apps import in_short
    from launcher.inventory.find import wholes
    from launcher.inventory.listing import present

    given = iter([apps])
    shown = present(lambda: next(given, None) or wholes(args.app, args.target).apps, warn=console.warn)
    _table(console, shown)
    console.print(in_short(shown))
    return 0


def _inspected(app: AppRecord, console: Console) -> AppRecord:
    """The app as it is now; as last seen where its scheduler cannot be asked."""
    from launcher.errors import LauncherError
    from launcher.inventory.status import inspect

    try:
        return inspect(app)
    except LauncherError as error:
        console.warn(f"{app.handle} is shown as last seen: {error}")
        return app


def _live(args: Any, console: Console) -> int:
    apps = _that_run(args, console.warn)
    if args.json:
        from json import dumps

        from launcher.cli.render.apps import app_json

        console.print(dumps(list(map(app_json, apps)), indent=2))
    elif apps:
        _table(console, apps)
    else:
        console.note(_NOTHING)
    return 0


def _that_run(args: Any, warn: Warn | None) -> list[AppRecord]:
    from launcher.inventory.listing import live

    return [app for app in live(warn=warn) if args.target in ("", app.target)]


def _watch(args: Any, console: Console) -> int:
    from launcher.errors import UsageError
    from launcher.inventory.find import wholes

    if args.json:
        raise UsageError("--watch shows a table, and --json prints once", hint="leave one of them out")
    from launcher.cli.live_table import watch

    if args.app is not None:
        return watch(wholes(args.app, args.target).apps, list, console)
    apps = _that_run(args, None)  # the watch says which it cannot look at, once
    if not apps:
        console.note(_NOTHING)
        return 0
    return watch(apps, lambda: _that_run(args, None), console)


def _table(console: Console, apps: Sequence[AppRecord]) -> None:
    from launcher.cli.render.apps import apps_table

    console.print(apps_table(apps, color=console.color, columns=console.columns))
