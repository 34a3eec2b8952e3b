"""List apps: recorded ones, with live ones refreshed. Records outcomes that were not recorded yet."""

from __future__ import annotations

import os

from launcher.errors import CommandError, LauncherError, StateError, UnreachableError
from launcher.files import is_below
from launcher.inventory import recorded
from launcher.schedulers.registry import get_scheduler, open_store
from launcher.text import some_of, typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.api import Scheduler
    from launcher.specs.attempt import Attempt, StoodOn
    from launcher.state.records import AppRecord
    from launcher.state.store import Store

    Warn = Callable[[str], None]


def newest(
    limit: int | None,
    scheduler: str | None = None,
    *,
    project: str | None = None,
    states: Collection[str] = (),
    warn: Warn | None = None,
) -> list[AppRecord]:
    """The newest apps, the newest first.

    Args:
        limit: how many; None for all.
        scheduler: only its apps, including those that only its engine knows.
        project: only apps of its jobs, including those that only a shared engine knows.
        states: only apps in one of these states; all when empty.
        warn: called with a message if an engine cannot be reached.
    """
    if project is not None and scheduler is None:
        others = [app for app in _others_of(project, warn) if not states or app.state in states]
        say_why_held(others)
        found = [*others, *_newest(limit, None, project, states, warn)]
        return sorted(found, key=lambda each: each.created_at or 0.0, reverse=True)[:limit]
    return _newest(limit, scheduler, project, states, warn)


def _newest(
    limit: int | None, scheduler: str | None, project: str | None, states: Collection[str], warn: Warn | None
) -> list[AppRecord]:
    if scheduler is not None:
        asked = get_scheduler(scheduler, "")
        if asked.shared_engine:
            found = [app for app in _with_others(asked) if project in (None, app.project)]
            found = [app for app in found if not states or app.state in states][:limit]
            say_why_held(found)
            return found
    if not states:
        return present(lambda: recorded.newest(limit, scheduler, project=project), warn=warn)
    from launcher.state.records import ENDED, LIVE

    asks_live, wanted = not set(LIVE).isdisjoint(states), {*states}
    if not set(ENDED).isdisjoint(states):  # record missing outcomes first
        present(recorded.live, warn=None if asks_live else warn)
    if asks_live:  # the recorded live state may be outdated
        wanted.update(LIVE)
    most = None if asks_live else limit
    apps = present(lambda: recorded.newest(most, scheduler, project=project, states=wanted), warn=warn)
    return [app for app in apps if app.state in states][:limit]


def present(read: Callable[[], list[AppRecord]], *, warn: Warn | None = None) -> list[AppRecord]:
    """The apps that `read` returns, refreshed, without replicas.

    Args:
        read: returns recorded apps; called again if outcomes were recorded meanwhile.
        warn: see `newest`.
    """
    apps = _present(read, warn)
    say_why_held(apps)
    return apps


def current(apps: Sequence[AppRecord], *, warn: Warn | None = None) -> list[AppRecord]:
    """The present records of these apps in their order, without replicas. `warn`: see `newest`."""

    def read() -> list[AppRecord]:
        known = recorded.apps(app.app_id for app in apps)
        found = ((app, known.get(app.app_id)) for app in apps)
        # An app of another session may have the same id.
        return [seen if seen is not None and seen.handle == app.handle else app for app, seen in found]

    return _present(read, warn)


def _present(read: Callable[[], list[AppRecord]], warn: Warn | None) -> list[AppRecord]:
    apps = read()
    live: dict[str, list[str]] = {}
    for app in apps:
        if app.is_live:
            live.setdefault(app.scheduler, []).append(app.app_id)
    seen: dict[str, AppRecord] = {}
    changed = [_refresh(scheduler, app_ids, seen, warn) for scheduler, app_ids in live.items()]
    if any(changed):
        apps = read()
    for app in apps:
        if app.is_live and app.app_id in seen:
            app.update(seen[app.app_id])
    return apps


