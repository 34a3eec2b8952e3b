"""`launcher status --watch`: show apps in a live table, as `apply --wait` does, until they have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from launcher.cli.console import Console
from launcher.cli.live_display import LiveDisplay
from launcher.cli.render.apps import apps_table, in_short, ran_for, status_json, status_text
from launcher.cli.render.values import state_cell
from launcher.errors import NOT_SUCCEEDED, LauncherError, SchedulerError
from launcher.inventory import recorded
from launcher.inventory.listing import present
from launcher.inventory.status import inspect
from launcher.specs.jobkey import DEFAULT_TARGET, JobKey
from launcher.state.records import AppRecord
from launcher.text import paint

More = Callable[[], Sequence[AppRecord]]
"""Returns further apps to watch."""

_INTERVAL_S = 0.25
_AGAIN_S = 2.0
_AWAY_S = 600.0  # seconds that an engine may be unreachable after it has answered
_SHARE = 4  # refreshing takes at most 1/4 of the time: many apps are refreshed less often


def watch(first: Sequence[AppRecord], more: More, console: Console, *, as_json: bool = False) -> int:
    """Show apps on stderr until none of them is live, then print their outcomes. Ctrl-C leaves them running.

    Shows a live table or, without a terminal, a line for each change of state.

    Args:
        more: returns apps to add; called at every refresh.
        as_json: print the outcomes as a JSON array.

    Returns 0 if all have succeeded, else 5; 1 if the schedulers of some could not be reached.
    Raises LauncherError if there is only one app, and its scheduler cannot be reached.
    """
    apps = {app.handle: app for app in first}
    if console.err_is_screen:
        with LiveDisplay(console) as display:
            warning = paint("warning:", "bold yellow", console.err_color)
            unreached = _refresh(
                apps,
                more,
                lambda app, is_new: _show(app, is_new, display, console),
                lambda text: display.say(f"{warning} {text}"),
            )
    else:

        def show(app: AppRecord, is_new: bool) -> None:
            if is_new:
                why = f": {app.message}" if app.message and (app.is_held or not app.is_live) else ""
                console.note(f"{app.handle} {app.state.upper()}{why}")

        unreached = _refresh(apps, more, show, console.warn)
    _print_ends(list(apps.values()), console, as_json=as_json)
    if unreached:
        return 1
    return 0 if all(app.state == "succeeded" for app in apps.values()) else NOT_SUCCEEDED


def _refresh(
    apps: dict[str, AppRecord],
    more: More,
    show: Callable[[AppRecord, bool], None],
    warn: Callable[[str], None],
) -> bool:
    """Refresh `apps` in place until none of them is live.

    Args:
        show: called with each refreshed app, and whether its state has changed.
        warn: called once, with a message about an app that cannot be read.

    Returns whether some apps could not be read when all others had ended.
    """
    states: dict[str, str] = {}
    warned: set[str] = set()
    answered = time.monotonic()
    while left := [app for app in apps.values() if app.is_live or app.handle not in states]:
        began = time.monotonic()
        unreached = set()
        held = _still_held([app for app in left if app.is_held])
        for app in left:
            try:
                seen = held.get(app.handle) or inspect(app)
            except LauncherError as error:
                is_away = isinstance(error, SchedulerError) and app.handle in states
                if len(apps) == 1 and not (is_away and began - answered < _AWAY_S):
                    raise
                unreached.add(app.handle)
                if app.handle not in warned:
                    warn(f"{app.handle} is shown in its last known state: {error}")
                warned.add(app.handle)
                continue
            if app.handle not in held:
                answered = began
                warned.discard(app.handle)
            apps[app.handle] = seen
            show(seen, states.get(app.handle) != seen.state)
            states[app.handle] = seen.state
        for app in more():
            apps.setdefault(app.handle, app)
        if any(app.is_live and app.handle not in unreached for app in apps.values()):
            time.sleep(max(_INTERVAL_S, (_SHARE - 1) * (time.monotonic() - began)))
        elif unreached and (began - answered > _AWAY_S or not unreached.issubset(states)):
            return True
        elif unreached:
            time.sleep(_AGAIN_S)
    return False


def _still_held(apps: Sequence[AppRecord]) -> dict[str, AppRecord]:
    """Return handle → app of the apps that have not started; one read for all, as there may be a thousand.

    The result is empty where a scheduler cannot be reached.
    """
    warnings: list[str] = []
    ids = [app.app_id for app in apps]
    found = present(lambda: [*recorded.apps(ids).values()], warn=warnings.append)
    return {app.handle: app for app in found if app.is_held and not warnings}


def _show(app: AppRecord, is_new: bool, display: LiveDisplay, console: Console) -> None:
    key = JobKey(*app.key) if app.job else JobKey(app.session, DEFAULT_TARGET, app.app_id)
    display.update(key, app)
    if is_new and not app.is_live:
        state, style = state_cell(app.state)
        took = ran_for(app, time.time())
        line = f"{app.name or app.app_id} {paint(state, style, console.err_color)}"
        display.say(line + (f" after {took}" if took else "") + (f": {app.message}" if app.message else ""))


def _print_ends(apps: Sequence[AppRecord], console: Console, *, as_json: bool) -> None:
    if as_json:
        console.json(list(map(status_json, apps)))
        return
    if len(apps) == 1:
        console.print(status_text(apps[0], color=console.color, columns=console.columns))
        return
    console.print(apps_table(apps, color=console.color, columns=console.columns))
    console.print(in_short(apps))
