"""Show the progress bars of several replicas on a terminal, below their lines."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from launcher.cli.console import OutputClosed, OutputError
from launcher.cli.render.terminal_text import terminal_text
from launcher.text import width

if TYPE_CHECKING:
    from launcher.cli.console import Console

INTERVAL_S = 0.1
"""Minimum time between redraws of frames; lines are shown at once."""

_COLOR = re.compile(r"\x1b\[[0-9;:]*m")
_PIECES = re.compile(
    r"(\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|[\x00-\x1f\x7f-\x9f])"
)


class LiveFrames:
    """Writes lines to a terminal, and below them one row for each replica that draws a progress bar.

    Threads may share it. Call `close` at the end.

    Args:
        write: puts bytes on the terminal at once.
        size: columns and rows of the terminal.
        raw: whether control sequences of lines reach the terminal.
    """

    def __init__(
        self, write: Callable[[bytes], None], size: Callable[[], tuple[int, int]], *, raw: bool = False
    ) -> None:
        self._write = write
        self._raw = raw
        self._size = size
        self._lock = threading.RLock()
        self._frames: dict[Hashable, bytes] = {}
        self._rows = 0  # rows drawn below the lines
        self._drawn_at = -INTERVAL_S
        self._timer: threading.Timer | None = None

    def close(self) -> None:
        """Stop redrawing; frames on the terminal stay visible."""
        with self._lock:
            self._stop_timer()

    def show(self, where: Hashable, lines: bytes, frame: bytes) -> None:
        """Show whole lines of a replica, and its current frame; b"" for none."""
        with self._lock:
            changed = frame != self._frames.get(where, b"")
            if changed:
                self._frames[where] = frame  # a finished progress bar keeps its row
            if lines:
                self._draw(lines if self._raw else terminal_text(lines))
            elif changed:
                left = self._drawn_at + INTERVAL_S - time.monotonic()
                if left <= 0:
                    self._draw()
                elif self._timer is None:
                    self._timer = threading.Timer(left, self._draw_late)
                    self._timer.daemon = True
                    self._timer.start()

    @contextmanager
    def above(self) -> Iterator[None]:
        """Context for other writes to the terminal: they appear above the frames."""
        with self._lock:
            if self._rows:
                self._write(self._erased())
            yield
            self._draw()

    def _draw_late(self) -> None:
        with self._lock:
            if self._timer is threading.current_thread():
                with suppress(
                    OutputClosed, OutputError
                ):  # the next line raises the same error, and its caller handles it
                    self._draw()

    def _draw(self, lines: bytes = b"") -> None:
        """Redraw in one write, so that the terminal does not flicker."""
        self._stop_timer()
        text = self._erased() + lines
        columns, most = self._size()
        frames = [frame for frame in self._frames.values() if frame]
        shown = frames if len(frames) < most else frames[: max(1, most - 2)]
        rows = [cut(frame, columns - 1) for frame in shown]
        if len(shown) < len(frames):
            rows.append(b"... and %d more" % (len(frames) - len(shown)))
        self._rows = len(rows)
        self._drawn_at = time.monotonic()
        text += b"".join(row + b"\n" for row in rows)
        if text:
            self._write(text)

    def _erased(self) -> bytes:
        """The codes that erase the rows and move the cursor to the first of them."""
        rows, self._rows = self._rows, 0
        return b"\r\x1b[%dA\x1b[J" % rows if rows else b""

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def cut(frame: bytes, columns: int) -> bytes:
    """Cut a frame to one row of `columns`: keep its colours, drop codes that move the cursor."""
    pieces: list[str] = []
    left = columns
    colored = False
    for piece in _PIECES.split(frame.decode("utf-8", "replace")):
        if _COLOR.fullmatch(piece):
            pieces.append(piece)
            colored = True
            continue
        if _PIECES.fullmatch(piece):
            piece = " " if piece == "\t" else ""
        size = width(piece)
        while size > left:  # a wide character may be only half visible
            piece = piece[: max(0, len(piece) - max(1, (size - left) // 2))]
            size = width(piece)
        pieces.append(piece)
        left -= size
    return "".join([*pieces, "\x1b[0m" if colored else ""]).encode()


def on_terminal(console: Console, *, raw: bool = False) -> LiveFrames | None:
    """Create one for the terminal on stdout; None without a terminal, or if it cannot move its cursor."""
    if not console.is_screen:
        return None

    def size() -> tuple[int, int]:
        try:
            rows = os.get_terminal_size(1).lines
        except OSError:
            rows = 0
        return console.columns or 80, rows or 24  # a terminal without a size says 0

    return LiveFrames(lambda data: console.copy(data, flush=True), size, raw=raw)
