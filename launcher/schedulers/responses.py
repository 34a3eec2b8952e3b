"""The responses of schedulers: Stream, DescribeAppResponse, ListAppResponse.

Separate from `api`, which loads these names on first use: dataclasses and enum would double the time of
`launcher list`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from launcher.specs.app import NONE, Role
from launcher.specs.status import AppState, RoleStatus

NOT_SET = "<NOT_SET>"

_STATES = {
    "reserved": AppState.SUBMITTED,
    "created": AppState.PENDING,
    "pending": AppState.PENDING,
    "waiting": AppState.PENDING,
    "queued": AppState.PENDING,
    "running": AppState.RUNNING,
    "succeeded": AppState.SUCCEEDED,
    "failed": AppState.FAILED,
    "cancelled": AppState.CANCELLED,
    "skipped": AppState.CANCELLED,
    "lost": AppState.FAILED,
}


def app_state(state: str) -> AppState:
    """The states of records as those of TorchX: a lost app has failed, a skipped one is cancelled."""
    return _STATES.get(state, AppState.UNKNOWN)


class Stream(str, Enum):
    """Which output of a replica: what it wrote to stdout, to stderr, or both in the order of writing."""

    STDOUT = "stdout"
    STDERR = "stderr"
    COMBINED = "combined"

    def __str__(self) -> str:
        return str(self.value)


@dataclass
class DescribeAppResponse:
    """An app in its present state.

    The fields up to `roles` are those of TorchX. `num_restarts` is -1 where it is unknown. Fields of launcher
    follow: `exit_code` of the replica that decided a failure, times in seconds since the epoch, and `output`
    as in AppRecord.
    """

    app_id: str = NOT_SET
    state: AppState = AppState.UNSUBMITTED
    num_restarts: int = -1
    msg: str = NONE
    structured_error_msg: str = NONE
    ui_url: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    roles_statuses: list[RoleStatus] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)

    name: str = ""
    exit_code: int | None = None
    created_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    output: str = ""


@dataclass
class ListAppResponse:
    """One line of a scheduler's list. Lines with the same id and state are equal."""

    app_id: str
    state: AppState
    app_handle: str = field(default=NOT_SET, compare=False)
    name: str = field(default="", compare=False)
    created_at: float | None = field(default=None, compare=False)

    def __hash__(self) -> int:
        return hash((self.app_id, self.state))
