"""Make the AppRecord of a local app without importing the specs."""

from __future__ import annotations

from launcher.holding.phrases import OUT_OF_MEMORY
from launcher.state.records import WAITING, AppRecord, ReplicaRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.schedulers.local.appview import AppView

_HOST = "localhost"


def app_record(scheduler: str, session: str, app_id: str, view: AppView) -> AppRecord:
    """The app without its replicas.

    Args:
        scheduler, session: used when the app's own record does not name them yet.
    """
    if view.handle:
        scheduler, _, rest = view.handle.partition("://")
        session = rest.partition("/")[0]
    record = AppRecord(
        scheduler,
        session,
        app_id,
        state=view.state,
        created_at=view.created_at,
        started_at=view.started_at,
        ended_at=view.ended_at,
        message=view.message,
        exit_code=view.code,
    )
    record.inputs_changed = view.inputs_changed
    record.num_restarts = view.num_restarts
    record.abandoned = view.state in WAITING and not view.owner
    record.warnings = list(view.warnings)
    return record


def replica_records(app_dir: str, view: AppView) -> list[ReplicaRecord]:
    """The replicas of the app, with their error files."""
    found = []
    for each in view.replicas:
        state, message = view.shown(each)
        why = OUT_OF_MEMORY if each.oom else f"signal {each.signal}" if each.signal else ""
        made = ReplicaRecord(
            each.role.name,
            each.k,
            state,
            exit_code=each.code,
            num_restarts=each.restarts,
            started_at=each.started_at,
            ended_at=each.ended_at,
            message=message or why,
            host=_HOST,
        )
        found.append(made)
    _add_errors(app_dir, view, found)
    return found


def _add_errors(app_dir: str, view: AppView, replicas: list[ReplicaRecord]) -> None:
    """Add the error files of the replicas that failed, or were stopped by a failure.

    The error file of a replica that a user stopped describes the stop, and no failure.
    """
    blamed = ("failed", "cancelled", "lost") if view.state in ("failed", "lost") else ("failed",)
    if not any(each.state in blamed for each in replicas):
        return
    from launcher.schedulers.local.logfiles import errors

    found = errors(app_dir, [(each.role, each.k) for each in replicas if each.state in blamed])
    for each in replicas:
        each.structured_error_msg = found.get((each.role, each.k), "")
