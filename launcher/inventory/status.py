"""How one app does, with all that is known of it. An end that was not on record is recorded."""

from __future__ import annotations

from launcher.inventory import recorded
from launcher.inventory.ends import settle
from launcher.inventory.installed import scheduler_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from launcher.state.records import AppRecord, ReplicaRecord


def inspect(app: AppRecord) -> AppRecord:
    """The app as it is now, with its replicas; without them where only the record knows it.

    Raises UnknownAppException when neither its scheduler nor the record knows it.
    """
    seen = scheduler_of(app).record(app.app_id)
    if seen is not None and seen.handle != app.handle:
        seen = None  # the id is that of another session's app
    found: AppRecord | None = app
    if app.is_live and (seen is None or not seen.is_live):
        found = recorded.app(app.app_id, app.handle)
        if found is None or found.is_live:
            settle((app.scheduler,))
            found = recorded.app(app.app_id, app.handle)
    if seen is not None:
        found = found or app
        found.update(seen)
        _mark_lost(found)
    elif found is None or found.state == "unknown":
        from launcher.specs.handle import UnknownAppException

        raise UnknownAppException(app.handle)
    return found


def _mark_lost(app: AppRecord) -> None:
    """Of a lost app, the replicas whose exit nothing has seen are lost."""
    for replica in app.replicas:
        if app.state == "lost" and replica.state == "failed" and replica.exit_code is None:
            replica.state = "lost"


def about(app: AppRecord) -> Mapping[str, Any]:
    """Where it came from and what it runs: see `Attempt.about`. Empty where that is not known."""
    attempt = recorded.attempt(app.app_id)
    if attempt is not None and attempt.handle == app.handle:
        return attempt.about()
    return scheduler_of(app).about(app.app_id)


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
