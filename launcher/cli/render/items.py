"""Apps as a table."""

from __future__ import annotations

import time

from launcher.cli.render.tables import table
from launcher.cli.render.values import ago, state_cell, took

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from launcher.cli.inventory import Item
    from launcher.cli.render.tables import Cell

_HEADINGS = ("NAME", "ATTEMPT", "STATE", "CREATED", "TOOK", "APP", "WHY")


def items_table(items: Sequence[Item], *, color: bool) -> str:
    """One line per app."""
    now = time.time()
    rows: list[list[Cell]] = [
        [
            (item.name, "bold"),
            "" if item.attempt is None else str(item.attempt),
            state_cell(item.state),
            ago(item.created_at, now),
            took(item.started_at or item.created_at, item.ended_at, now if item.is_live else None),
            item.handle,
            item.message,
        ]
        for item in items
    ]
    return table(_HEADINGS, rows, color=color)
