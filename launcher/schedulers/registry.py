"""Map names of schedulers to factories: built-in factories, imported on use, and those of entry points.

The module also gives the compiler the schedulers' options and rules, and the store their apps.
A built-in name is looked up without a search for entry points, which takes longer than most commands.
"""

from __future__ import annotations

from _collections_abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from launcher.schedulers.api import Scheduler, SchedulerFactory
    from launcher.specs.app import AppDef
    from launcher.specs.check import Problem
    from launcher.specs.runopts import runopts
    from launcher.state.reader import Reader
    from launcher.state.records import AppRecord
    from launcher.state.store import Store

GROUP = "launcher.schedulers"

DEFAULT_SCHEDULERS = {
    "local_cwd": "launcher.schedulers.local.scheduler:create_scheduler",
    "local_dir": "launcher.schedulers.local.scheduler:create_dir_scheduler",
    "local_docker": "launcher.schedulers.docker.scheduler:create_scheduler",
    "slurm": "launcher.schedulers.slurm.scheduler:create_scheduler",
}
"""Scheduler name → "module:function"; the first one is the default, DEFAULT_SCHEDULER of the specs."""

DEFAULT_SCHEDULER_MODULES = {
    "local_cwd": "launcher.schedulers.local_scheduler",
    "local_docker": "launcher.schedulers.docker_scheduler",
}
"""Scheduler name → module with a `create_scheduler`, where there is one for the name alone."""

APP_SOURCES = {
    "local": "launcher.schedulers.local.observe:apps",
    "docker": "launcher.schedulers.docker.record:apps",
    "slurm": "launcher.schedulers.slurm.known:apps",
}
"""Folder below LAUNCHER_HOME → function of the built-in scheduler that yields every app with a record there:
see `every_app`."""

SHARED_ENGINES = {
    "local_docker": "launcher.schedulers.docker:shared_engine",
    "slurm": "launcher.schedulers.slurm.known:shared_engine",
}
"""Scheduler name → function that returns its `Scheduler.shared_engine`, for which no scheduler is loaded."""


class SchedulerFactories(Mapping[str, "SchedulerFactory"]):
    """Scheduler name → factory, which imports its module when it is called; built-in ones come first.

    Args:
        guarded: turn the faults of installed packages into errors that name them, as commands want.
    """

    def __init__(self, group: str = GROUP, *, skip_defaults: bool = False, guarded: bool = False) -> None:
        self._group = group
        self._guarded = guarded
        self._ours = {} if skip_defaults else {n: _deferred(home) for n, home in DEFAULT_SCHEDULERS.items()}
        self._all: dict[str, SchedulerFactory] | None = None

    def _everything(self) -> dict[str, SchedulerFactory]:
        if self._all is None:
            from launcher.schedulers.plugin import factories, guarding

            found = factories(self._group)
            if self._guarded:
                found = {name: guarding(factory, name) for name, factory in found.items()}
            self._all = {**self._ours, **found, **self._ours}
        return self._all

    def __getitem__(self, name: str) -> SchedulerFactory:
        return self._ours[name] if name in self._ours else self._everything()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._ours or name in self._everything()

    def __iter__(self) -> Iterator[str]:
        return iter(self._everything())

    def __len__(self) -> int:
        return len(self._everything())


def _deferred(home: str) -> SchedulerFactory:
    return lambda session_name, **params: imported(home)(session_name, **params)


def imported(home: str) -> Callable[..., Any]:
    """Return the function that a table names as "module:function"; loads its module."""
    module, _, name = home.partition(":")
    found: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)
    return found


def get_scheduler_factories(
    group: str = GROUP, skip_defaults: bool = False
) -> Mapping[str, SchedulerFactory]:
    """Every scheduler: the built-in ones and those that installed packages add under `group`."""
    return SchedulerFactories(group, skip_defaults=skip_defaults)


def get_default_scheduler_name() -> str:
    """The default scheduler, when neither a file nor a command line names one: `local_cwd`."""
    return next(iter(DEFAULT_SCHEDULERS))


def get_scheduler(name: str, session_name: str, **params: Any) -> Scheduler[Any]:
    """A scheduler by its name. Raises UnknownSchedulerException, SchedulerError for a broken plug-in; a fault
    of its methods is a PluginError."""
    factories = SchedulerFactories(guarded=True)
    if name not in factories:
        from launcher.specs.jobkey import UnknownSchedulerException

        raise UnknownSchedulerException(name, factories)
    return factories[name](session_name, **params)


# -- for the compiler of job files ---------------------------------------------------------------------------


class SchedulerRules(Mapping[str, "Callable[[], runopts]"]):
    """Scheduler name → function that returns its run options. Makes a scheduler when a job file names it."""

    def __init__(self) -> None:
        self._factories = SchedulerFactories(guarded=True)
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
        from launcher.dataclass import replace
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


# -- the store of all apps -----------------------------------------------------------------------------------


def open_reader() -> Reader:
    """The store in LAUNCHER_HOME, for reading records; see `open_store`."""
    from launcher.state.reader import Reader

    return Reader.open(readonly=True, source=every_app)


def open_store(*, readonly: bool = False, durable: bool = True) -> Store:
    """The store in LAUNCHER_HOME; a new one gets a row for every app that a scheduler has a record of."""
    from launcher.state.store import Store

    return Store.open(readonly=readonly, durable=durable, source=every_app)


def every_app() -> Iterator[tuple[AppRecord, bool]]:
    """The apps that schedulers have records of, each with whether its end is still to be recorded."""
    from os.path import isdir, join

    from launcher.paths import home

    for folder, source in APP_SOURCES.items():
        if isdir(join(home(), folder)):
            yield from imported(source)()
