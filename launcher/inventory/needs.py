"""Say what waiting apps wait for, and what would start skipped ones."""

from __future__ import annotations

from launcher.inventory import recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from launcher.state.records import AppRecord

    Refresh = Callable[[list[AppRecord]], list[AppRecord]]


def say_what_waits(apps: Iterable[AppRecord], refresh: Refresh) -> None:
    """Set the messages of the waiting apps: `waits for prepare (running)`.

    Args:
        refresh: the present records of recorded apps.
    """
    for app in apps:
        if app.state == "waiting" and (attempt := recorded.attempt(app.app_id)):
            known = {need.app_id: recorded.app(need.app_id) for need in attempt.needs}
            seen = {each.app_id: each.state for each in refresh([each for each in known.values() if each])}
            left = [
                f"{need.job} ({seen.get(need.app_id, 'unknown')})"
                for need in attempt.needs
                if seen.get(need.app_id) != "succeeded"
            ]
            app.message = f"waits for {', '.join(left)}" if left else "is about to start"
            if app.abandoned:
                app.message = f"the process that would start it has died: launcher apply {attempt.path}"


def what_starts(app: AppRecord) -> str:
    """What would start a skipped app, in a phrase; "" for any other one, or a withdrawn one."""
    job = app.message.partition(" ")[0]
    attempt = recorded.attempt(app.app_id) if app.state == "skipped" else None
    if attempt is None or job not in {need.job for need in attempt.needs}:
        return ""
    return f"when {job} succeeds: launcher apply {attempt.path}"
