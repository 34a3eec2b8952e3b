"""What this state folder has on record of apps. No scheduler is asked, and nothing is written.

Light: nothing here loads the specs.
"""

from __future__ import annotations

from launcher.schedulers.appstore import open_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord


def newest(limit: int | None, scheduler: str | None = None) -> list[AppRecord]:
    """The newest apps, the newest first.

    Args:
        limit: how many; None for all.
        scheduler: only its apps.
    """
    with open_store(readonly=True) as store:
        apps = store.newest(limit, scheduler)
        docker = [] if scheduler else _of_docker(apps)
        docker = [each for each in docker if store.app(each.app_id) is None]
    return _merged(apps, docker)[:limit]


def live() -> list[AppRecord]:
    """The apps that have no recorded end, the newest first."""
    with open_store(readonly=True) as store:
        apps = store.live()
        docker = [each for each in _of_docker(apps) if each.is_live]
        docker = [each for each in docker if store.app(each.app_id) is None]
    return _merged(apps, docker)


def app(app_id: str, handle: str = "") -> AppRecord | None:
    """The app with this id; where a handle is given, only if the app has it."""
    with open_store(readonly=True) as store:
        found = store.app(app_id)
    if found is None:
        found = _one_of_docker(app_id)
    return found if found is not None and handle in ("", found.handle) else None


def find(job: str, *, number: int | None = None) -> list[AppRecord]:
    """The latest attempt (or attempt `number`) of every job of that name in any project, newest first."""
    with open_store(readonly=True) as store:
        return store.find(job, number=number)


def attempt(app_id: str) -> Attempt | None:
    """The attempt of a job, with its document."""
    with open_store(readonly=True) as store:
        return store.by_app_id(app_id)


def _merged(*sources: Iterable[AppRecord]) -> list[AppRecord]:
    """One record per app, the newest first; an earlier source says more than a later one."""
    found: dict[str, AppRecord] = {}
    for source in sources:
        for each in source:
            found.setdefault(each.app_id, each)
    return sorted(found.values(), key=lambda each: each.created_at or 0.0, reverse=True)


def _has_docker() -> bool:
    from os.path import isdir, join

    from launcher import paths

    return isdir(join(paths.home(), "docker"))


def _of_docker(known: Iterable[AppRecord]) -> list[AppRecord]:
    """Apps in containers that the store does not know: no job file made them."""
    if not _has_docker():
        return []
    from launcher.schedulers.docker.records import kept

    return kept.read_all({each.app_id for each in known})


def _one_of_docker(app_id: str) -> AppRecord | None:
    if not _has_docker():
        return None
    from launcher.schedulers.docker.records import kept

    return kept.read(app_id)
