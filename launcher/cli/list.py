"""`launcher list`: the newest apps and their states."""

from __future__ import annotations

from launcher.cli.kinds import count, several_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console

_MOST = 50
_LEAST = 10
_SEARCHED = 1000  # apps whose projects a misspelt one is compared with
_AROUND = 4  # lines of a terminal: the headings, the note below, the prompts

USAGE = "list [OPTIONS]"
HELP = """\
List the newest apps of this user, whatever folder they were applied from: the
attempts of jobs, and what `launcher run` and the Python Runner have started."""
EXAMPLES = """\
  launcher list                 the newest
  launcher list --all --json | jq '.[] | select(.state == "FAILED")'
  launcher list --state failed,lost --project vision
  launcher list -s local_cwd    of one scheduler; an engine is asked itself"""

STATES = ("reserved", "created", "running", "succeeded", "failed", "cancelled", "lost", "unknown")


def _states(text: str) -> tuple[str, ...]:
    """Also as the list shows them, in capitals."""
    return several_of(*STATES)(text.lower())


def add_arguments(parser: Any) -> None:
    parser.add_argument("-s", "--scheduler", metavar="SCHEDULER", help="only apps of this scheduler")
    parser.add_argument("--project", metavar="PROJECT", help="only apps of this project's jobs")
    parser.add_argument(
        "--state",
        metavar="STATE",
        type=_states,
        default=(),
        help="only apps in this state: running, succeeded, failed, cancelled, lost; several with commas",
    )
    parser.add_argument(
        "-n", "--limit", metavar="N", type=count, help="how many (default: 50, or what the terminal shows)"
    )
    parser.add_argument("-a", "--all", action="store_true", help="all of them")
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(args: Any, console: Console) -> int:
    from launcher.cli.render.apps import app_json, apps_table
    from launcher.inventory.listing import newest

    limit = None if args.all else _default(args, console) if args.limit is None else args.limit
    apps = newest(limit, args.scheduler, project=args.project, states=args.state, warn=console.warn)
    if args.json:
        from json import dumps

        console.print(dumps(list(map(app_json, apps)), indent=2))
        return 0
    if not apps and (args.state or args.project):
        console.note(_none(args))
        return 0
    if not apps:
        asking = "" if args.scheduler else _others()
        console.note(f"no apps yet; `launcher apply FILE` starts some{asking}")
        return 0
    console.print(apps_table(apps, color=console.color, columns=console.columns))
    if limit is not None and len(apps) == limit:
        console.note(f"the newest {limit}; --all shows all of them")
    return 0


def _none(args: Any) -> str:
    """What to say where no app is in the state or of the project that was asked for."""
    from launcher.inventory.recorded import newest
    from launcher.text import did_you_mean

    state = f" is {' or '.join(args.state)}" if args.state else ""
    if not args.project:
        return f"no app{state}"
    near = did_you_mean(args.project, {app.project for app in newest(_SEARCHED) if app.project})
    known = newest(1, project=args.project)
    return f"no app of project `{args.project}`{state}" + (f"; {near}" if near and not known else "")


def _default(args: Any, console: Console) -> int:
    """How many apps to list: at a terminal as many as it shows, so that the newest stay in sight."""
    if args.json or not console.is_terminal:
        return _MOST
    from os import get_terminal_size

    try:
        rows = get_terminal_size(1).lines
    except OSError:
        rows = 0
    return max(_LEAST, min(_MOST, rows - _AROUND)) if rows else _MOST


def _others() -> str:
    """What to type for the apps that only engines know."""
    from launcher.inventory.installed import schedulers
    from launcher.schedulers.registry import DEFAULT_SCHEDULERS

    found = [each for each in schedulers(DEFAULT_SCHEDULERS) if each.shared_engine]
    return "".join(f"; `launcher list -s {e.backend}` asks {e.shared_engine} for others" for e in found)
