"""Wait for the end of an app, and record it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.state.records import AppRecord


def wait_for(app: AppRecord, timeout_s: float | None) -> str:
    """Wait until the app has ended, or the time is over; its state then.

    Raises UnknownAppException.
    """
    from launcher.inventory.ends import EndRecorder
    from launcher.inventory.installed import scheduler_of

    scheduler = scheduler_of(app)
    recorder = EndRecorder()  # opened before we wait: the client that waits for us does not wait for that
    seen = scheduler.wait_record(app.app_id, timeout_s)
    if seen is None:
        from launcher.inventory.status import inspect

        return inspect(app).state
    if seen.has_ended:
        recorder.record(seen)
    return seen.state
