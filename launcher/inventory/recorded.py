"""What this state folder has on record of apps. No scheduler is asked, and nothing is written.

Light: nothing here loads the specs.
"""

from __future__ import annotations

from launcher.schedulers.appstore import open_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord


def newest(limit: int | None, scheduler: str | None = None) -> list[AppRecord]:
    """The newest apps, the newest first.

    Args:
        limit: how many; None for all.
        scheduler: only its apps.
    """
    with open_store(readonly=True) as store:
        return store.newest(limit, scheduler)


def live() -> list[AppRecord]:
    """The apps that have no recorded end, the newest first."""
    with open_store(readonly=True) as store:
        return store.live()


def app(app_id: str, handle: str = "") -> AppRecord | None:
    """The app with this id; where a handle is given, only if the app has it."""
    with open_store(readonly=True) as store:
        found = store.app(app_id)
    return found if found is not None and handle in ("", found.handle) else None


def find(job: str, *, number: int | None = None) -> list[AppRecord]:
    """The latest attempt (or attempt `number`) of every job of that name in any project, newest first."""
    with open_store(readonly=True) as store:
        return store.find(job, number=number)


def attempt(app_id: str) -> Attempt | None:
    """The attempt of a job, with its document."""
    with open_store(readonly=True) as store:
        return store.by_app_id(app_id)
