"""Access to the installed schedulers."""

from __future__ import annotations

from launcher.errors import LauncherError
from launcher.schedulers.registry import get_scheduler, get_scheduler_factories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from launcher.schedulers.api import Scheduler
    from launcher.state.records import AppRecord


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
