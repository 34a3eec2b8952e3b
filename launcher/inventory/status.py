"""All that `launcher status` shows of one app. An end that was not on record is recorded."""

from __future__ import annotations

from launcher.inventory import recorded
from launcher.inventory.ends import LOCAL, settle
from launcher.inventory.find import scheduler_of
from launcher.state.records import AppRecord, ReplicaRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def inspect(app: AppRecord) -> AppRecord:
    """The app as it is now, with its replicas; without them where only the store remembers it.

    Raises UnknownAppException when neither its scheduler nor the store knows it.
    """
    found, seen = app, _seen(app)
    if app.is_live and (seen is None or not seen.is_live):
        found = recorded.app(app.app_id, app.handle) or _unknown(app)
        if found.is_live:
            settle((app.scheduler,))
            found = recorded.app(app.app_id, app.handle) or _unknown(app)
    if seen is not None:
        found.update(seen)
        _mark_lost(found)
    elif found.state == "unknown":
        from launcher.specs.handle import UnknownAppException

        raise UnknownAppException(app.handle)
    return found


def _unknown(app: AppRecord) -> AppRecord:
    return AppRecord(app.scheduler, app.session, app.app_id)


def _mark_lost(app: AppRecord) -> None:
    """Of a lost app those replicas are lost whose exit no scheduler saw."""
    for replica in app.replicas:
        if app.state == "lost" and replica.state == "failed" and replica.exit_code is None:
            replica.state = "lost"


def root_cause(app: AppRecord) -> ReplicaRecord | None:
    """The replica whose error came first; None when none left one."""
    left = [replica for replica in app.replicas if replica.structured_error_msg]
    if not left:
        return None
    from launcher.specs.status import root_cause

    return root_cause(left)


def cause(app: AppRecord) -> str:
    """The error that came first, in one line; "" when no replica left one."""
    first = root_cause(app)
    error = first.error if first else None
    return f"{first.role}/{first.k}: {error.summary}" if first and error else ""


def _seen(app: AppRecord) -> AppRecord | None:
    return _from_local(app) if app.scheduler in LOCAL else _from_engine(app)


def _from_local(app: AppRecord) -> AppRecord | None:
    if app.state == "unknown":
        return None  # another session's, or of no app: its handle names nothing
    scheduler = scheduler_of(app)
    view: Any = scheduler.view(app.app_id)
    if view is None:
        return None
    seen = AppRecord(
        app.scheduler,
        app.session,
        app.app_id,
        state=view.state,
        created_at=view.created_at,
        started_at=view.started_at,
        ended_at=view.ended_at,
        message=view.message,
        exit_code=view.exit_code,
    )
    seen.num_restarts = view.num_restarts
    seen.warnings = list(view.warnings)
    errors = scheduler.error_texts(app.app_id, view)
    seen.replicas = [
        ReplicaRecord(
            each.role,
            each.k,
            each.state,
            exit_code=each.exit_code,
            num_restarts=each.num_restarts,
            started_at=each.started_at,
            ended_at=each.ended_at,
            message="out of memory" if each.oom else f"signal {each.signal}" if each.signal else "",
            host="localhost",
            structured_error_msg=errors.get((each.role, each.k), ""),
        )
        for each in view.replicas
    ]
    return seen


def _from_engine(app: AppRecord) -> AppRecord | None:
    """Ask a scheduler of which we know nothing more than its contract."""
    from launcher.inventory.listing import finer

    answer = scheduler_of(app).describe(app.app_id)
    if answer is None:
        return None
    seen = AppRecord(
        app.scheduler,
        app.session,
        app.app_id,
        name=answer.name,
        state=finer(str(answer.state).lower(), app.state),
        created_at=answer.created_at,
        started_at=answer.started_at,
        ended_at=answer.ended_at,
        message="" if answer.msg == "<NONE>" else answer.msg,
        exit_code=answer.exit_code,
    )
    seen.num_restarts = max(0, answer.num_restarts)
    seen.replicas = _replicas(answer.roles_statuses)
    return seen


def _replicas(roles: Sequence[Any]) -> list[ReplicaRecord]:
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
            structured_error_msg="" if each.structured_error_msg == "<NONE>" else each.structured_error_msg,
        )
        for role in roles
        for each in role.replicas
    ]
