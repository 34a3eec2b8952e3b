"""List apps: recorded ones, with live ones refreshed. Records outcomes that were not recorded yet."""

from __future__ import annotations

from launcher.inventory import recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.api import Scheduler
    from launcher.state.records import AppRecord

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
        from launcher.schedulers.registry import get_scheduler

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


def say_why_held(apps: Sequence[AppRecord]) -> None:
    """Set the messages of the held apps among these; see `needs.say_why_held`."""
    held = [app for app in apps if app.is_held]
    if held:
        from launcher.inventory import needs

        needs.say_why_held(held, current)


def current(apps: Sequence[AppRecord], *, warn: Warn | None = None) -> list[AppRecord]:
    """The present records of these apps in their order, without replicas. `warn`: see `newest`."""

    def read() -> list[AppRecord]:
        known = recorded.apps(app.app_id for app in apps)
        return [known[app.app_id] if _is_known(app, known) else app for app in apps]

    return _present(read, warn)


def _is_known(app: AppRecord, known: Mapping[str, AppRecord]) -> bool:
    """Whether an app is recorded: an app of another session may have the same id."""
    return app.app_id in known and known[app.app_id].handle == app.handle


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
    from launcher.errors import LauncherError
    from launcher.schedulers.registry import get_scheduler

    try:
        scheduler = get_scheduler(name, "")
        try:
            for each in scheduler.refresh(app_ids):
                seen[each.app_id] = each
        finally:
            ended = [seen[each] for each in app_ids if each in seen and seen[each].has_ended]
            if scheduler.shared_engine and ended:  # `record_ends` would query the engine again
                from launcher.inventory.ends import record_all

                record_all(ended)
                ended = []
        if ended or not all(each in seen for each in app_ids):
            from launcher.inventory.ends import record_all, record_ends

            record_ends((name,))
            record_all(ended)  # also apps without a job, which `record_ends` skips
            return True
    except LauncherError as error:
        left = sum(each not in seen for each in app_ids)
        if warn is not None and left:
            what = f"1 app of {name} is" if left == 1 else f"{left} apps of {name} are"
            warn(f"{what} shown in the last known state: {error}")
    return False


def _others_of(project: str, warn: Warn | None) -> list[AppRecord]:
    """The apps of a project that only shared engines know."""
    from launcher.errors import LauncherError
    from launcher.inventory.recorded import schedulers

    found: list[AppRecord] = []
    for scheduler in schedulers(detach=True, readonly=True):
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
        from launcher.inventory.ends import record_ends

        record_ends((name,))
        apps = {each.handle: each for each in recorded.newest(None, name)}
    for seen in listed:
        app = apps.setdefault(seen.handle, seen)
        if (app.state, seen.state) != ("lost", "failed"):  # `list` reports lost apps as failed
            app.state, app.abandoned = seen.state, seen.abandoned
    return sorted(apps.values(), key=lambda each: each.created_at or 0.0, reverse=True)
