"""`launcher queue`: show what apps hold of this machine, and who is in line."""

from __future__ import annotations

from launcher.cli.render.values import fit, table
from launcher.text import FEW, fold, memory, named, paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Any

    from launcher.cli.console import Console
    from launcher.cli.render.values import Cell
    from launcher.inventory.turns import InLine, Tables
    from launcher.turns.line import Ticket
    from launcher.turns.machine import Machine

    Left = Mapping[tuple[int, str, str], Sequence[int]]  # place of a dead holder's ticket → pids that keep it

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
    parser.option("-a, --all", "show every app of a large matrix on a line of its own")
    parser.option("--json", "print one JSON object")


def run(args: Any, console: Console) -> int:
    from launcher.inventory.turns import Tables, of_engines

    tables, engines = Tables.read(), of_engines()
    if args.json:
        document = _json(tables)
        document["engines"] = [{"engine": each.engine, **_json(each)} for each in engines]
        console.json(document, ascii=True)
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
    """Return the tables as text, matrices folded unless `in_full`."""
    from launcher.inventory.recorded import apps

    known = {} if in_full or len(tables.line) <= FEW else apps(each.ticket.app for each in tables.line)
    families = {app_id: app.job_file for app_id, app in known.items()}
    left, has = _cleared(tables), _machine(tables)
    return queue_text(has, tables, left, families=families, color=color, columns=columns)


def _json(tables: Tables) -> dict[str, Any]:
    return queue_json(_machine(tables), tables, _cleared(tables))


def _machine(tables: Tables) -> Machine:
    """Return the machine of the tables. For an engine's machine, its GPUs are those in use."""
    from launcher.turns.machine import machine

    if tables.machine is None:
        return machine(with_gpus=True)
    dealt = dict.fromkeys(gpu for each in tables.holders for gpu in each.dealt)
    return tables.machine._replace(gpus=tuple(dealt))


