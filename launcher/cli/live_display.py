"""The live table of one command on stderr: images that are pulled or built, and running apps."""

from __future__ import annotations

import os
import re
import signal
import sys
from _thread import RLock
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from launcher.cli.console import Console
from launcher.specs.jobkey import JobKey
from launcher.text import paint

if TYPE_CHECKING:
    from launcher.cli.render.progress import Progress
    from launcher.state.records import AppRecord

BEGINNINGS = ("pulling", "building", "pushing")
IMAGE_EVENTS = (*BEGINNINGS, "pulled", "built", "pushed")
# Lines that an engine adds to the output of a build: layers, containers, arguments.
_BOOKKEEPING = (
    r" ?---> |Removing intermediate container |Removed intermediate container |Successfully (built|tagged) "
    r"|Step \d+/\d+ : (ARG|LABEL|ENV|WORKDIR) "
)


def image_line(kind: str, facts: Mapping[str, Any], job: str) -> str | None:
    """A line for the start, the build output and the end; None for progress, which only terminals show.

    Args:
        kind, facts: as in `launcher.schedulers.staged.OnImage`.
        job: its name as shown.
    """
    image = facts["image"]
    if facts.get("line"):
        return None if re.match(_BOOKKEEPING, facts["line"]) else f"{job} {image}: {facts['line']}"
    return None if facts.get("done") else f"{job} {kind} {image}"


def image_progress(kind: str, facts: Mapping[str, Any]) -> str:
    """Return `pulling python:3.12 12 of 48 MB`, for a terminal; "" when done."""
    if kind not in BEGINNINGS:
        return ""
    done, total = facts.get("done") or 0, facts.get("total") or 0
    much = f" {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else ""
    return f"{kind} {facts['image']}{much}{'  ' if facts.get('line') else ''}{facts.get('line', '')}"


_SHOW_CURSOR, _HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"


class LiveDisplay:
    """A table that opens with its first row, and messages above it. A context manager; threads may share it.

    Args:
        note: shows a message while there is no table; the console's own by default.
    """

    def __init__(self, console: Console, note: Callable[[str], None] | None = None) -> None:
        self._console = console
        self._note = note or console.note
        self._lock = RLock()
        self._progress: Progress | None = None
        self._catches = False

    def __enter__(self) -> LiveDisplay:
        if self._console.err_is_screen and signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            with suppress(ValueError):  # a program runs this command line in another thread
                signal.signal(signal.SIGTSTP, self._suspend)
                self._catches = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._catches:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        self.close()

    def _suspend(self, *_: object) -> None:
        """Suspend this process, as Ctrl-Z asks. The shell has the cursor meanwhile, which the table hides."""
        os.write(sys.stderr.fileno(), _SHOW_CURSOR)  # also while a table is being opened
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # returns when the process is continued
        signal.signal(signal.SIGTSTP, self._suspend)
        if self._progress is not None:
            os.write(sys.stderr.fileno(), _HIDE_CURSOR)

    def close(self) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress.__exit__()
                self._progress = None

    def say(self, line: str) -> None:
        """Show a message."""
        with self._lock:
            if self._progress is None:
                self._note(line)
            else:
                self._progress.say(line)

    def update(self, key: JobKey, app: AppRecord) -> None:
        """Show the present state of an app."""
        with self._lock:
            self._open().update(key, app)

    def image(self, key: JobKey, kind: str, facts: Mapping[str, Any]) -> None:
        """Show the progress of an image: in the table on a terminal, else in lines.

        Args:
            kind, facts: as in `launcher.schedulers.staged.OnImage`.
        """
        if self._console.err_is_screen:
            with self._lock:
                if not self._open().image(key, facts["image"], image_progress(kind, facts)):
                    self.close()
            if kind in BEGINNINGS:
                return
        line = image_line(kind, facts, paint(key.job, "bold", self._console.err_color))
        if line is not None:
            self.say(line)

    def forget(self, key: JobKey) -> None:
        """Remove the images of a job that could not be applied."""
        with self._lock:
            if self._progress is not None:
                self._progress.forget(key)

    def _open(self) -> Progress:
        if self._progress is None:
            from launcher.cli.render.progress import Progress

            self._progress = Progress().__enter__()
        return self._progress
