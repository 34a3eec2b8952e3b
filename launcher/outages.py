"""Report that an engine which this process follows went away: once for each outage."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable

report: Callable[[str], None] | None = None
"""Shows a line to the user; set by commands that follow apps. It is called from any thread."""
_away: set[str] = set()
_lock = allocate_lock()


def lost(engine: str, why: str) -> None:
    """Report that an engine does not answer, unless this outage was reported already."""
    with _lock:
        if engine in _away:
            return
        _away.add(engine)
    if report is not None:
        report(f"{why}; waiting for it to answer again, Ctrl-C stops that")


def back(engine: str) -> None:
    """Note that an engine has answered, so that its next failure is another outage."""
    with _lock:
        _away.discard(engine)
