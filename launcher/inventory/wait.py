"""Wait for the end of an app, and record it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.state.records import AppRecord


def wait_for(app: AppRecord, timeout_s: float | None) -> str:
    """Wait until the app has ended, or the time is over; its state then.

    Raises UnknownAppException.
    """
    from launcher.inventory.ends import LOCAL, EndRecorder
    from launcher.inventory.find import scheduler_of
    from launcher.inventory.status import inspect
    from launcher.state.records import AppRecord, of_attempt

    scheduler = scheduler_of(app)
    recorder = EndRecorder()  # opened before we wait: the client that waits for us does not wait for that
    if app.scheduler in LOCAL:
        view = scheduler.wait_view(app.app_id, timeout_s)
        seen = view and AppRecord(
            app.scheduler,
            app.session,
            app.app_id,
            state=view.state,
            started_at=view.started_at,
            ended_at=view.ended_at,
            message=view.message,
            exit_code=view.exit_code,
        )
    elif app.job is not None:
        attempt = scheduler.ended_attempt(app.app_id, timeout_s)
        seen = attempt and of_attempt(attempt)
    else:
        answer = scheduler.wait(app.app_id, timeout_s)
        return inspect(app).state if answer is None else str(answer.state).lower()
    if seen is None:
        return inspect(app).state
    if not seen.is_live:
        recorder.record(seen)
    return seen.state
