"""`launcher status`, `describe`: show one app with its replicas, several in a table, all details of one."""

from __future__ import annotations

from launcher.cli.arguments import add_app, add_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.inventory.listing import Warn
    from launcher.state.records import AppRecord


class Status:
    """`launcher status`: show one app with its replicas, several in a table, or all running apps."""

    USAGE = "status [APP] [OPTIONS]"
    HELP = """\
Show an app: its state, and its replicas with their exit codes and restarts.
Without APP, show every running app.

APP is a job name (its latest attempt), JOB@ATTEMPT, an app id (train-3-k3fwx)
or a handle (local_cwd://vision/train-3-k3fwx). A job of another project is
PROJECT/JOB, of a target of it PROJECT.TARGET/JOB. The name of a matrix selects
all of its jobs; a quoted pattern selects the jobs and app ids that it matches.
Several apps are shown in a table, where the many of one job file that are in
the same state share a line.

--watch shows a live table until the apps have ended (without APP, until none
is running): those that run, those that ended in the last minute, and a line
for each group of apps that have not started. Its exit code is that of
`launcher wait`: 0 if all have succeeded, 5 if one has not, 1 if the scheduler
of one cannot be reached. Ctrl-C stops watching; the apps keep running."""
    EXAMPLES = """\
  launcher status train
  launcher status train@3
  launcher status train -t docker      of target `docker`
  launcher status 'sweep-*' --watch
  launcher status local_cwd://vision/train-3-k3fwx --json"""

    @staticmethod
    def add_arguments(parser: Any) -> None:
        parser.add_argument(
            "app", metavar="APP", nargs="?", help="app or apps (default: all that are running)"
        )
        add_target(parser)
        parser.option("-w, --watch", "show a live table until they have ended")
        parser.option("-a, --all", "show every app of a large matrix on a line of its own")
        parser.option("--json", "print JSON: an object; for several apps, and with --watch, an array")

    @staticmethod
    def run(args: Any, console: Console) -> int:
        if args.watch:
            return _watch(args, console)
        if args.app is None:
            return _live(args, console)
        from launcher.cli.render.apps import status_json, status_text
        from launcher.inventory.find import find_apps
        from launcher.inventory.status import inspect

        found = find_apps(args.app, args.target)
        if found.is_group:
            return _group(args, console, found.apps)
        app = inspect(found.apps[0])
        if args.json:
            console.json(status_json(app), ascii=True)
        else:
            console.print(status_text(app, more=_next(app), color=console.color, columns=console.columns))
        return 0


_NONE_RUNNING = "no apps are running; `launcher list` shows those that have ended"


def _next(app: AppRecord) -> dict[str, str]:
    """Return the command that would start a skipped app, and the receivers that lack an outcome."""
    from launcher.state import outbox

    found = {"outcome": "\n".join(outbox.troubles(app.app_id))}
    if app.state == "skipped":
        from launcher.inventory.listing import what_starts

        found["starts"] = what_starts(app)
    return {name: text for name, text in found.items() if text}


def _group(args: Any, console: Console, apps: list[AppRecord]) -> int:
    if args.json:
        from launcher.cli.render.apps import status_json
        from launcher.indented import indented
        from launcher.inventory.status import inspect_all

        console.print(indented(list(map(status_json, inspect_all(apps, console.warn)))))
        return 0
    from launcher.cli.list import show_table
    from launcher.cli.render.apps import in_short
    from launcher.inventory.listing import current, say_why_held

    shown = current(apps, warn=console.warn)
    say_why_held(shown)
    show_table(shown, console, in_full=args.all)
    console.print(in_short(shown))
    return 0


def _live(args: Any, console: Console) -> int:
    apps = _running(args, console.warn)
    if args.json:
        from launcher.cli.render.apps import app_json
        from launcher.indented import indented

        console.print(indented(list(map(app_json, apps))))
    elif apps:
        from launcher.cli.list import show_table

        show_table(apps, console, in_full=args.all)
    else:
        console.note(_NONE_RUNNING)
    return 0


def _running(args: Any, warn: Warn | None) -> list[AppRecord]:
    from launcher.inventory.listing import live

    return [app for app in live(warn=warn) if args.target in ("", app.target)]


def _watch(args: Any, console: Console) -> int:
    from launcher.cli.status_watch import watch
    from launcher.inventory.find import find_apps

    if args.app is not None:
        return watch(find_apps(args.app, args.target).apps, list, console, as_json=args.json)
    apps = _running(args, None)  # the watch warns once about apps that it cannot read
    if not apps:
        console.note(_NONE_RUNNING)
    if not apps and not args.json:
        return 0
    return watch(apps, lambda: _running(args, None), console, as_json=args.json)


class Describe:
    """`launcher describe`: show all details of an app, including its document."""

    USAGE = "describe APP [-t TARGET] [--json]"
    HELP = """\
Show all details of an app: its state, where it came from, the attempts of other
jobs that it stands on, and its document: what runs, in the normal form from
which the digest is computed."""
    EXAMPLES = """\
  launcher describe train
  launcher describe train@2 --json | jq .document"""

    @staticmethod
    def add_arguments(parser: Any) -> None:
        add_app(parser)
        parser.option("--json", "print one JSON object")

    @staticmethod
    def run(args: Any, console: Console) -> int:
        from launcher.cli.render.apps import status_json, status_text
        from launcher.inventory.find import find_app
        from launcher.inventory.status import about, inspect

        app = find_app(args.app, args.target)
        found = inspect(app)
        more = dict(about(app))
        if args.json:
            console.json({**status_json(found), **more})
            return 0
        document = more.pop("document", None)
        facts = {name.replace("_", " "): _text(value) for name, value in more.items() if value}
        console.print(status_text(found, more=facts, color=console.color, columns=console.columns))
        if document:
            from launcher.cli.render.document import flat
            from launcher.text import paint

            console.print("\n" + paint("DOCUMENT", "dim", console.color))
            for line in flat(document):
                console.print(line)
        return 0


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    if isinstance(value, list):  # a list has the states of needs
        return ", ".join(
            f"{each['job']}@{each['attempt']} (edition {each['edition']}"
            f"{', rerun: never' if 'rerun' in each else ''})"
            for each in value
        )
    return str(value)
