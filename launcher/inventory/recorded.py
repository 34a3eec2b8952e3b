"""Read recorded apps from the state folder: contacts no scheduler, writes nothing, imports no specs."""

from __future__ import annotations

from launcher.errors import LauncherError
from launcher.schedulers.registry import get_scheduler, get_scheduler_factories, open_reader, open_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    from launcher.schedulers.api import Scheduler
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord


def newest(
    limit: int | None,
    scheduler: str | None = None,
    *,
    project: str | None = None,
    states: Collection[str] = (),
) -> list[AppRecord]:
    """The newest apps, the newest first.

    Args:
        limit: how many; None for all.
        scheduler: only its apps.
        project: only apps of its jobs.
        states: only apps in one of these states; all when empty.
    """
    with open_reader() as store:
        return store.newest(limit, scheduler, project=project, states=states)


def live() -> list[AppRecord]:
    """The apps that have no recorded end, the newest first."""
    with open_reader() as store:
        return store.live()


def ended(words: Collection[str] = (), states: Collection[str] = ()) -> array[int]:
    """The places of the apps that have ended, the last to end first; see `Reader.ended`."""
    with open_reader() as store:
        return store.ended(words, states)


def at(places: Iterable[int]) -> list[AppRecord]:
    """The apps at places of `ended`, in their order; apps that were removed since are absent."""
    with open_reader() as store:
        return store.at(places)


def app(app_id: str, handle: str = "") -> AppRecord | None:
    """The app with this id and, if given, this handle."""
    with open_reader() as store:
        found = store.app(app_id)
    return found if found is not None and handle in ("", found.handle) else None


def apps(app_ids: Iterable[str]) -> dict[str, AppRecord]:
    """App id → the app; ids of unknown apps are absent. One query."""
    with open_reader() as store:
        return store.of_ids(app_ids)


def attempt(app_id: str) -> Attempt | None:
    """The attempt of a job, with its document."""
    return attempts((app_id,)).get(app_id)


def attempts(app_ids: Iterable[str]) -> dict[str, Attempt]:
    """App id → its attempt; ids of apps without a job are absent. One query."""
    with open_store(readonly=True) as store:
        return store.by_app_ids(app_ids)


def scheduler_of(app: AppRecord) -> Scheduler[Any]:
    """The scheduler that runs an app. Raises UnknownSchedulerException."""
    return get_scheduler(app.scheduler, app.session)


def schedulers(names: Iterable[str] | None = None, **params: Any) -> Iterator[Scheduler[Any]]:
    """The named schedulers, or all, built-in ones first. Schedulers that cannot be loaded are skipped.

    Args:
        params: for their factories.
    """
    for name in get_scheduler_factories() if names is None else names:
        try:
            made = get_scheduler(name, "", **params)
        except LauncherError:
            continue
        yield made


def with_apps_here() -> list[str]:
    """The names of the schedulers that may have apps in this state folder."""
    return [each.backend for each in schedulers() if each.has_apps_here()]
