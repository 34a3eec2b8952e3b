"""The status of an app, its roles and its replicas, and its text for users."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

from launcher.dataclass import asdict, dataclass, field
from launcher.errors import LauncherError
from launcher.specs.app import NONE
from launcher.specs.replica_error import ReplicaError, read_error
from launcher.specs.text import to_yaml
from launcher.text import printable


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

_TERMINAL_STATES = [AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED]
_STARTED_STATES = [*_TERMINAL_STATES, AppState.RUNNING]


def is_terminal(state: AppState) -> bool:
    """Whether the app or replica has ended."""
    return state in _TERMINAL_STATES


def is_started(state: AppState) -> bool:
    """Whether the app or replica runs or has ended, so that there may be logs."""
    return state in _STARTED_STATES


@dataclass
class ReplicaStatus:
    """One replica. `id` is its index within the role; times are seconds since the epoch.

    `state` is CANCELLED when its scheduler stopped it, for whatever reason (cancel, a timeout, a peer that
    failed) and with whatever exit code; SUCCEEDED and FAILED are for those that ended by themselves.
    `structured_error_msg` is the JSON text that the replica left behind (`error.json`), or NONE.
    """

    id: int
    state: ReplicaState
    role: str
    hostname: str
    structured_error_msg: str = NONE
    exit_code: int | None = None
    num_restarts: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    message: str = ""


@dataclass
class RoleStatus:
    """The replicas of one role."""

    role: str
    replicas: list[ReplicaStatus]

    def to_json(self) -> dict[str, Any]:
        """The object `{"role": NAME, "replicas": [{field: value}]}`; states are members of AppState."""
        return {"role": self.role, "replicas": [asdict(replica) for replica in self.replicas]}


@dataclass
class AppStatus:
    """The state of an app, and the facts about its outcome.

    Attributes:
        num_restarts: the restarts of all its replicas together; -1 when unknown.
        msg: the reason of the outcome, in a short sentence; NONE, or "", without one.
        structured_error_msg: the JSON text of the replica's error that came first (`error.json`), or NONE.
        ui_url: the address of a page about the app; None without one.
        roles: the replicas, by role in the order of the AppDef.
    """

    state: AppState
    num_restarts: int = 0
    msg: str = ""
    structured_error_msg: str = NONE
    ui_url: str | None = None
    roles: list[RoleStatus] = field(default_factory=list)

    def is_terminal(self) -> bool:
        """Whether the app has ended: succeeded, failed or cancelled."""
        return is_terminal(self.state)

    def raise_for_status(self) -> None:
        """Raise AppStatusError unless the app SUCCEEDED; an app that still runs has not."""
        if self.state != AppState.SUCCEEDED:
            raise AppStatusError(self, f"job did not succeed: {self!r}")

    def to_json(self, filter_roles: list[str] | None = None) -> dict[str, Any]:
        """A JSON object; `filter_roles` None or empty means all roles."""
        return {
            "state": self.state.name,
            "num_restarts": self.num_restarts,
            "roles": [role.to_json() for role in self._roles(filter_roles)],
            "msg": self.msg,
            "structured_error_msg": self.structured_error_msg,
            "url": self.ui_url,
        }

    def format(self, filter_roles: list[str] | None = None) -> str:
        """Several lines for a person, one or more per replica."""
        replicas = "".join(
            f"\n{_format_replica(replica)}"
            for role in self._roles(filter_roles)
            for replica in sorted(role.replicas, key=lambda replica: replica.id)
        )
        return "\n    ".join(
            (
                "AppStatus:",
                f"State: {self.state}",
                f"Num Restarts: {self.num_restarts}",
                f"Roles:{replicas}",
                f"Msg: {self.msg}",
                f"Structured Error Msg: {self.structured_error_msg}",
                f"UI URL: {self.ui_url}",
                "",
            )
        )

    def _roles(self, filter_roles: Sequence[str] | None) -> list[RoleStatus]:
        return [role for role in self.roles if not filter_roles or role.role in filter_roles]

    def __repr__(self) -> str:
        shown = asdict(self)
        shown["state"] = repr(self.state)
        shown["structured_error_msg"] = _parsed(self.structured_error_msg)
        for role in shown["roles"]:
            for replica in role["replicas"]:
                replica["state"] = repr(replica["state"])
        return to_yaml({"AppStatus": shown})


class AppStatusError(LauncherError):
    """An app did not succeed. `status` is its status."""

    exit_code = 5

    def __init__(self, status: AppStatus, *args: object) -> None:
        super().__init__(str(args[0]) if args else f"job did not succeed: {status!r}")
        self.status = status


def roll_up(replicas: Iterable[ReplicaStatus]) -> AppState:
    """Return the state of an app whose replicas are in these states.

    A failed replica decides, then a cancelled one; success needs all replicas to succeed. Without any replica
    the state is unknown, never a success.
    """
    states = {replica.state for replica in replicas}
    for state in (AppState.FAILED, AppState.CANCELLED, AppState.UNKNOWN):
        if state in states:
            return state
    if states == {AppState.SUCCEEDED}:
        return AppState.SUCCEEDED
    if states & {AppState.RUNNING, AppState.SUCCEEDED}:
        return AppState.RUNNING
    return max(states, default=AppState.UNKNOWN)


def _parsed(structured_error_msg: str) -> object:
    """Return the error as data, or as text when it is not JSON: it may be cut, or of another program."""
    if structured_error_msg == NONE:
        return NONE

    try:
        return json.loads(structured_error_msg)
    except (ValueError, RecursionError):
        return structured_error_msg


def _format_replica(replica: ReplicaStatus) -> str:
    mark = "*" if replica.id == 0 else " "
    head = f" {mark}{replica.role}[{replica.id}]:{replica.state}"
    if replica.structured_error_msg != NONE:
        return f"{head}{_format_error(replica)}"
    if replica.exit_code is not None:
        return f"{head} (exitcode: {replica.exit_code})"
    if replica.state in (AppState.FAILED, AppState.CANCELLED):
        return f"{head} (no reply file)"
    return head


def _format_error(replica: ReplicaStatus) -> str:
    """Return the text that follows the state of a replica with an error, even a malformed one."""
    import textwrap
    from datetime import datetime

    error = read_error(replica.structured_error_msg) or ReplicaError("")
    lines = [f" (exitcode: {error.exit_code or replica.exit_code or '<N/A>'})"]
    if error.time is not None:
        with suppress(ValueError, OverflowError, OSError):
            lines.append(f"timestamp: {datetime.fromtimestamp(int(error.time))}")
    lines.append(f"hostname: {replica.hostname}")
    for number, line in enumerate(error.message.rstrip().splitlines() or [""]):
        shown = printable(line.expandtabs(4))
        wrapped = textwrap.wrap(shown, 80, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"{'' if number or at else 'error_msg: ':11}{part}" for at, part in enumerate(wrapped)]
    return "\n        ".join(lines)
