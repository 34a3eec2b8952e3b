"""SchedulerFactory, separate from the registry: commands that look up a scheduler import no `typing`."""

from __future__ import annotations

from typing import Any, Protocol

from launcher.schedulers.api import Scheduler


class SchedulerFactory(Protocol):
    """Makes a scheduler: what an entry point of the group `launcher.schedulers` names."""

    def __call__(self, session_name: str, **kwargs: Any) -> Scheduler[Any]: ...
