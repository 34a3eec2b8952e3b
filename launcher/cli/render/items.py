"""Apps as a table."""

from __future__ import annotations

import time

from launcher.cli.render.tables import GAP, table, text_of, width
from launcher.cli.render.values import ago, shortened, state_cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from launcher.cli.inventory import Item
    from launcher.cli.render.tables import Cell

_HEADINGS = ("NAME", "ATTEMPT", "STATE", "CREATED", "TOOK", "APP", "WHY")
_LEFT_OUT = (1, 4, 3, 0)  # what goes first on a narrow terminal: much of it is in the handle, or in `status`
_LEAST = 12  # columns in which a reason still says something


def items_table(items: Sequence[Item], *, color: bool, columns: int | None = None) -> str:
    """One line per app.

    Args:
        columns: what a line must fit in, if it can: handles are never cut, since they are copied.
    """
    now = time.time()
    rows: list[list[Cell]] = [
        [
            (item.name, "bold"),
            "" if item.attempt is None else str(item.attempt),
            state_cell(item.state),
            ago(item.created_at, now),
            item.took(now),
            item.handle,
            item.message,
        ]
        for item in items
    ]
    if columns is not None:
        _fit(rows, columns)
    return table(_HEADINGS, rows, color=color)


def _fit(rows: list[list[Cell]], columns: int) -> None:
    """Cut the reasons, then leave columns out: one that is empty in every row is not shown."""
    for dropped in (None, *_LEFT_OUT):
        for row in rows if dropped is not None else ():
            row[dropped or 0] = ""
        if _width(rows) <= columns:
            break
    left = columns - _width(rows) - len(GAP)
    for row in rows:
        row[-1] = shortened(str(row[-1]), left) if left >= _LEAST else ""


def _width(rows: list[list[Cell]]) -> int:
    """Of a line without its reason."""
    columns = [[text_of(row[c]) for row in rows] for c in range(len(_HEADINGS) - 1)]
    sizes = [
        max(map(width, (heading, *cells)))
        for heading, cells in zip(_HEADINGS, columns, strict=False)
        if any(cells)
    ]
    return sum(sizes) + len(GAP) * (len(sizes) - 1)