def _cleared(tables: Tables) -> dict[tuple[int, str, str], list[int]]:
    """Return the processes that keep the shares of dead holders, and let those shares be cleared.

    An engine clears the shares of its machine when it is asked for its tables.
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


_OPTIONAL = (3, 4, 2)  # columns of the line that are dropped on a narrow terminal, in this order
_REASON = 30  # columns reserved for reasons
_LEAST = 12  # reasons get no fewer columns
_MOST_IDS = 24  # characters of GPU ids; longer lists of ids become a number
_ELSEWHERE = "another table"
_OF_OTHERS = "another state folder"
_UNSEEN = "processes that cannot be seen from here"


def queue_text(
    has: Machine,
    tables: Tables,
    left: Left,
    *,
    families: Mapping[str, Hashable] | None = None,
    color: bool,
    columns: int | None = None,
) -> str:
    """Return slots, holders and line, without a newline at the end.

    Args:
        families: app id → its job file; the many apps of one file with the same request share a line.
        columns: width that lines fit if possible. App ids are never cut: users copy them.
    """
    parts = [_slots(has, tables, color)]
    if tables.holders:
        rows = [[each.app, *_asks(each), _note(each, tables, left)] for each in tables.holders]
        parts.append(table(["HOLDS ITS SHARE", "CORES", "MEMORY", "GPUS", "NOTE"], rows, color=color))
    if tables.line:
        parts.append(_line(tables.line, families or {}, color, columns))
    where = f"the engine {tables.engine}" if tables.engine else tables.folder
    parts.append(f"{paint('table', 'dim', color)}  {where}")
    return "\n\n".join(parts)


def queue_json(has: Machine, tables: Tables, left: Left) -> dict[str, Any]:
    """The JSON of `queue`."""
    cpu, memory_mb = _held(tables)
    return {
        "table": tables.folder,
        "gpu_table": tables.gpu_folder,
        "slots": {
            "cpu": {"total": has.cpu, "held": cpu},
            "memory_mb": {"total": has.memory_mb, "held": memory_mb},
            "gpus": [{"id": each, "held_by": _holders_of(each, tables)} for each in has.gpus],
        },
        "holders": [
            {**_ticket_json(each, tables), "is_left": each.is_left, "left_pids": [*left.get(each.place, ())]}
            for each in tables.holders
        ],
        "line": [
            {**_ticket_json(each.ticket, tables), "position": each.position, "message": each.why}
            for each in tables.line
        ],
    }


def _ticket_json(ticket: Ticket, tables: Tables) -> dict[str, Any]:
    return {
        "app_id": ticket.app,
        "cpu": ticket.cpu,
        "memory_mb": ticket.memory_mb,
        "gpus": ticket.gpus,
        "gpu_ids": list(ticket.dealt),
        "groups": list(ticket.groups),
        "elsewhere": tables.is_elsewhere(ticket),
        "mine": tables.is_mine(ticket),
    }


def _slots(has: Machine, tables: Tables, color: bool) -> str:
    cpu, memory_mb = _held(tables)
    rows: list[list[Cell]] = [
        ["cores", f"{has.cpu:g}", f"{cpu:g}", f"{max(0, has.cpu - cpu):g}"],
        ["memory", memory(has.memory_mb), memory(memory_mb), memory(max(0, has.memory_mb - memory_mb))],
    ]
    if has.gpus:
        held = [each for each in has.gpus if _holders_of(each, tables)]
        free = [each for each in has.gpus if each not in held]
        rows.append(["GPUs", _ids(has.gpus), _ids(held), _ids(free)])
    elif not tables.engine:
        rows.append(["GPUs", "0", "0", "0"])
    title = "THE ENGINE" if tables.engine else "THIS MACHINE"
    return table([title, "HAS", "HELD", "FREE"], rows, color=color)


def _line(line: Sequence[InLine], families: Mapping[str, Hashable], color: bool, columns: int | None) -> str:
    lines = fold(
        line,
        family_of=lambda each: families.get(each.ticket.app),
        kind_of=lambda each: tuple(_asks(each.ticket)),
        matters=lambda each: False,
    )
    rows: list[list[Cell]] = [
        [
            str(each[0].position),
            (named([one.ticket.app for one in each]), "bold"),
            *_asks(each[0].ticket),
            each[0].waits_for,
        ]
        for each in lines
    ]
    headings = ["LINE", "APP", "CORES", "MEMORY", "GPUS", "WAITS FOR"]
    if columns is not None:
        shorter = ((column, [""] * len(rows)) for column in _OPTIONAL)
        fit(headings, rows, columns, shorter, wanted=_REASON, least=_LEAST)
    return table(headings, rows, color=color)


def _asks(ticket: Ticket) -> list[str]:
    """Return the cores, the memory, and the GPUs of a request by ids or number."""
    return [
        f"{ticket.cpu:g}" if ticket.cpu else "",
        memory(ticket.memory_mb) if ticket.memory_mb else "",
        _ids(ticket.dealt) if ticket.dealt else str(ticket.gpus or ""),
    ]


def _note(ticket: Ticket, tables: Tables, left: Left) -> str:
    """Return the owner of a ticket of another table or user, and what keeps the share of a dead holder."""
    where = _ELSEWHERE if tables.is_elsewhere(ticket) else "" if tables.is_mine(ticket) else _OF_OTHERS
    if not ticket.is_left:
        return where
    if ticket.engine:
        why = "its watcher has died: until its engine says that it has ended"
    else:
        pids = left.get(ticket.place, ())
        found = f"pid {', '.join(map(str, pids))}" if pids else _UNSEEN
        why = f"its supervisor has died and left {found}"
    return f"{where}; {why}" if where else why


def _ids(gpus: Sequence[str]) -> str:
    """Return `2 (0, 1)`; only the number if ids are long, like UUIDs."""
    text = ", ".join(gpus)
    return f"{len(gpus)} ({text})" if text and len(text) <= _MOST_IDS else str(len(gpus))


def _held(tables: Tables) -> tuple[float, int]:
    """Return the cores and MiB that apps of this table hold."""
    own = [each for each in tables.holders if not tables.is_elsewhere(each)]
    return sum(each.cpu for each in own), sum(each.memory_mb for each in own)


def _holders_of(gpu: str, tables: Tables) -> list[str]:
    return [each.app for each in tables.holders if gpu in each.dealt]
