"""The responses of schedulers, which `api` loads on first use, and their conversion to and from records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from launcher.dataclass import dataclass, field
from launcher.specs.app import NONE, AppDef, Role
from launcher.specs.status import AppState, AppStatus, ReplicaStatus, RoleStatus
from launcher.state.records import AppRecord, ReplicaRecord, torchx_state

NOT_SET = "<NOT_SET>"


def app_state(state: str) -> AppState:
    """The state of a record as one of TorchX."""
    return AppState.__members__.get(torchx_state(state), AppState.UNKNOWN)


class Stream(str, Enum):
    """An output of a replica: stdout, stderr, or both in the order of writing."""

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

    def status(self) -> AppStatus:
        """The state of the app, and the facts about its outcome."""
        return AppStatus(
            state=self.state,
            num_restarts=self.num_restarts,
            msg=self.msg,
            structured_error_msg=self.structured_error_msg,
            ui_url=self.ui_url,
            roles=self.roles_statuses,
        )


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


# -- records and answers ---------------------------------------------------------------------------------


_OF_APP_STATES = {"submitted": "reserved", "pending": "created", "unsubmitted": "reserved"}
_SAME = ("name", "exit_code", "created_at", "started_at", "ended_at", "output")
"""The fields of an app that its record and the answer of `describe` share."""
_SAME_OF_REPLICA = ("exit_code", "num_restarts", "started_at", "ended_at", "message")


def _same(of: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


def of_description(answer: DescribeAppResponse, scheduler: str, session: str) -> AppRecord:
    """The record of an app with its replicas, from the answer of `describe` or `wait`."""
    state, message = attempt_state(answer.state), _text(answer.msg)
    known = _same(answer, _SAME)
    record = AppRecord(scheduler, session, answer.app_id, state=state, message=message, **known)
    record.num_restarts = max(0, answer.num_restarts)
    record.replicas = [
        ReplicaRecord(
            role.role,
            each.id,
            str(each.state).lower(),
            host=each.hostname,
            structured_error_msg=_text(each.structured_error_msg),
            **_same(each, _SAME_OF_REPLICA),
        )
        for role in answer.roles_statuses
        for each in role.replicas
    ]
    return record


def of_listed(answer: ListAppResponse, scheduler: str) -> AppRecord:
    """The record of one line of `list`, without the times of start and end."""
    session, state = answer.app_handle.partition("://")[2].partition("/")[0], attempt_state(answer.state)
    named, at = answer.name, answer.created_at
    return AppRecord(scheduler, session, answer.app_id, name=named, state=state, created_at=at)


def description_of(record: AppRecord, app: AppDef | None, message: str) -> DescribeAppResponse:
    """The answer of `describe` for the record of a submitted app. `message` replaces the record's."""
    cause = record.root_cause
    return DescribeAppResponse(
        app_id=record.app_id,
        state=app_state(record.state),
        num_restarts=record.num_restarts,
        msg=message or NONE,
        structured_error_msg=cause.structured_error_msg if cause else NONE,
        metadata=app.metadata if app else {},
        roles_statuses=_statuses(record),
        roles=app.roles if app else [],
        **_same(record, _SAME),
    )


def _statuses(record: AppRecord) -> list[RoleStatus]:
    """The roles of a record with their replicas in order."""
    roles: dict[str, RoleStatus] = {}
    for each in record.replicas:
        status = ReplicaStatus(
            id=each.k,
            state=app_state(each.state),
            role=each.role,
            hostname=each.host,
            structured_error_msg=each.structured_error_msg or NONE,
            **_same(each, _SAME_OF_REPLICA),
        )
        roles.setdefault(each.role, RoleStatus(each.role, [])).replicas.append(status)
    for role in roles.values():
        role.replicas.sort(key=lambda each: each.id)
    return list(roles.values())


def listed_of(record: AppRecord) -> ListAppResponse:
    """The line of `list` for a record."""
    state = app_state(record.state)
    return ListAppResponse(record.app_id, state, record.handle, record.name, record.created_at)


def attempt_state(state: AppState) -> str:
    """An AppState as a state of an AppRecord."""
    text = str(state).lower()
    return _OF_APP_STATES.get(text, text)


def _text(given: str) -> str:
    """The text without TorchX's mark "<NONE>" for no text."""
    return "" if given == NONE else given
