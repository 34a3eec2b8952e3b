"""The Runner: one app at a time, on any scheduler. Dry run, submit, status, logs, cancel. Loads fast."""

from __future__ import annotations

import builtins
import os
import re
import warnings
from _thread import RLock
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from launcher import components
from launcher.dataclass import replace
from launcher.errors import LauncherError, SchedulerError
from launcher.schedulers.api import Scheduler, validate
from launcher.schedulers.logs import LogPart, filter_regex, stream_name, stream_of, text_lines
from launcher.schedulers.responses import NOT_SET, ListAppResponse, Stream
from launcher.specs.app import AppDef, AppDryRunInfo, CfgVal
from launcher.specs.binding import bind_launch
from launcher.specs.check import check_app
from launcher.specs.jobkey import (
    UnknownAppException,
    UnknownSchedulerException,
    make_app_handle,
    parse_app_handle,
)
from launcher.specs.launch import Launch
from launcher.specs.runopts import runopts
from launcher.specs.status import AppStatus

if TYPE_CHECKING:
    from launcher.schedulers.api import SchedulerFactory
    from launcher.schedulers.staged import OnImage


PARENT_RUN_ID = "LAUNCHER_PARENT_RUN_ID"


class InvalidAppException(LauncherError, ValueError):
    """The app is invalid; the message names every problem."""


