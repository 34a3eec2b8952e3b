"""Ask again until the answer is the one that is waited for."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

_FIRST_POLL_S = 0.05
_LAST_POLL_S = 5.0


def poll(ask: Callable[[], T | None], is_over: Callable[[T], bool], timeout_s: float | None) -> T | None:
    """Ask at growing intervals; returns the first answer that is over or None, or that after `timeout_s`."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    interval = _FIRST_POLL_S
    while True:
        answer = ask()
        left = None if deadline is None else deadline - time.monotonic()
        if answer is None or is_over(answer) or (left is not None and left <= 0):
            return answer
        time.sleep(interval if left is None else min(interval, left))
        interval = min(interval * 1.5, _LAST_POLL_S)
