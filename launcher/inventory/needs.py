"""Explain in a phrase why an app has not started: what its holder waits for, or what would start it."""

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
    queued = [app for app in apps if app.state == "queued" and not app.abandoned]
    phrases = _why_queued(queued)
    others = [app for app in apps if app.is_held and (app.abandoned or app.state != "queued")]
    attempts = _attempts({app.app_id: app.scheduler for app in others})
    waiting = [attempts[app.app_id] for app in others if not app.abandoned and app.app_id in attempts]
    states = _states([need for attempt in waiting for need in attempt.needs], refresh) if waiting else {}
    for app in queued:
        app.message = phrases.get(app.app_id) or app.message
    for app in others:
        attempt = attempts.get(app.app_id)
        if app.abandoned:
            again = f": launcher apply {attempt.path}" if attempt else ""
            app.message = f"the process that would start it has died{again}"
        elif attempt is not None:
            app.message = _waits_for(attempt.needs, states)


def what_starts(app: AppRecord) -> str:
    """Return the event that would start a skipped app, as a phrase; "" for other apps and withdrawn ones."""
    job = app.message.partition(" ")[0]
    is_skipped = app.state == "skipped"
    attempt = _attempts({app.app_id: app.scheduler}).get(app.app_id) if is_skipped else None
    if attempt is None or job not in {need.job for need in attempt.needs}:
        return ""
    return f"when {job} succeeds: launcher apply {attempt.path}"


def _why_queued(apps: Sequence[AppRecord]) -> Mapping[str, str]:
    if not apps:
        return {}
    from launcher.inventory.turns import why_queued

    return why_queued(apps)


def _states(needs: Sequence[StoodOn], refresh: Refresh) -> dict[str, str]:
    """Return app id → the state of the needed attempt."""
    known = recorded.apps(need.app_id for need in needs)
    states = {each.app_id: _state(each) for each in refresh([*known.values()])}
    unknown = {need.app_id: need.scheduler for need in needs if need.app_id not in states}
    elsewhere = _attempts(unknown) if unknown else {}
    return states | {each: elsewhere[each].state if each in elsewhere else "unknown" for each in unknown}


def _waits_for(needs: Sequence[StoodOn], states: Mapping[str, str]) -> str:
    left = [f"{each.job} ({states[each.app_id]})" for each in needs if states[each.app_id] != "succeeded"]
    return f"waits for {', '.join(left)}" if left else "is about to start"


def _state(app: AppRecord) -> str:
    return f"{app.state}, and its process has died" if app.abandoned else app.state


def _attempts(wanted: Mapping[str, str]) -> dict[str, Attempt]:
    """Return app id → the attempt on record, else from its engine; absent where neither knows it.

    Args:
        wanted: app id → scheduler.
    """
    from launcher.errors import LauncherError, UnreachableError
    from launcher.schedulers.registry import get_scheduler

    found = recorded.attempts(wanted) if wanted else {}
    away = set()  # schedulers whose engine is asked no more: each request may take a minute to fail
    for app_id, name in wanted.items():
        if app_id not in found and name not in away:
            try:
                attempt = get_scheduler(name, "").attempt(app_id)
            except LauncherError as error:
                if isinstance(error, UnreachableError):
                    away.add(name)
                continue
            if attempt is not None:
                found[app_id] = attempt
    return found
