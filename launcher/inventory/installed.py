"""The schedulers there are, none of them by its name."""

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
    """The named schedulers, or all of them, ours first. What cannot be loaded is left out.

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
    """The names of the schedulers of which this state folder may hold something."""
    return [each.backend for each in schedulers() if each.has_apps_here()]
