"""SIGTERM as an exception, for the commands that have something to give back before they go."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Terminated(BaseException):
    """SIGTERM came. Like KeyboardInterrupt, no `except Exception` may swallow it."""


def terminate_with_exception() -> None:
    """From here on SIGTERM raises Terminated in the main thread, so that `finally` blocks run."""
    import signal

    signal.signal(signal.SIGTERM, _terminated)


def _terminated(_signal: int, _frame: object) -> NoReturn:
    raise Terminated
