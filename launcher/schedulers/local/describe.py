"""Describe a local app as the schedulers' API does."""

from __future__ import annotations

import os

from launcher.schedulers.local import attemptfile, errorfiles
from launcher.schedulers.local.appview import AppView, ReplicaView
from launcher.schedulers.local.attemptfile import Record
from launcher.schedulers.responses import DescribeAppResponse, app_state
from launcher.specs.app import NONE, AppDef
from launcher.specs.canonical import app_from_document
from launcher.specs.status import ReplicaStatus, RoleStatus, root_cause

_HOST = "localhost"


_URI_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")  # RFC 3986


def response(app_id: str, app_dir: str, view: AppView, record: Record | None) -> DescribeAppResponse:
    """The answer of `describe`. `record` None: the app was reserved and not recorded yet."""
    request = attemptfile.read_request(app_dir) or {}
    roles = _roles(view, errorfiles.read(app_dir, view))
    cause = root_cause(replica for role in roles for replica in role.replicas)
    app = _app(record)
    return DescribeAppResponse(
        app_id=app_id,
        state=app_state(view.state),
        num_restarts=view.num_restarts,
        msg=_message(view) or NONE,
        structured_error_msg=cause.structured_error_msg if cause else NONE,
        ui_url=_file_uri(request["log_dir"]) if request.get("log_dir") else None,
        metadata=app.metadata if app else {},
        roles_statuses=roles,
        roles=app.roles if app else [],
        name=app.name if app else "",
        exit_code=view.exit_code,
        created_at=record["created_at"] if record else view.created_at,
        started_at=view.started_at,
        ended_at=view.ended_at,
    )


def name_of(record: Record) -> str:
    """The job's name, or the AppDef's."""
    key = record.get("key")
    return str(key[2] if key else record["name"])


def _app(record: Record | None) -> AppDef | None:
    if record is None:
        return None
    return app_from_document(record["document"], name_of(record), record.get("metadata") or {})


def _message(view: AppView) -> str:
    lost = "lost: " if view.state == "lost" else ""
    return "; ".join(part for part in (lost + view.message, *view.warnings) if part)


def _roles(view: AppView, errors: dict[tuple[str, int], str]) -> list[RoleStatus]:
    by_role: dict[str, list[ReplicaStatus]] = {}
    for replica in view.replicas:
        error = errors.get((replica.role, replica.k), NONE)
        by_role.setdefault(replica.role, []).append(_status(replica, error))
    return [RoleStatus(role, sorted(found, key=lambda status: status.id)) for role, found in by_role.items()]


def _status(replica: ReplicaView, error: str) -> ReplicaStatus:
    return ReplicaStatus(
        id=replica.k,
        state=app_state(replica.state),
        role=replica.role,
        hostname=_HOST,
        structured_error_msg=error,
        exit_code=replica.exit_code,
        num_restarts=replica.num_restarts,
        started_at=replica.started_at,
        ended_at=replica.ended_at,
        message="killed: out of memory" if replica.oom else "",
    )


def _file_uri(path: str) -> str:
    """`file:` URI of an absolute path. By hand: pathlib and urllib.parse cost more than the whole answer."""
    return "file://" + "".join(chr(c) if c in _URI_SAFE else f"%{c:02X}" for c in os.fsencode(path))
