"""Render the shares of this machine that apps hold, and the apps in line, as text and as JSON."""

from __future__ import annotations

from launcher.cli.render.tables import GAP, table, text_of, width
from launcher.cli.render.values import shortened
from launcher.folds import fold, named
from launcher.text import memory, paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Any

    from launcher.cli.render.tables import Cell
    from launcher.inventory.turns import InLine, Tables
    from launcher.turns.line import Ticket
    from launcher.turns.machine import Machine

    Left = Mapping[tuple[int, str, str], Sequence[int]]  # place of a dead holder's ticket → pids that keep it

_OPTIONAL = (3, 4, 2)  # columns of the line that are dropped on a narrow terminal, in this order
_REASON = 30  # columns reserved for reasons
_LEAST = 12  # shorter reasons are omitted
_MOST_IDS = 24  # characters; more GPUs are only counted
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
    """Slots, holders and line, without a newline at the end.

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
            {**_json(each, tables), "is_left": each.is_left, "left_pids": [*left.get(each.place, ())]}
            for each in tables.holders
        ],
        "line": [
            {**_json(each.ticket, tables), "position": each.position, "message": each.why}
            for each in tables.line
        ],
    }


def _json(ticket: Ticket, tables: Tables) -> dict[str, Any]:
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
    return table(
        ["THE ENGINE" if tables.engine else "THIS MACHINE", "HAS", "HELD", "FREE"], rows, color=color
    )


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
        _fit(headings, rows, columns)
    return table(headings, rows, color=color)


def _fit(headings: Sequence[str], rows: list[list[Cell]], columns: int) -> None:
    """Blank the columns that the reasons repeat, and cut reasons until lines fit."""
    for column in _OPTIONAL:
        if _left(headings, rows, columns) >= _REASON:
            break
        for row in rows:
            row[column] = ""
    left = _left(headings, rows, columns)
    for row in rows:
        row[-1] = shortened(text_of(row[-1]), left) if left >= _LEAST else ""


def _left(headings: Sequence[str], rows: list[list[Cell]], columns: int) -> int:
    """The columns that are left for reasons."""
    cells = [[text_of(row[c]) for row in rows] for c in range(len(headings) - 1)]
    sizes = [
        max(map(width, (heading, *each))) for heading, each in zip(headings, cells, strict=False) if any(each)
    ]
    return columns - sum(sizes) - len(GAP) * len(sizes)


def _asks(ticket: Ticket) -> list[str]:
    """Cores, memory, and the ids of GPUs or their number."""
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
    """`2 (0, 1)`; without ids where they are long, as UUIDs are."""
    text = ", ".join(gpus)
    return f"{len(gpus)} ({text})" if text and len(text) <= _MOST_IDS else str(len(gpus))


def _held(tables: Tables) -> tuple[float, int]:
    """Cores and MiB that apps of this table hold."""
    own = [each for each in tables.holders if not tables.is_elsewhere(each)]
    return sum(each.cpu for each in own), sum(each.memory_mb for each in own)


def _holders_of(gpu: str, tables: Tables) -> list[str]:
    return [each.app for each in tables.holders if gpu in each.dealt]
