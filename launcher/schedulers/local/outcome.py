"""The outcome of an app, for the supervisor that decides it and for the readers of its record.

Next to nothing is imported here: the supervisor must stay small.
"""

from __future__ import annotations

from launcher.schedulers.last_line import exited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

WITHDRAWN = "withdrawn"
"""The message of a skipped app that a client has withdrawn while it waited."""

INTERRUPT = "interrupt "
"""Prefix of a cancel file whose writer was attached to the app."""


class AppOutcome:
    """The outcome of an app. `state` "": the submission was undone, so there is no outcome.

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


def failure(name: str, code: int, signal: int, *, oom: bool, late: str = "", said: str = "") -> AppOutcome:
    """The outcome of an app that failed with its replica `name` (ROLE/K). `code`: 128 + signal after one.

    `late`: why it was stopped, if it was not ready in time. `said`: the last line of its stderr.
    """
    if late:
        return AppOutcome("failed", f"{name} was {late}", code)
    if not signal:
        return AppOutcome("failed", f"{name} {exited(code, said)}", code)
    memory = "; the machine was out of memory" if oom else ""
    return AppOutcome("failed", f"{name} was killed by signal {signal}{memory}", code)


def cancellation(by: str) -> AppOutcome:
    """The outcome of an app that a client cancelled. `by` is the first line of its cancel file."""
    if by.startswith(INTERRUPT):
        return AppOutcome("cancelled", f"interrupted by {by[len(INTERRUPT) :]}")
    return AppOutcome("cancelled", f"cancelled by {by}" if by else "cancelled")
