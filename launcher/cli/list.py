"""`launcher list`: list the newest apps and their states."""

from __future__ import annotations

from launcher.cli.arguments import add_project, positive, several_of
from launcher.state.records import ENDED, LIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.state.records import AppRecord

_MOST = 50
_LEAST = 10
_SEARCHED = 1000  # newest apps whose projects are suggested for a misspelt project
_AROUND = 4  # terminal lines for headings, the note below the table, and prompts

USAGE = "list [OPTIONS]"
HELP = """\
List your newest apps, applied from any folder: the attempts of jobs, and the
apps that `launcher run` and the Python Runner have started."""
EXAMPLES = """\
  launcher list                 the newest
  launcher list --all --json | jq '.[] | select(.state == "FAILED")'
  launcher list --state failed,lost --project vision
  launcher list -s local_docker   also apps that only the engine knows"""

_IN_STATE = {
    "succeeded": "has succeeded",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "skipped": "was skipped",
    "lost": "was lost",
    "unknown": "is in an unknown state",
}
STATES = (*LIVE, *ENDED, "unknown")


def _states(text: str) -> tuple[str, ...]:
    """Parse states in upper or lower case: the table shows them in capitals."""
    return several_of(*STATES)(text.lower())


def add_arguments(parser: Any) -> None:
    parser.option("-s, --scheduler SCHEDULER", "only apps of this scheduler")
    add_project(parser)
    parser.option(
        "--state STATE",
        "only apps in these states (comma-separated): waiting, queued, running, succeeded, failed,"
        " cancelled, skipped, lost",
        type=_states,
        default=(),
    )
    limit = "number of apps (default: 50, or what fits on the terminal)"
    parser.option("-n, --limit N", limit, type=positive)
    parser.option("-a, --all", "list all apps, each on a line of its own")
    parser.option("--json", "print a JSON array")


def run(args: Any, console: Console) -> int:
    from launcher.inventory.listing import newest

    limit = None if args.all else _default(args, console) if args.limit is None else args.limit
    apps = newest(limit, args.scheduler, project=args.project, states=args.state, warn=console.warn)
    if args.json:
        from launcher.cli.render.apps import app_json

        console.json(list(map(app_json, apps)), ascii=True)
        return 0
    if not apps and (args.state or args.project):
        console.note(_none(args))
        return 0
    if not apps:
        others = "" if args.scheduler else _others()
        console.note(f"no apps yet; `launcher apply FILE` starts one{others}")
        return 0
    show_table(apps, console, in_full=args.all)
    if limit is not None and len(apps) == limit:
        console.note(f"showing the newest {limit}; --all lists all")
    return 0


def show_table(apps: Sequence[AppRecord], console: Console, *, in_full: bool) -> None:
    """Print apps, a line for each; the many of one job file that are alike share a line unless `in_full`."""
    from launcher.cli.render.apps import apps_table

    console.print(apps_table(apps, in_full=in_full, color=console.color, columns=console.columns))


def _none(args: Any) -> str:
    """Return the message for an empty list with --state or --project."""
    from launcher.inventory.recorded import newest
    from launcher.text import did_you_mean

    state = " or ".join(_IN_STATE.get(state, f"is {state}") for state in args.state)
    if not args.project:
        return f"no app {state}"
    near = did_you_mean(args.project, {app.project for app in newest(_SEARCHED) if app.project})
    known = newest(1, project=args.project)
    text = f"no app of project `{args.project}` {state}" if state else f"project `{args.project}` has no apps"
    return text + (f"; {near}" if near and not known else "")


def _default(args: Any, console: Console) -> int:
    """Return how many apps to list: at a terminal as many as fit, so that the newest do not scroll off."""
    if args.json or not console.is_terminal:
        return _MOST
    from os import get_terminal_size

    try:
        rows = get_terminal_size(1).lines
    except OSError:
        rows = 0
    return max(_LEAST, min(_MOST, rows - _AROUND)) if rows else _MOST


def _others() -> str:
    """Return the hint on how to list the apps that only shared engines know."""
    from launcher.schedulers.registry import SHARED_ENGINES, imported

    engines = {name: imported(home)() for name, home in SHARED_ENGINES.items()}
    return "".join(
        f"; `launcher list -s {name}` lists apps that only {engine} knows"
        for name, engine in engines.items()
        if engine
    )
