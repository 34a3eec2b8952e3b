"""The run options and rules of schedulers by their names, for compiling job files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from launcher.dataclass import replace
from launcher.schedulers.registry import DEFAULT_SCHEDULERS, get_scheduler_factories

if TYPE_CHECKING:
    from launcher.schedulers.api import Scheduler
    from launcher.specs.app import AppDef
    from launcher.specs.check import Problem
    from launcher.specs.runopts import runopts


class SchedulerRules(Mapping[str, "Callable[[], runopts]"]):
    """Scheduler name → function that gives its run options. Makes a scheduler when a job file names it."""

    def __init__(self) -> None:
        self._factories = get_scheduler_factories()
        self._schedulers: dict[str, Scheduler[Any]] = {}
        self._options: dict[str, runopts] = {}

    def __getitem__(self, name: str) -> Callable[[], runopts]:
        self._factories[name]  # a KeyError is raised here, not when the options are read
        return lambda: self._options_of(name)

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)

    def problems(self, name: str, app: AppDef, cfg: Mapping[str, Any], has_workspace: bool) -> list[Problem]:
        """The problems of an app on the scheduler of that name. See `Scheduler.app_problems`."""
        from launcher.schedulers.checks import BUILT_IMAGE, unsupported

        scheduler = self._scheduler(name)
        if has_workspace and scheduler.builds_workspaces:
            # The built image; its Dockerfile may name a base image other than the role's.
            app = replace(app, roles=[replace(role, image=role.image or BUILT_IMAGE) for role in app.roles])

        def supporting(field: str) -> list[str]:
            return [name for name in DEFAULT_SCHEDULERS if field in self._scheduler(name).supports]

        return [*unsupported(app, scheduler.supports, name, supporting), *scheduler.app_problems(app, cfg)]

    def unreadable(self, name: str, other: str) -> str:
        """The reason why apps of one scheduler cannot read output folders of another; "" when they can."""
        from launcher.schedulers.staged import StagedScheduler

        scheduler = self._scheduler(name)
        return scheduler.output_folders.unreadable(other) if isinstance(scheduler, StagedScheduler) else ""

    def _options_of(self, name: str) -> runopts:
        if name not in self._options:
            self._options[name] = self._scheduler(name).run_opts()
        return self._options[name]

    def _scheduler(self, name: str) -> Scheduler[Any]:
        if name not in self._schedulers:
            self._schedulers[name] = self._factories[name]("launcher")
        return self._schedulers[name]
