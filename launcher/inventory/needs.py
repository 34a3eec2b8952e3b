"""Say in a phrase why an app has not started: what its holder waits for, or what would start it."""

from __future__ import annotations

from launcher.inventory import recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from launcher.specs.attempt import Attempt
    from launcher.specs.needs import StoodOn
    from launcher.state.records import AppRecord

    Refresh = Callable[[list[AppRecord]], list[AppRecord]]


def say_why_held(apps: Sequence[AppRecord], refresh: Refresh) -> None:
    """Set the messages of the apps that are held, in every table: `waits for prepare (running)`.

    Where nothing more is known, the message of the app's holder stays.

    Args:
        refresh: the present records of recorded apps.
    """
    phrases = _why_queued([app.app_id for app in apps if app.state == "queued"])
    for app in apps:
        if app.is_held:
            app.message = _why_held(app, refresh, phrases) or app.message


def what_starts(app: AppRecord) -> str:
    """Return the event that would start a skipped app, as a phrase; "" for other apps and withdrawn ones."""
    job = app.message.partition(" ")[0]
    attempt = _attempt(app.scheduler, app.app_id) if app.state == "skipped" else None
    if attempt is None or job not in {need.job for need in attempt.needs}:
        return ""
    return f"when {job} succeeds: launcher apply {attempt.path}"


def _why_held(app: AppRecord, refresh: Refresh, queued: Mapping[str, str]) -> str:
    if app.state == "queued" and not app.abandoned:
        return queued.get(app.app_id, "")
    attempt = _attempt(app.scheduler, app.app_id)
    if app.abandoned:
        again = f": launcher apply {attempt.path}" if attempt else ""
        return f"the process that would start it has died{again}"
    return _waits_for(attempt.needs, refresh) if attempt else ""


def _why_queued(app_ids: Sequence[str]) -> Mapping[str, str]:
    if not app_ids:
        return {}
    from launcher.inventory.turns import why_queued

    return why_queued(app_ids)


def _waits_for(needs: Sequence[StoodOn], refresh: Refresh) -> str:
    known = [found for need in needs if (found := recorded.app(need.app_id))]
    states = {each.app_id: _state(each) for each in refresh(known)}
    for need in needs:
        if need.app_id not in states:
            elsewhere = _attempt(need.scheduler, need.app_id)
            states[need.app_id] = elsewhere.state if elsewhere else "unknown"
    left = [f"{each.job} ({states[each.app_id]})" for each in needs if states[each.app_id] != "succeeded"]
    return f"waits for {', '.join(left)}" if left else "is about to start"


def _state(app: AppRecord) -> str:
    return f"{app.state}, and its process has died" if app.abandoned else app.state


def _attempt(scheduler: str, app_id: str) -> Attempt | None:
    """The attempt as recorded, else as its engine has it; None where neither knows it."""
    if (attempt := recorded.attempt(app_id)) is not None:
        return attempt
    from launcher.errors import LauncherError
    from launcher.schedulers.registry import get_scheduler

    try:
        return get_scheduler(scheduler, "").attempt(app_id)
    except LauncherError:
        return None  # an engine that cannot be reached