def live(*, warn: Warn | None = None) -> list[AppRecord]:
    """The apps that are running or starting. `warn`: see `newest`."""
    return [each for each in present(recorded.live, warn=warn) if each.is_live]


def _refresh(name: str, app_ids: list[str], seen: dict[str, AppRecord], warn: Warn | None) -> bool:
    """Add the present state of live apps of a scheduler to `seen`; True if outcomes were recorded."""
    try:
        scheduler = get_scheduler(name, "")
        try:
            for each in scheduler.refresh(app_ids):
                seen[each.app_id] = each
        finally:
            ended = [seen[each] for each in app_ids if each in seen and seen[each].has_ended]
            if scheduler.shared_engine and ended:  # `record_ends` would query the engine again
                EndRecorder().record(*ended)
                ended = []
        if ended or not all(each in seen for each in app_ids):
            record_ends((name,))
            if ended:  # also ends apps without a job, which `record_ends` skips
                EndRecorder().record(*ended)
            return True
    except LauncherError as error:
        left = sum(each not in seen for each in app_ids)
        if warn is not None and left:
            what = f"1 app of {name} is" if left == 1 else f"{left} apps of {name} are"
            warn(f"{what} shown in the last known state: {error}")
    return False


def _others_of(project: str, warn: Warn | None) -> list[AppRecord]:
    """The apps of a project that only shared engines know."""
    found: list[AppRecord] = []
    for scheduler in recorded.schedulers(detach=True, readonly=True):
        if not scheduler.shared_engine:
            continue
        try:
            listed = [app for app in scheduler.records() if app.project == project]
            found += [app for app in listed if recorded.app(app.app_id, app.handle) is None]
        except LauncherError as error:
            if warn is not None and scheduler.is_in_use():
                warn(f"apps that only {scheduler.shared_engine} knows are left out: {error}")
        finally:
            scheduler.close()
    return found


def _with_others(scheduler: Scheduler[Any]) -> list[AppRecord]:
    """Every app of the engine and of the record, newest first."""
    name = scheduler.backend
    listed = scheduler.records()
    apps = {each.handle: each for each in recorded.newest(None, name)}
    going_on = {each.app_id for each in listed if not each.has_ended}
    if any(each.is_live and each.app_id not in going_on for each in apps.values()):
        record_ends((name,))
        apps = {each.handle: each for each in recorded.newest(None, name)}
    for seen in listed:
        app = apps.setdefault(seen.handle, seen)
        if (app.state, seen.state) != ("lost", "failed"):  # `list` reports lost apps as failed
            app.state, app.abandoned = seen.state, seen.abandoned
    return sorted(apps.values(), key=lambda each: each.created_at or 0.0, reverse=True)


class EndRecorder:
    """Writes known outcomes into the store, one transaction for each call.

    Faster than `record_ends`: it does not close the store, since the process is about to exit, and does not
    flush to disk, since an outcome lost in a power cut is recorded again. If the state folder cannot be
    written, nothing is recorded, so that reading commands still work.
    """

    def __init__(self) -> None:
        try:
            self._store: Store | None = open_store(durable=False)
        except StateError:
            self._store = None

    def record(self, *apps: AppRecord) -> None:
        """Record the outcomes of apps. A recorded outcome is not changed."""
        if self._store is None:
            return
        try:
            self._store.end_all(apps)
        except StateError:
            self._store.close()
            self._store = None


def record_ends(schedulers: Sequence[str]) -> None:
    """Record the outcomes of these schedulers' apps and clean up after dead supervisors.

    If the state folder cannot be written, nothing is recorded, so that reading commands still work.
    """
    from launcher.apply import engines as at

    try:
        with at.opened() as (store, engines):
            at.record_ends(store, engines, schedulers)
    except StateError:
        pass


# -- why apps have not started -----------------------------------------------------------------------------


