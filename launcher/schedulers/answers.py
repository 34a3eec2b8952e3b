"""Convert the answers of `describe` and `list` to AppRecords, and back."""

from __future__ import annotations

from collections.abc import Iterable

from launcher.schedulers.responses import DescribeAppResponse, ListAppResponse, app_state
from launcher.specs.app import AppDef
from launcher.specs.appstate import AppState
from launcher.specs.status import ReplicaStatus, RoleStatus, root_cause
from launcher.state.records import AppRecord, ReplicaRecord

_NONE = "<NONE>"
_STATES = {"submitted": "reserved", "pending": "created", "unsubmitted": "reserved"}


def of_description(answer: DescribeAppResponse, scheduler: str, session: str) -> AppRecord:
    """The record of an app with its replicas, from the answer of `describe` or `wait`."""
    record = AppRecord(
        scheduler,
        session,
        answer.app_id,
        name=answer.name,
        state=attempt_state(answer.state),
        created_at=answer.created_at,
        started_at=answer.started_at,
        ended_at=answer.ended_at,
        message=_text(answer.msg),
        exit_code=answer.exit_code,
        output=answer.output,
    )
    record.num_restarts = max(0, answer.num_restarts)
    record.replicas = _replicas(answer.roles_statuses)
    return record


def of_listed(answer: ListAppResponse, scheduler: str) -> AppRecord:
    """The record of one line of `list`: without the time of its start or end."""
    session = answer.app_handle.partition("://")[2].partition("/")[0]
    return AppRecord(
        scheduler,
        session,
        answer.app_id,
        name=answer.name,
        state=attempt_state(answer.state),
        created_at=answer.created_at,
    )


def description_of(
    record: AppRecord, app: AppDef | None = None, message: str | None = None
) -> DescribeAppResponse:
    """The answer of `describe` for a scheduler that has a record of its own.

    Args:
        app: what was submitted.
        message: instead of the record's.
    """
    roles: dict[str, RoleStatus] = {}
    for each in record.replicas:
        status = ReplicaStatus(
            id=each.k,
            state=app_state(each.state),
            role=each.role,
            hostname=each.host,
            structured_error_msg=each.structured_error_msg or _NONE,
            exit_code=each.exit_code,
            num_restarts=each.num_restarts,
            started_at=each.started_at,
            ended_at=each.ended_at,
            message=each.message,
        )
        roles.setdefault(each.role, RoleStatus(each.role, [])).replicas.append(status)
    for role in roles.values():
        role.replicas.sort(key=lambda each: each.id)
    cause = root_cause(replica for role in roles.values() for replica in role.replicas)
    return DescribeAppResponse(
        app_id=record.app_id,
        state=app_state(record.state),
        num_restarts=record.num_restarts,
        msg=(record.message if message is None else message) or _NONE,
        structured_error_msg=cause.structured_error_msg if cause else _NONE,
        metadata=app.metadata if app else {},
        roles_statuses=list(roles.values()),
        roles=app.roles if app else [],
        name=record.name,
        exit_code=record.exit_code,
        created_at=record.created_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        output=record.output,
    )


def listed_of(record: AppRecord) -> ListAppResponse:
    """The line of `list` for a record."""
    return ListAppResponse(
        app_id=record.app_id,
        state=app_state(record.state),
        app_handle=record.handle,
        name=record.name,
        created_at=record.created_at,
    )


def attempt_state(state: AppState) -> str:
    """An AppState as a state of an AppRecord."""
    text = str(state).lower()
    return _STATES.get(text, text)


def _replicas(roles: Iterable[RoleStatus]) -> list[ReplicaRecord]:
    return [
        ReplicaRecord(
            role.role,
            each.id,
            str(each.state).lower(),
            exit_code=each.exit_code,
            num_restarts=each.num_restarts,
            started_at=each.started_at,
            ended_at=each.ended_at,
            message=each.message,
            host=each.hostname,
            structured_error_msg=_text(each.structured_error_msg),
        )
        for role in roles
        for each in role.replicas
    ]


def _text(given: str) -> str:
    """TorchX says "<NONE>" for no text."""
    return "" if given == _NONE else given
