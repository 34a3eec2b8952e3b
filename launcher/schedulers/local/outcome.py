"""How an app ends, for the supervisor that decides it and for the readers of its record.

No import here: the supervisor must stay small.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

INTERRUPT = "interrupt "
"""Begins the first line of a cancel file whose writer was attached to the app."""


class Outcome:
    """How an app ended. `state` "" means that it is taken back: no outcome at all.

    Attributes:
        message: why, in a sentence; "" for a success.
        code: exit code of the replica that decided it, None where none did.
    """

    __slots__ = ("code", "message", "state")

    def __init__(
        self,
        state: Literal["succeeded", "failed", "cancelled", ""],
        message: str = "",
        code: int | None = None,
    ) -> None:
        self.state = state
        self.message = message
        self.code = code


def failure(name: str, code: int, signal: int, *, oom: bool) -> Outcome:
    """The outcome of an app that the replica `name` (ROLE/K) has failed. `code` is 128 + signal after one."""
    if not signal:
        return Outcome("failed", f"{name} exited with {code}", code)
    memory = "; the machine was out of memory" if oom else ""
    return Outcome("failed", f"{name} was killed by signal {signal}{memory}", code)


def cancellation(by: str) -> Outcome:
    """The outcome of an app that a client cancelled. `by` is the first line of its cancel file."""
    if by.startswith(INTERRUPT):
        return Outcome("cancelled", f"interrupted by {by[len(INTERRUPT) :]}")
    return Outcome("cancelled", f"cancelled by {by}" if by else "cancelled")
