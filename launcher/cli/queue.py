"""`launcher queue`: show what apps hold of this machine, and who is in line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.inventory.turns import Tables
    from launcher.turns.machine import Machine

USAGE = "queue [--all] [--json]"
HELP = """\
Show the cores, memory and GPUs of this machine, the apps that hold some, and
the apps in line, in the order of their turns, with what each waits for.

Apps take turns with those of the same state folder (LAUNCHER_HOME). For turns
across state folders, set LAUNCHER_SLOTS to one folder for all of them. GPUs are
shared by all apps of a user in any case. Apps that ask for no cores, memory or
GPUs take no turns and are not listed.

Apps with `watcher: engine` take turns at their engine, whichever machine they
come from. Its table comes last, while an app has a share or waits for one."""
EXAMPLES = """\
  launcher queue
  launcher queue --json | jq -r '.line[].app_id'
  launcher start train --now     take it out of the line: start it at once"""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "-a", "--all", action="store_true", help="show every app of a large matrix on a line of its own"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Any, console: Console) -> int:
    from launcher.inventory.turns import Tables, of_engines

    tables, engines = Tables.read(), of_engines()
    if args.json:
        from json import dumps

        document = _json(tables)
        document["engines"] = [{"engine": each.engine, **_json(each)} for each in engines]
        console.print(dumps(document, indent=2))
        return 0
    shown = (
        as_text(each, in_full=args.all, color=console.color, columns=console.columns)
        for each in (tables, *engines)
    )
    console.print("\n\n".join(shown))
    for note in notes(tables):
        console.note(note)
    return 0


def as_text(tables: Tables, *, in_full: bool, color: bool, columns: int | None) -> str:
    """Return the tables as text; see `queue_text`."""
    from launcher.cli.render.queue_text import queue_text
    from launcher.inventory.recorded import families as families_of

    families = {} if in_full else families_of([each.ticket.app for each in tables.line])
    left, has = _cleared(tables), _machine(tables)
    return queue_text(has, tables, left, families=families, color=color, columns=columns)


def _json(tables: Tables) -> dict[str, Any]:
    from launcher.cli.render.queue_text import queue_json

    return queue_json(_machine(tables), tables, _cleared(tables))


def _machine(tables: Tables) -> Machine:
    """Return the machine of the tables; of an engine's one, the GPUs are those that were dealt out."""
    from launcher.turns.machine import machine

    if tables.machine is None:
        return machine(with_gpus=True)
    dealt = dict.fromkeys(gpu for each in tables.holders for gpu in each.dealt)
    return tables.machine._replace(gpus=tuple(dealt))


def _cleared(tables: Tables) -> dict[tuple[int, str, str], list[int]]:
    """Return the processes that keep the shares of dead holders, and have those shares cleared.

    An engine has had those of its machine looked at when it was asked.
    """
    if tables.engine:
        return {}
    from launcher.inventory.turns import have_cleared, left_by

    left = {each.place: left_by(each) for each in tables.holders if each.is_left}
    if left:
        have_cleared(tables)
    return left


def notes(tables: Tables) -> list[str]:
    import os
    import sys

    if sys.platform != "linux":
        return ["apps take turns on Linux only: here they all start at once"]
    notes = [] if tables.holders or tables.line else ["no app holds a part of this machine or waits for one"]
    if not os.environ.get("LAUNCHER_SLOTS"):
        notes.append("only apps of this LAUNCHER_HOME count; LAUNCHER_SLOTS names a table for several")
    return notes
