"""Render tables: columns padded to their widest cell, without borders; measure and wrap text."""

from __future__ import annotations

from launcher.cli.console import visible
from launcher.text import paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

Cell = str | tuple[str, str]  # text, or (text, style)

GAP = "  "


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, color: bool = False) -> str:
    """The rows under their headings, one line each, without a newline at the end.

    Columns that are empty in every row are left out.
    """
    lines: list[Sequence[Cell]] = [[(heading, "dim") for heading in headings], *rows]
    columns = list(zip(*lines, strict=True))
    filled = [cells for cells in columns if any(map(text_of, cells[1:]))] or columns
    padded = [_padded(cells, color) for cells in filled]
    return "\n".join(GAP.join(line).rstrip() for line in zip(*padded, strict=True))


def _padded(cells: Sequence[Cell], color: bool) -> list[str]:
    """The cells of a column, painted, and with spaces up to the width of the widest one."""
    texts = [text_of(cell) for cell in cells]
    widths = [width(text) for text in texts]
    widest = max(widths)
    return [
        (text if isinstance(cell, str) else paint(text, cell[1], color)) + " " * (widest - size)
        for cell, text, size in zip(cells, texts, widths, strict=True)
    ]


def wrapped(text: str, columns: int) -> list[str]:
    """Wrap a text to lines of at most `columns`; a longer word gets a line of its own."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and width(f"{lines[-1]} {word}") <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def text_of(cell: Cell) -> str:
    """The text of a cell on one line, escaped as the console shows it."""
    text = cell if isinstance(cell, str) else cell[0]
    return text if text.isprintable() else visible(text.replace("\t", " ")).replace("\n", "\\n")


def width(text: str) -> int:
    """The columns that `text` takes on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
