"""Widgets: the list of jobs, scrolling texts and single lines. Each draws only its visible lines."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from launcher.cli.top.model import HEADINGS, Cell, Jobs, Layout, cells
from launcher.state.records import AppRecord

_PLAIN = Console(color_system=None, width=1000, legacy_windows=False)
"""Turns texts into segments; draws nothing itself."""
_FOUND = "black on yellow"
_LONGEST = 10_000  # the most characters of a line that are shown

MOVES: list[BindingType] = [
    Binding("up,k", "move(-1)", show=False),
    Binding("down,j", "move(1)", show=False),
    Binding("pageup,ctrl+b", "page(-1)", show=False),
    Binding("pagedown,ctrl+f", "page(1)", show=False),
    Binding("home,g", "far(-1)", show=False),
    Binding("end,G", "far(1)", show=False),
]


@lru_cache
def style_of(name: str) -> Style:
    return Style.parse(name or "none")


def strip_of(parts: Sequence[Cell], columns: int, over: str = "") -> Strip:
    """A line of parts, cut or filled to its columns. `over`: a style that replaces the parts' styles."""
    segments = [Segment(text, style_of(over or style)) for text, style in parts if text]
    return Strip(segments).adjust_cell_length(columns, style_of(over))


class ScreenLine(Widget):
    """One line of the screen."""

    DEFAULT_CSS = "ScreenLine { height: 1; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._parts: list[Cell] = []

    def show(self, parts: list[Cell]) -> None:
        if parts != self._parts:
            self._parts = parts
            self.refresh()

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self._parts)

    def render_line(self, y: int) -> Strip:
        return strip_of(self._parts, self.size.width)


