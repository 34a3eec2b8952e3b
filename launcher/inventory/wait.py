"""Wait for an app to end, and record its outcome."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.state.records import AppRecord


def wait_for(app: AppRecord, timeout_s: float | None) -> str:
    """Wait until the app has ended or the timeout has passed; returns its state then.

    Raises UnknownAppException.
    """
    from launcher.inventory.ends import EndRecorder
    from launcher.inventory.installed import scheduler_of

    scheduler = scheduler_of(app)
    recorder = EndRecorder()  # opened now, so that no time passes between the end and the return
    seen = scheduler.wait_record(app.app_id, timeout_s)
    if seen is None:
        from launcher.inventory.status import inspect

        return inspect(app).state
    if seen.has_ended:
        recorder.record(seen)
    return seen.state
