"""`launcher status --watch`: apps in a live table, as `apply --wait` shows them, until they have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from launcher.cli.console import Console
from launcher.cli.interrupts import terminate_with_exception
from launcher.cli.render.apps import apps_table, in_short, ran_for
from launcher.cli.render.progress import Progress
from launcher.cli.render.status_text import status_text
from launcher.cli.render.values import state_cell
from launcher.errors import LauncherError
from launcher.inventory.status import inspect
from launcher.schedulers.answers import description_of
from launcher.specs.jobkey import DEFAULT_TARGET, JobKey
from launcher.state.records import AppRecord
from launcher.text import paint

More = Callable[[], Sequence[AppRecord]]

NOT_SUCCEEDED = 5

_INTERVAL_S = 0.25
_SHARE = 4  # of the time, what looking at the apps takes at most: many of them are looked at less often


def watch(first: Sequence[AppRecord], more: More, console: Console) -> int:
    """Show apps until none of them is live, and then how they ended. Interrupting it leaves them running.

    Without a terminal every change of an app's state is a line.

    Args:
        more: the apps that have come meanwhile; asked at every look.

    Returns 0 when all have succeeded, else 5; 1 when schedulers of some could not be asked how they ended.
    Raises LauncherError where there is only one app, and its scheduler cannot be asked.
    """
    terminate_with_exception()
    apps = {app.handle: app for app in first}
    if console.err_is_terminal:
        with Progress() as progress:
            warning = paint("warning:", "bold yellow", console.err_color)
            unasked = _look(
                apps,
                more,
                lambda app, is_new: _show(app, is_new, progress, console),
                lambda text: progress.say(f"{warning} {text}"),
            )
    else:
        unasked = _look(apps, more, lambda app, is_new: _line(app, is_new, console), console.warn)
    if console.is_terminal or console.err_is_terminal:
        _print_ends(list(apps.values()), console)
    if unasked:
        return 1
    return 0 if all(app.state == "succeeded" for app in apps.values()) else NOT_SUCCEEDED


def _look(
    apps: dict[str, AppRecord],
    more: Callable[[], Sequence[AppRecord]],
    tell: Callable[[AppRecord, bool], None],
    warn: Callable[[str], None],
) -> bool:
    """Look at the apps until none of them is live; `apps` then holds them as they ended.

    Args:
        tell: called with each app that was looked at, and whether its state is another one than before.
        warn: called with a sentence about an app that cannot be looked at, once.

    Returns whether some were left whose schedulers could not be asked, when all others had ended.
    """
    states: dict[str, str] = {}
    warned: set[str] = set()
    while left := [app for app in apps.values() if app.is_live or app.handle not in states]:
        began = time.monotonic()
        unasked = set()
        for app in left:
            try:
                apps[app.handle] = seen = inspect(app)
            except LauncherError as error:
                if len(apps) == 1:
                    raise
                unasked.add(app.handle)
                if app.handle not in warned:
                    warn(f"{app.handle} is shown as last seen: {error}")
                warned.add(app.handle)
                continue
            tell(seen, states.get(app.handle) != seen.state)
            states[app.handle] = seen.state
        for app in more():
            apps.setdefault(app.handle, app)
        if any(app.is_live and app.handle not in unasked for app in apps.values()):
            time.sleep(max(_INTERVAL_S, (_SHARE - 1) * (time.monotonic() - began)))
        elif unasked:
            return True
    return False


def _show(app: AppRecord, is_new: bool, progress: Progress, console: Console) -> None:
    key = JobKey(*app.key) if app.job else JobKey(app.session, DEFAULT_TARGET, app.app_id)
    progress.update(key, description_of(app))
    if is_new and not app.is_live:
        state, style = state_cell(app.state)
        took = ran_for(app, time.time())
        line = f"{app.name or app.app_id} {paint(state, style, console.err_color)}"
        progress.say(line + (f" after {took}" if took else "") + (f": {app.message}" if app.message else ""))


def _line(app: AppRecord, is_new: bool, console: Console) -> None:
    if is_new:
        why = f": {app.message}" if app.message and not app.is_live else ""
        console.print(f"{app.handle} {app.state.upper()}{why}", flush=True)


def _print_ends(apps: Sequence[AppRecord], console: Console) -> None:
    if len(apps) == 1:
        console.print(status_text(apps[0], color=console.color))
        return
    console.print(apps_table(apps, color=console.color, columns=console.columns))
    console.print(in_short(apps))