class JobList(ScrollView, can_focus=True):
    """The rows of jobs, one of which is under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    class Moved(Message):
        """Another app is under the cursor, or its record has changed."""

    class Missing(Message):
        """Some visible rows are of a page that has not been read."""

    def __init__(self) -> None:
        super().__init__(id="jobs")
        self.jobs = Jobs()
        self.cursor = 0
        self.marks: dict[str, AppRecord] = {}
        self._layout = Layout(80)

    @property
    def apps(self) -> Sequence[AppRecord]:
        """The apps of the row under the cursor."""
        return self.jobs.row(self.cursor) if self.cursor < len(self.jobs) else ()

    @property
    def app_here(self) -> AppRecord | None:
        return self.apps[0] if self.apps else None

    def on_resize(self) -> None:
        self._layout = Layout(self.columns)
        self.changed()

    @property
    def only_project(self) -> str:
        """Return the project and target that all rows share, and so have no column for; "" with several."""
        return self._layout.only_project

    @property
    def columns(self) -> int:
        """Return the columns of a row, without marks and scroll bar."""
        return max(20, self.size.width - 3)

    def changed(self, handle: str = "") -> None:
        """Draw anew after a change of the rows. `handle`: the app to put under the cursor."""
        index = self.jobs.index(handle) if handle else None
        if index is not None:
            self.cursor = index
        self.cursor = max(0, min(self.cursor, len(self.jobs) - 1))
        now = time.time()
        self._layout.fit(cells(apps, self.jobs.limits, now) for apps in self.jobs.loaded())
        self.virtual_size = Size(self.size.width, len(self.jobs))
        self._follow()
        self.refresh()
        self.post_message(self.Moved())

    def forget_widths(self) -> None:
        self._layout = Layout(self.columns)

    def headings(self) -> list[Cell]:
        return [
            ("  ", ""),
            *((text, "dim") for text, _ in self._layout.line([(each, "") for each in HEADINGS])),
        ]

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        width = self.size.width
        if number >= len(self.jobs):
            return Strip.blank(width, style_of(""))
        over = "reverse" if number == self.cursor and (self.has_focus or self.screen.focused is None) else ""
        if number == self.cursor and not over:
            over = "bold"
        apps = self.jobs.row(number)
        if not apps:
            self.post_message(self.Missing())
            return strip_of([("  …", "dim")], width, over)
        mark = "* " if any(app.handle in self.marks for app in apps) else "  "
        row = cells(apps, self.jobs.limits, time.time())
        return strip_of([(mark, "bold yellow"), *self._layout.line(row)], width, over)

    def seen(self) -> tuple[int, int]:
        """Return the first and the last visible row."""
        return self.scroll_offset.y, self.scroll_offset.y + max(1, self.size.height) - 1

    def mark(self, apps: Sequence[AppRecord]) -> None:
        """Mark these apps, or remove their marks if all have one."""
        if all(app.handle in self.marks for app in apps):
            for app in apps:
                del self.marks[app.handle]
        else:
            self.marks.update((app.handle, app) for app in apps)
        self.refresh()

    def action_move(self, rows: int) -> None:
        self._go(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        self._go(self.cursor + pages * max(1, self.size.height - 1))

    def action_far(self, direction: int) -> None:
        self._go(len(self.jobs) if direction > 0 else 0)

    def _go(self, number: int) -> None:
        self.cursor = max(0, min(number, len(self.jobs) - 1))
        self._follow()
        self.refresh()
        self.post_message(self.Moved())

    def _follow(self) -> None:
        first, last = self.seen()
        if self.cursor < first:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor > last:
            self.scroll_to(y=self.cursor - (last - first), animate=False)


class TextPane(ScrollView, can_focus=True):
    """Wrapped lines of coloured text that users can search."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    def __init__(self, *, id: str, columns: int = 0) -> None:
        """`columns`: where lines wrap; 0 for the width of the widget."""
        super().__init__(id=id)
        self._columns = columns
        self._lines: Sequence[str] = ()
        self._rows: list[Text] = []
        self._pattern: re.Pattern[str] | None = None
        self._is_tail = False
        self._is_at_end = True  # as of the last scroll, since a change of size or text does not scroll

    def show(self, lines: Sequence[str], *, is_new: bool = True, is_tail: bool = False) -> None:
        """Show lines that are safe for a terminal.

        Args:
            is_new: whether the lines are another text, which is shown from its beginning.
            is_tail: whether the end of the text is shown instead, and stays in view while it grows.
        """
        if not is_new and lines == self._lines:
            return
        self._lines, self._is_tail, self._is_at_end = lines, is_tail, is_new or self._is_at_end
        self._wrap()
        if is_new and not is_tail:
            self.scroll_to(y=0, animate=False, immediate=True)

    @property
    def text(self) -> str:
        return "\n".join(row.plain for row in self._rows)

    @property
    def height(self) -> int:
        """The number of rows of the whole text."""
        return len(self._rows)

    def on_resize(self) -> None:
        self._wrap()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._is_at_end = new_value >= self.max_scroll_y

    def _wrap(self) -> None:
        width = max(20, (self._columns or self.size.width) - 1)
        self._rows = [row for line in self._lines for row in _wrapped(line[:_LONGEST], width)]
        self.virtual_size = Size(self.size.width, len(self._rows))
        if self._is_tail and self._is_at_end:
            self.scroll_to(y=len(self._rows), animate=False, immediate=True, force=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        width = self.size.width
        if number >= len(self._rows):
            return Strip.blank(width, style_of(""))
        row = self._rows[number]
        if self._pattern is not None and self._pattern.search(row.plain):
            row = row.copy()
            row.highlight_regex(self._pattern, _FOUND)
        segments = [each for each in row.render(_PLAIN) if each.text]
        return Strip(segments).adjust_cell_length(width, style_of(""))

    # Search

    def search(self, pattern: str) -> int:
        """Mark the matches and go to the last one; return the number of lines that have one.

        Raises re.error. Ignores case where the pattern has no capital.
        """
        flags = re.IGNORECASE if pattern == pattern.lower() else 0
        self._pattern = re.compile(pattern, flags) if pattern else None
        self.refresh()
        found = self._found()
        if found:
            self.scroll_to(y=found[-1] - self.size.height // 2, animate=False)
        return len(found)

    def _found(self) -> list[int]:
        pattern = self._pattern
        return [n for n, row in enumerate(self._rows) if pattern.search(row.plain)] if pattern else []

    def action_match(self, direction: int) -> None:
        """Go to the next match above (-1) or below (1) the middle of the visible lines."""
        middle = self.scroll_offset.y + self.size.height // 2
        found = [n for n in self._found() if (n - middle) * direction > 0]
        if found:
            to = found[0] if direction > 0 else found[-1]
            self.scroll_to(y=to - self.size.height // 2, animate=False)

    def action_move(self, rows: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False)

    def action_page(self, pages: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + pages * max(1, self.size.height - 1), animate=False)

    def action_far(self, direction: int) -> None:
        self.scroll_to(y=len(self._rows) if direction > 0 else 0, animate=False)


def _wrapped(line: str, width: int) -> Sequence[Text]:
    if "\x1b" not in line and len(line) <= width and line.isascii():
        return (Text(line),)
    text = Text.from_ansi(line)
    if cell_len(text.plain) <= width:
        return (text,)
    indent = len(text.plain) - len(text.plain.lstrip())
    return [*text.wrap(_PLAIN, width, tab_size=4)] if indent > width // 2 else _hanging(text, width, indent)


def _hanging(text: Text, width: int, indent: int) -> list[Text]:
    """Wrap a long line into rows, all with the indentation of the first one."""
    first, *rest = text.wrap(_PLAIN, width, tab_size=4)
    pad = Text(" " * indent)
    again = text.blank_copy().join(rest) if rest else Text()
    return (
        [first, *(pad + row for row in again.wrap(_PLAIN, width - indent, tab_size=4))] if rest else [first]
    )
