"""`launcher list`: the newest apps and their states."""

from __future__ import annotations

from launcher.cli.kinds import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console

_MOST = 50
_LEAST = 10
_AROUND = 4  # lines of a terminal: the headings, the note below, the prompts

USAGE = "list [OPTIONS]"
HELP = """\
List the newest apps of this user, whatever folder they were applied from: the
attempts of jobs, and what `launcher run` and the Python Runner have started."""
EXAMPLES = """\
  launcher list                 the newest
  launcher list --all --json | jq '.[] | select(.state == "FAILED")'
  launcher list -s local_cwd    of one scheduler; an engine is asked itself"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("-s", "--scheduler", metavar="SCHEDULER", help="only apps of this scheduler")
    parser.add_argument("-n", "--limit", metavar="N", type=count, help="how many (default: 50, at a terminal what it shows)")
    parser.add_argument("-a", "--all", action="store_true", help="all of them")
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(args: Any, console: Console) -> int:
    from launcher.cli.render.apps import app_json, apps_table
    from launcher.inventory.listing import newest

    limit = None if args.all else _default(args, console) if args.limit is None else args.limit
    apps = newest(limit, args.scheduler, warn=console.warn)
    if args.json:
        from json import dumps

        console.print(dumps(list(map(app_json, apps)), indent=2))
        return 0
    if not apps:
        asking = "" if args.scheduler else _others()
        console.note(f"no apps yet; `launcher apply FILE` starts some{asking}")
        return 0
    console.print(apps_table(apps, color=console.color, columns=console.columns))
    if limit is not None and len(apps) == limit:
        console.note(f"the newest {limit}; --all shows all of them")
    return 0


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
