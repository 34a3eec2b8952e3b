"""Report that an engine which this process follows went away: once for each outage."""

from __future__ import annotations

import math
import time
from _thread import allocate_lock
from collections.abc import Callable

report: Callable[[str], None] | None = None
"""Shows a line to the user. Commands that follow apps set it; any thread may call it."""
_away: set[str] = set()
_ended: dict[str, float] = {}
"""Engine → monotonic time at which its last outage ended."""
_lock = allocate_lock()


def lost(engine: str, why: str, since: float) -> None:
    """Report that an engine does not answer, unless this outage was reported already.

    Args:
        since: the monotonic time of the request or response that failed. One from before the end of an outage
            was broken by that outage, however late its thread notices it.
    """
    with _lock:
        if engine in _away or since < _ended.get(engine, -math.inf):
            return
        _away.add(engine)
    if report is not None:
        report(f"{why}; waiting for it to answer again, Ctrl-C stops that")


def back(engine: str) -> None:
    """Note that an engine has answered, so that its next failure is another outage."""
    with _lock:
        if engine in _away:
            _away.remove(engine)
            _ended[engine] = time.monotonic()
