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
    from launcher.schedulers.local.errorfiles import read

    errors = read(app_dir, view)
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
            structured_error_msg=errors.get((each.role.name, each.k), ""),
        )
        found.append(made)
    return found
