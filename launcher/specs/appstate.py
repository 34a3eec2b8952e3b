"""The states of an app and of a replica. Separate from status.py because every command needs them."""

from __future__ import annotations

from enum import Enum


class AppState(int, Enum):
    """The state of an app or of a replica, from its submission to its end."""

    UNSUBMITTED = 0
    SUBMITTED = 1
    PENDING = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLED = 6
    UNKNOWN = 7

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.name} ({self.value})"


ReplicaState = AppState

_TERMINAL_STATES: list[AppState] = [AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED]
_STARTED_STATES: list[AppState] = [*_TERMINAL_STATES, AppState.RUNNING]


def is_terminal(state: AppState) -> bool:
    """Whether it has ended."""
    return state in _TERMINAL_STATES


def is_started(state: AppState) -> bool:
    """Whether it runs or has ended, so that there may be logs."""
    return state in _STARTED_STATES