class Runner:
    """Submits apps to schedulers and controls them.

    A context manager: leaving it closes the schedulers, which cancels running attached apps. It never edits
    a caller's AppDef, and stores none. Several threads may use it at once.

    Args:
        name: the session in the handles of the apps that this runner submits.
        scheduler_factories: scheduler name → factory(session_name, **params), called on first use.
        component_defaults: component name → parameter → default.
        scheduler_params: keywords for every factory.
        detach: whether apps outlive this process. Otherwise running apps are cancelled at its end.
        queue: whether apps wait in line for the cores, memory and GPUs that they ask for. `schedule` then
            returns once an app is in line. Otherwise apps start at once, over capacity too.

    Attributes:
        on_progress: called with app id ("" before there is one), kind and facts while images are pulled,
            built and pushed; see `launcher.schedulers.staged.OnImage`. From any thread.
    """

    def __init__(
        self,
        name: str,
        scheduler_factories: Mapping[str, SchedulerFactory],
        component_defaults: Mapping[str, Mapping[str, Any]] | None = None,
        scheduler_params: Mapping[str, Any] | None = None,
        *,
        detach: bool = False,
        queue: bool = False,
    ) -> None:
        _check_types(name=(name, str, "text"))
        if name != name.strip() or "/" in name or name.startswith(".") or not name.isprintable():
            raise LauncherError(f"`{name}` cannot be a session: no slash, leading dot or blank around it")
        self._name = name
        self._factories = scheduler_factories
        self._component_defaults = dict(component_defaults or {})
        self._params = {**(scheduler_params or {}), "detach": detach}
        self._queue = queue
        self._schedulers: dict[str, Scheduler[Any]] = {}
        self._making = RLock()
        self._is_closed = False
        self.on_progress: OnImage | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the schedulers in use, each of them even where another fails. May be called twice.

        A closed runner starts no app, since nothing would cancel it; status, logs and cancel still work.
        """
        self._is_closed = True
        while self._schedulers:
            _, scheduler = self._schedulers.popitem()
            try:
                scheduler.close()
            except BaseException:
                self.close()
                raise

    def name(self) -> str:
        """The session in the handles of this runner's apps."""
        return self._name

    # Submitting

    def run(
        self,
        app: AppDef,
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: object | None = None,
        parent_run_id: str | None = None,
    ) -> str:
        """Submit `app` and return its handle, `SCHEDULER://SESSION/APP_ID`. See `dryrun` for the arguments
        and the refusals. Raises SchedulerError when the app cannot be started; the app is then removed."""
        if not workspace:
            return self.schedule(self.dryrun(app, scheduler, cfg, None, parent_run_id))
        from launcher.schedulers.workspaces import built_with

        engine, launched, options = self._checked(app, scheduler, cfg, parent_run_id)
        return self._start(scheduler, engine, lambda: built_with(engine, launched, options, workspace))

    def run_component(
        self,
        component: str,
        component_args: Sequence[str] | Mapping[str, Any],
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: object | None = None,
        parent_run_id: str | None = None,
    ) -> str:
        """Submit the app that a component makes and return its handle. See `dryrun_component`."""
        app = self._app_of(component, component_args)
        return self.run(app, scheduler, cfg, workspace, parent_run_id)

    def dryrun_component(
        self,
        component: str,
        component_args: Sequence[str] | Mapping[str, Any],
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: object | None = None,
        parent_run_id: str | None = None,
    ) -> AppDryRunInfo[Any]:
        """The request that `run_component` would send to the scheduler.

        Args:
            component: `utils.echo`, the name of one that a package registered, or `file.py:function`.
            component_args: command-line arguments (a list), or a value per parameter (a dict).

        Raises ComponentNotFoundException, ComponentValidationException, ComponentArgumentException, the
        component's own exceptions, and those of `dryrun`.
        """
        app = self._app_of(component, component_args)
        return self.dryrun(app, scheduler, cfg, workspace, parent_run_id)

    def _app_of(self, component: str, arguments: Sequence[str] | Mapping[str, Any]) -> AppDef:
        _check_types(component=(component, str, "text"))
        words, values = ([], arguments) if isinstance(arguments, Mapping) else (arguments, None)
        defaults = self._component_defaults.get(component)
        return components.materialize_appdef(components.get_component(component).fn, words, defaults, values)

    def dryrun(
        self,
        app: AppDef,
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: object | None = None,
        parent_run_id: str | None = None,
    ) -> AppDryRunInfo[Any]:
        """The request that `run` would send to the scheduler, for `schedule` or for reading: `print(info)`.

        Args:
            cfg: run options of the scheduler (`scheduler_run_opts`).
            workspace: files that every role gets when the app is scheduled: the path of a folder, a
                `launcher.workspace.Workspace`, or its text; "" is none. On local_cwd replicas run in the
                folder itself.
            parent_run_id: LAUNCHER_PARENT_RUN_ID of the replicas; by default that of this process.

        Raises InvalidAppException, UnknownSchedulerException, InvalidRunConfigException; SchedulerError for
        a workspace where the scheduler cannot build one.
        """
        engine, launched, options = self._checked(app, scheduler, cfg, parent_run_id)
        if workspace:
            from launcher.schedulers.workspaces import dryrun_with

            info = dryrun_with(engine, launched, options, workspace)
        else:
            info = engine.submit_dryrun(launched, options)
        return info.completed(scheduler=scheduler)  # the name in this runner, not the scheduler's own

    def dryrun_launch(
        self,
        launch: Launch,
        scheduler: str | None = None,
        cfg: Mapping[str, CfgVal] | None = None,
        parent_run_id: str | None = None,
    ) -> AppDryRunInfo[Any]:
        """`dryrun` for one job of a job file, as `launcher.load_job` gives it, with `cfg` over its run
        options.

        Another `scheduler` than the job's own gets none of these. Raises what `dryrun` does, and
        InvalidRunConfigException for a timeout that the scheduler cannot keep.
        """
        name = scheduler or launch.scheduler
        engine = self._scheduler(name)
        given = {**(launch.cfg if name == launch.scheduler else {}), **_options(cfg)}
        bound = bind_launch(launch, opts=engine.run_opts(), home=os.path.expanduser("~"), cfg=given)
        workspace = None
        if bound.workspace is not None:
            from launcher.schedulers.workspaces import workspace_for

            workspace = workspace_for(engine, bound.workspace)
        return self.dryrun(bound.app, name, bound.cfg, workspace, parent_run_id)

    def _checked(
        self, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal] | None, parent_run_id: str | None
    ) -> tuple[Scheduler[Any], AppDef, dict[str, CfgVal]]:
        """The scheduler, the app as it is launched there, and its run options as given."""
        if not isinstance(app, AppDef):
            raise InvalidAppException(f"want an AppDef, got {app!r}")
        if problems := check_app(app):
            lines = [f"{'.'.join(map(str, problem.path))}: {problem.message}" for problem in problems]
            raise InvalidAppException(f"app `{app.name}` cannot be run:\n  " + "\n  ".join(lines))
        engine = self._scheduler(scheduler)
        options = _options(cfg)
        resolved = engine.resolved(options)
        launched = app
        if parent := os.environ.get(PARENT_RUN_ID) or parent_run_id:
            roles = [replace(role, env={**role.env, PARENT_RUN_ID: parent}) for role in app.roles]
            launched = replace(app, roles=roles)
        engine._pre_build_validate(launched, scheduler, resolved)
        validate(engine, launched, resolved)
        return engine, launched, options

    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        """Submit what `dryrun` made and return the handle; each call submits another app. Raises
        LauncherError for a dry run that no Runner made, SchedulerError when the app cannot be started."""
        if not isinstance(dryrun_info, AppDryRunInfo):
            raise LauncherError(f"want a dry run, got {dryrun_info!r}", hint="make it with Runner.dryrun")
        scheduler = dryrun_info.scheduler
        if scheduler is None:
            raise LauncherError("this dry run names no scheduler", hint="make it with Runner.dryrun")
        return self._start(scheduler, self._scheduler(scheduler), dryrun_info.built)

    def _start(self, scheduler: str, engine: Any, build: Callable[[], AppDryRunInfo[Any]]) -> str:
        """Submit the request of `build` and return the handle."""
        if self._is_closed:
            raise LauncherError("this Runner is closed: it starts no app", hint="make another: get_runner()")
        if self.on_progress is not None and hasattr(engine, "on_progress"):
            engine.on_progress = self.on_progress
        app_id: str = engine.schedule(build())
        if self._is_closed and not self._params["detach"]:  # in another thread, which has not seen the app
            engine.cancel(app_id)
            raise LauncherError(f"the Runner was closed while app `{app_id}` started: it is cancelled")
        return self._handle(scheduler, app_id)

    # One app

    def status(self, app_handle: str) -> AppStatus | None:
        """The status of the app; None when its scheduler does not know it.

        Raises MalformedAppHandleException, UnknownSchedulerException; SchedulerError when the scheduler does
        not answer: an unknown state is never reported as an end.
        """
        engine, app_id = self._locate(app_handle)
        found = engine.describe(app_id)
        return None if found is None else found.status()

    def wait(
        self, app_handle: str, wait_interval: float = 10, *, timeout_s: float | None = None
    ) -> AppStatus | None:
        """Block until the app has ended; None when its scheduler does not know it. Raises what `status` does.

        Args:
            wait_interval: accepted for compatibility; the scheduler waits for an event, or chooses it.
            timeout_s: after this many seconds the present status is returned, which is not terminal.
        """
        _check_types(timeout_s=(timeout_s, int | float | None, "a number of seconds"))
        engine, app_id = self._locate(app_handle)
        found = engine.wait(app_id, timeout_s)
        return None if found is None else found.status()

    def cancel(self, app_handle: str) -> None:
        """Stop the app and return when it has stopped. An ended or unknown app is ignored.

        Its processes get SIGTERM, and SIGKILL after the grace period of the app (run option `grace_s`).
        Raises what `status` does.
        """
        status = self.status(app_handle)
        if status is not None and not status.is_terminal():
            engine, app_id = self._locate(app_handle)
            engine.cancel(app_id)

    def leave(self, app_handle: str) -> None:
        """Let an app run on when this runner is closed, where its scheduler can do that."""
        engine, app_id = self._locate(app_handle)
        engine.leave(app_id)

    def stop(self, app_handle: str) -> None:
        """The old name of `cancel`."""
        warnings.warn("Runner.stop is now Runner.cancel", PendingDeprecationWarning, stacklevel=2)
        self.cancel(app_handle)

    def describe(self, app_handle: str) -> AppDef | None:
        """The app as its scheduler knows it; None when it does not. Raises what `status` does."""
        engine, app_id = self._locate(app_handle)
        found = engine.describe(app_id)
        if found is None:
            return None
        return AppDef(name=found.name or app_id, roles=found.roles, metadata=dict(found.metadata))

    def log_lines(
        self,
        app_handle: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | str | None = None,
        *,
        restart: int | None = None,
    ) -> Iterator[str]:
        """The lines that replica `k` of a role wrote, each with its newline.

        Args:
            k: 0, 1, … within the role.
            regex: only the lines in which it is found (`re.search`).
            since, until: only the lines written between; without a time zone they are local time.
            should_tail: go on until the app has ended.
            streams: stdout or stderr alone, as a Stream or its name; both in the order of writing without it.
            restart: only the lines of this restart; 0 is the first run.

        Raises UnknownAppException at the call, not at the first line, SchedulerError for a role, replica or
        restart that the app does not have, LogsUnsupported for a restart where the scheduler does not know
        their times, UsageError for an unknown stream, and what `status` does.
        """
        _check_types(
            role_name=(role_name, str, "text"),
            k=(k, int, "an integer"),
            regex=(regex, str | re.Pattern | None, "text"),
            since=(since, datetime | None, "a datetime"),
            until=(until, datetime | None, "a datetime"),
        )
        if regex is not None:
            _checked(regex)
        engine, app_id = self._locate(app_handle)
        if not engine.exists(app_id):
            raise UnknownAppException(app_handle)
        stream = None if streams is None else stream_of(streams)
        if restart is None:
            lines = engine.log_iter(app_id, role_name, k, regex, since, until, should_tail, streams=stream)
            return iter(lines)
        first, last = (None if moment is None else moment.timestamp() for moment in (since, until))
        part = LogPart(stream_name(stream), first, last, follow=should_tail)
        found = engine.logs(app_id).records_of_run((role_name, k), restart, part)
        if found is None:
            raise SchedulerError(f"{role_name}/{k} of {app_id} has no output of restart {restart}")
        of_restart = text_lines(record.data for record in found)
        return of_restart if regex is None else filter_regex(regex, of_restart)

    # Schedulers

    def list(self, scheduler: str) -> builtins.list[ListAppResponse]:
        """Every app that the scheduler knows of, with its handle. Raises UnknownSchedulerException;
        SchedulerError where it does not answer."""
        apps = self._scheduler(scheduler).list()
        return [
            replace(app, app_handle=self._handle(scheduler, app.app_id)) if app.app_handle == NOT_SET else app
            for app in apps
        ]

    def scheduler_backends(self) -> builtins.list[str]:
        """The names of all schedulers; none of them is made or asked."""
        return [*self._factories]

    def scheduler_run_opts(self, scheduler: str) -> runopts:
        """The run options of a scheduler: names, types, defaults, help. Raises UnknownSchedulerException."""
        return self._scheduler(scheduler).run_opts()

    def cfg_from_str(self, scheduler: str, *cfg_literals: str) -> dict[str, CfgVal]:
        """Run options out of texts like `"log_dir=/tmp/logs,prepend_cwd=true"`; later ones win. Raises
        UnknownSchedulerException; InvalidRunConfigException for an unknown option, with the nearest name, and
        for a value of another type.
        """
        opts = self.scheduler_run_opts(scheduler)
        merged: dict[str, CfgVal] = {}
        for literal in cfg_literals:
            merged.update(opts.cfg_from_str(literal))
        return merged

    def _scheduler(self, name: str) -> Scheduler[Any]:
        """The scheduler of that name, made on first use. Raises UnknownSchedulerException."""
        with self._making:
            made = self._schedulers.get(name)
            if made is None:
                if name not in self._factories:
                    raise UnknownSchedulerException(name, self._factories)
                made = self._schedulers[name] = self._factories[name](self._name, **self._params)
                if self._queue:
                    made.in_turn = True
            return made

    def _locate(self, app_handle: str) -> tuple[Scheduler[Any], str]:
        """Scheduler and app id. The session may be any: apps of a job file have their project's."""
        parsed = parse_app_handle(app_handle)
        return self._scheduler(parsed.scheduler_backend), parsed.app_id

    def _handle(self, scheduler: str, app_id: str) -> str:
        return make_app_handle(scheduler, self._name, app_id)


def _options(cfg: Mapping[str, CfgVal] | None) -> dict[str, CfgVal]:
    if cfg is not None and not isinstance(cfg, Mapping):
        raise LauncherError(f"run options are a dict, got {cfg!r}", hint="Runner.cfg_from_str reads text")
    for name in cfg or ():
        if not isinstance(name, str):
            raise LauncherError(f"names of run options are text, got {name!r}")
    return dict(cfg or {})


def _check_types(**arguments: tuple[object, Any, str]) -> None:
    """Raise LauncherError for an argument of another type: name → (value, type, words for the type)."""
    for name, (value, kind, want) in arguments.items():
        if not isinstance(value, kind):
            raise LauncherError(f"{name} is {want}, got {value!r}")


def _checked(regex: str) -> None:
    try:
        re.compile(regex)
    except re.error as error:
        raise LauncherError(f"`{regex}` is no regular expression: {error}") from None
