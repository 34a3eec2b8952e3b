"""`launcher list`: the newest apps and their states."""

from __future__ import annotations

from launcher.cli.kinds import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.cli.inventory import Item

USAGE = "list [OPTIONS]"
HELP = """\
List the newest apps of this user, whatever folder they were applied from: the
attempts of jobs, and what `launcher run` and the Python Runner have started."""
EXAMPLES = """\
  launcher list                 the newest 50
  launcher list --all --json | jq '.[] | select(.state == "FAILED")'
  launcher list -s local_cwd    of one scheduler; an engine is asked itself"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("-s", "--scheduler", metavar="SCHEDULER", help="only apps of this scheduler")
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=50, help="how many (default: 50)")
    parser.add_argument("-a", "--all", action="store_true", help="all of them")
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def _items(scheduler: str | None, limit: int | None, console: Console) -> list[Item]:
    from launcher.cli.inventory import LOCAL
    from launcher.cli.present import newest

    if scheduler is None or scheduler in LOCAL:
        return newest(limit, scheduler, warn=console.warn)
    from launcher.cli.asked import asked

    return asked(scheduler)[:limit]


def run(args: Any, console: Console) -> int:
    limit = None if args.all else args.limit
    items = _items(args.scheduler, limit, console)
    if args.json:
        from json import dumps

        console.print(dumps([item.to_json() for item in items], indent=2))
        return 0
    if not items:
        asking = (
            "" if args.scheduler else "; `launcher list -s local_docker` asks the Docker engine for others"
        )
        console.note(f"no apps yet; `launcher apply FILE` starts some{asking}")
        return 0
    from launcher.cli.render.items import items_table

    console.print(items_table(items, color=console.color, columns=console.columns))
    if limit is not None and len(items) == limit:
        console.note(f"the newest {limit}; --all shows all of them")
    return 0