def say_why_held(apps: Sequence[AppRecord]) -> None:
    """Set the messages of the held apps among these, for every table: `waits for prepare (running)`.

    If nothing more is known, the message of the app's holder stays.
    """
    queued = [app for app in apps if app.state == "queued" and not app.abandoned]
    if queued:
        from launcher.inventory.turns import why_queued

        phrases = why_queued(queued)
        for app in queued:
            app.message = phrases.get(app.app_id) or app.message
    others = [app for app in apps if app.is_held and (app.abandoned or app.state != "queued")]
    attempts = _attempts({app.app_id: app.scheduler for app in others})
    waiting = [attempts[app.app_id] for app in others if not app.abandoned and app.app_id in attempts]
    states = _states([need for attempt in waiting for need in attempt.needs]) if waiting else {}
    for app in others:
        attempt = attempts.get(app.app_id)
        if app.abandoned:
            again = f": {apply_command(attempt)}" if attempt else ""
            app.message = f"the process that would start it has died{again}"
        elif attempt is not None:
            needs = [(each.job, states[each.app_id]) for each in attempt.needs]
            left = [f"{job} ({state})" for job, state in needs if state != "succeeded"]
            app.message = f"waits for {', '.join(left)}" if left else "is about to start"


_DONE = ("succeeded", "unknown")
"""The states of needs that a skipped app no longer waits for."""


def what_starts(app: AppRecord) -> str:
    """Return the event that would start a skipped app, as a phrase; "" for other apps and withdrawn ones."""
    job = app.message.partition(" ")[0]
    is_skipped = app.state == "skipped"
    attempt = _attempts({app.app_id: app.scheduler}).get(app.app_id) if is_skipped else None
    if attempt is None or job not in {need.job for need in attempt.needs}:
        return ""
    states = _states(attempt.needs)
    left = [each.job for each in attempt.needs if each.job == job or states[each.app_id] not in _DONE]
    jobs = " and ".join(left) if len(left) <= 2 else some_of(left, 2)
    return f"when {jobs} {'succeeds' if len(left) == 1 else 'succeed'}: {apply_command(attempt)}"


def apply_command(attempt: Attempt, *options: str) -> str:
    """The apply of an attempt's job file, as it can be typed in the current directory.

    In another checkout than that of the attempt, the path is the one below the top folder.
    """
    from launcher.specs.jobkey import DEFAULT_TARGET

    path = attempt.path
    try:
        here = os.getcwd()
    except FileNotFoundError:  # the current directory was removed
        here = "/"
    is_folder = os.path.isabs(attempt.origin)
    if top := os.path.realpath(attempt.origin) if is_folder else _checkout(here, attempt.origin):
        path = os.path.join(top, path)
        path = os.path.relpath(path, here) if is_below(here, top) else path
    target = () if attempt.key.target == DEFAULT_TARGET else ("--target", attempt.key.target)
    return " ".join(["launcher apply", typed(path), *options, *target])


def _checkout(folder: str, origin: str) -> str:
    """The top folder of the checkout of an origin that holds a folder; "" for any other folder."""
    from launcher import git

    tree = git.repository(folder)
    try:
        return tree.root if tree is not None and tree.origin == origin else ""
    except CommandError:
        return ""


def _states(needs: Sequence[StoodOn]) -> dict[str, str]:
    """Return app id → the state of the needed attempt."""
    known = recorded.apps(need.app_id for need in needs)
    states = {
        each.app_id: f"{each.state}, and its process has died" if each.abandoned else each.state
        for each in current([*known.values()])
    }
    unknown = {need.app_id: need.scheduler for need in needs if need.app_id not in states}
    elsewhere = _attempts(unknown)
    return states | {each: elsewhere[each].state if each in elsewhere else "unknown" for each in unknown}


def _attempts(wanted: Mapping[str, str]) -> dict[str, Attempt]:
    """Return app id → the attempt on record, else from its engine; absent where neither knows it.

    Args:
        wanted: app id → scheduler.
    """
    found = recorded.attempts(wanted) if wanted else {}
    away = set()  # schedulers that are not asked again: each request may take a minute to fail
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
