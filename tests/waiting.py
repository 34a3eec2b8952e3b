"""Waiting for what other processes do, where nothing reports it: the test looks again and again."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 150.0
"""How long anything may take, beside many other tests."""
_PAUSE_S = 0.05


def until(happened: Callable[[], T], shown: Callable[[], object] = str) -> T:
    """Wait until something is true, and return it. `shown` is what a failure shows."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := happened()):
        assert time.monotonic() < deadline, f"it did not happen in time: {shown()}"
        time.sleep(_PAUSE_S)
    return found
