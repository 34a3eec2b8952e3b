"""The contract of a scheduler: the methods by which it runs apps.

A scheduler with `_submit_dryrun`, `schedule`, `describe`, `list` and `_cancel_existing` serves `launcher run`
and the Runner. Jobs can be planned and applied on a `StagedScheduler` (`schedulers.staged`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from launcher import hand_on
from launcher.errors import SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any, Generic, Protocol, TypeVar

    from launcher.errors import LauncherError
    from launcher.schedulers.logs import (
        filter_regex as filter_regex,
        split_lines as split_lines,
        split_lines_iterator as split_lines_iterator,
    )
    from launcher.schedulers.readback import AppLogs
    from launcher.schedulers.responses import (
        DescribeAppResponse as DescribeAppResponse,
        ListAppResponse as ListAppResponse,
        Stream as Stream,
    )
    from launcher.schedulers.workspaces import BoundWorkspace
    from launcher.specs.app import AppDef, AppDryRunInfo as AppDryRunInfo, CfgVal
    from launcher.specs.attempt import Attempt
    from launcher.specs.check import Problem
    from launcher.specs.jobkey import JobKey
    from launcher.specs.runopts import runopts
    from launcher.specs.status import AppState as AppState
    from launcher.state.records import AppRecord

    T = TypeVar("T")

    OnWait = Callable[[str, str], None]
    Known = Mapping[str, Attempt] | None
else:
    T, Protocol = None, object

    class Generic:
        """A substitute for `typing.Generic` without the import of `typing`: `Scheduler[X]` is Scheduler."""

        def __class_getitem__(cls, _parameters: object) -> type:
            return cls


DAYS_IN_2_WEEKS = 14


class ResourceRequired(SchedulerError, ValueError):
    """This scheduler places replicas by their resources, and a role has none."""


class Scheduler(ABC, Generic[T]):
    """Runs apps. `T` is the type of its requests, which `submit_dryrun` makes and `schedule` sends."""

    builds_workspaces = False
    """Whether the scheduler builds workspaces into images."""
    supports: Collection[str] = ()
    """The fields of roles marked `BY_CAPABILITY` that the scheduler takes. An app with others is refused."""
    workspace_option = ""
    """The run option for the working folder, for schedulers that run a workspace in place."""
    no_workspace_hint = "leave the workspace out, or use another scheduler"
    on_wait: OnWait | None = None
    """Called with an app id and the reason for waiting when stopping the app takes long."""
    describe_every_s = 0.25
    """How often, in seconds, a display of live apps may call `describe` for each of them."""
    in_turn = False
    """Whether the apps that `schedule` starts wait in line for their share of this machine, where apps take
    turns; otherwise each app takes its share at once, even beyond the capacity."""

    def __init__(self, backend: str, session_name: str) -> None:
        self.backend = backend
        self.session_name = session_name

    # Required methods

    @abstractmethod
    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[T]:
        """The request for `app` (`cfg` is resolved), under the symbolic app id. Writes and edits nothing."""

    @abstractmethod
    def schedule(self, dryrun_info: AppDryRunInfo[T]) -> str:
        """Start the request of a dry run, each time under a fresh app id, and return that id."""

    @abstractmethod
    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """The app in its present state; None when there is no such app."""

    @abstractmethod
    def list(self) -> list[ListAppResponse]:
        """Every app that this scheduler knows of, newest first."""

    @abstractmethod
    def _cancel_existing(self, app_id: str) -> None:
        """Stop an app that exists. An ended app keeps its outcome."""

    # Optional methods

    def _run_opts(self) -> runopts:
        """The run options that this scheduler understands."""
        from launcher.specs.runopts import runopts

        return runopts()

    def _pre_build_validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]) -> None:
        """Check the app before its workspace is built."""

    def _validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]) -> None:
        """Raise ResourceRequired for a role without a resource. Schedulers without placement override it."""
        from launcher.specs.app import NULL_RESOURCE

        for role in app.roles:
            if role.resource == NULL_RESOURCE:
                raise ResourceRequired(
                    f"role `{role.name}` of app `{app.name}` has no resource",
                    hint=f"{scheduler} needs to know what a replica takes; give the role a resource",
                )

    def checkout_folder(self, image: str, cfg: Mapping[str, CfgVal]) -> str | None:
        """The absolute folder of this machine that replicas of an image run in, with its files as they are.

        None where replicas run elsewhere: in a container, or on another machine. `cfg` need not be resolved.
        """
        return None

    def app_problems(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterable[Problem]:
        """The problems of a well-formed app on this scheduler, each with its path.

        `launcher validate` shows them in the job file. Contacts no engine. Paths begin with `roles` or, for a
        run option, with `cfg`. The code `unpinned-image` is a warning.
        """
        return ()

    def workspace_app(self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace) -> AppDef:
        """The app with images that hold the workspace. A new value; nothing is built."""
        raise NotImplementedError(f"{self.backend} says that it builds workspaces and has no workspace_app")

    def build_workspace(
        self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace, *, app_id: str = ""
    ) -> AppDef:
        """The app of `workspace_app`, with all of its images built.

        Args:
            app_id: the app that progress is reported for, if known.
        """
        return self.workspace_app(app, cfg, workspace)

    def workspace_notes(
        self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace
    ) -> Sequence[str]:
        """Notes for a plan: the requests of the app that have no effect because of its workspace."""
        return ()

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        """The lines of replica `k` of a role, each with its newline (the last one may have none).

        Each call gives new lines. With `should_tail` the iterator ends when the app has ended and everything
        was read; without it, at the end of the present log. `regex` is searched, not matched. Times without a
        zone are local time; bytes that are no UTF-8 become U+FFFD.
        """
        from launcher.schedulers import logs

        first, last = (None if moment is None else moment.timestamp() for moment in (since, until))
        part = logs.LogPart(logs.stream_name(streams), first, last, follow=should_tail)
        chunks = self.logs(app_id).chunks([(role_name, k)], part)
        lines = logs.text_lines(data for _, _, data in chunks)
        return logs.filter_regex(regex, lines) if regex else lines

    def logs(self, app_id: str) -> AppLogs:
        """The output of an app, and its restarts; see `AppLogs`. By default that of a `log_iter` of its own.

        Raises SchedulerError for an unknown app, here or when they are read.
        """
        from launcher.schedulers.readback import LineLogs, NoLogs

        has_lines = type(self).log_iter is not Scheduler.log_iter
        return LineLogs(self.backend, self.log_iter, app_id) if has_lines else NoLogs(self.backend)

    def wait_for_start(self, app_id: str) -> None:
        """Block while the app is held (see `launcher.state.records.WAITING`) and its holder lives.

        Returns at once where every app starts when it is submitted.
        """

    # For the commands: each has a default that uses `describe`, `list` and `wait`

    @property
    def shared_engine(self) -> str:
        """The name of its engine if the engine may have apps unknown to this state folder; "" otherwise."""
        return f"the engine of {self.backend}"

    def has_apps_here(self) -> bool:
        """Whether this state folder may hold records of its apps. Cheap: contacts no engine."""
        from launcher.state.reader import Reader

        with Reader.open(readonly=True) as store:
            return bool(store.newest(1, self.backend))

    def is_in_use(self) -> bool:
        """Whether the user has configured its engine or used it from this state folder. Asks no engine."""
        return self.has_apps_here()

    def refresh(self, app_ids: Iterable[str]) -> Iterable[AppRecord]:
        """Yield the present state of each app, without replicas, as cheaply as possible. Writes nothing.

        Unknown apps are left out, and so are apps whose end `reap` has yet to record. Unknown values are
        None. Raises LauncherError when the engine cannot be reached, after the apps known without it.
        """
        wanted = set(app_ids)
        for seen in self.records():
            if seen.app_id in wanted:
                ended = None if seen.is_live else self.record(seen.app_id)
                yield ended or seen

    def changed(self, app_ids: Collection[str], timeout_s: float = 0.0) -> Collection[str] | None:
        """The apps among these that may have changed since the last call; None if only the engine knows.

        Waits up to `timeout_s` for a change. An app that was not in the last call counts as changed.
        """
        return None

    def records(self) -> Sequence[AppRecord]:
        """Every app of `list` in its present state, without replicas."""
        from launcher.schedulers.responses import of_listed

        return [of_listed(answer, self.backend) for answer in self.list()]

    def record(self, app_id: str) -> AppRecord | None:
        """The app in its present state, with replicas and warnings; None when there is no such app."""
        from launcher.schedulers.responses import of_description

        answer = self.describe(app_id)
        if answer is None:
            return None
        record = of_description(answer, self.backend, self.session_name)
        record.warnings = tuple(self.warnings(app_id))
        return record

    def details(self, app_ids: Iterable[str]) -> Iterable[tuple[str, AppRecord | LauncherError | None]]:
        """Yield each app id with the app's `record`, or with the error if the app cannot be read."""
        from launcher.schedulers.many import in_turn

        return in_turn(self.record, app_ids)

    def wait_record(self, app_id: str, timeout_s: float | None = None) -> AppRecord | None:
        """`wait` for an app, and return its record; the scheduler decides whether the record has replicas."""
        from launcher.schedulers.responses import of_description

        answer = self.wait(app_id, timeout_s)
        return None if answer is None else of_description(answer, self.backend, self.session_name)

    def attempt(self, app_id: str) -> Attempt | None:
        """One attempt of a job in its present state; None without staged attempts. Writes nothing."""
        return None

    def observe(
        self, keys: Collection[JobKey], settled: Collection[str] = (), known: Known = None
    ) -> Sequence[Attempt]:
        """The known attempts of jobs; none without staged attempts. See `StagedScheduler.observe`."""
        return ()

    def attempts_of(self, keys: Collection[JobKey], settled: Collection[str] = ()) -> Sequence[Attempt]:
        """Find attempts as `observe` does; an attempt that has ended may still be reported as live."""
        return self.observe(keys, settled)

    def about(self, app_id: str) -> Mapping[str, Any]:
        """The recorded origin and document of an app. See `Attempt.about`."""
        attempt = self.attempt(app_id)
        return {} if attempt is None else attempt.about()

    def warnings(self, app_id: str) -> Sequence[str]:
        """Problems of an app that did not end it, such as output lost to a full disk."""
        return ()

    def close(self) -> None:
        """Release the resources of this object. May be called twice."""

    # Common to all schedulers

    def run_opts(self) -> runopts:
        """The run options of this scheduler, and of its workspace mixin. Override `_run_opts`, or this."""
        opts = self._run_opts()
        of_workspace = getattr(self, "workspace_opts", None)
        if of_workspace is not None:
            opts.update(of_workspace())
        return opts

    def resolved(self, cfg: Mapping[str, CfgVal]) -> Mapping[str, CfgVal]:
        """Run options, completed with defaults. Raises InvalidRunConfigException for wrong ones."""
        return self.run_opts().resolve(cfg)

    def submit(self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: object | None = None) -> str:
        """Dry run and schedule in one; returns the app id.

        Args:
            workspace: the files that every role of the app gets: the path of a folder, a
                `launcher.workspace.Workspace`, or its text; "" is none.

        Raises InvalidRunConfigException for wrong run options, SchedulerError for a workspace where none
        can be built, WorkspaceError for a workspace that cannot be read.
        """
        if not workspace:
            return self.schedule(self.submit_dryrun(app, cfg))
        from launcher.schedulers.workspaces import built_with

        return self.schedule(built_with(self, app, cfg, workspace))

    def submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[T]:
        """The request that `submit` would send. `app` and `cfg` are not changed.

        Raises InvalidRunConfigException for wrong run options, RejectedAppError for fields of roles that this
        scheduler does not support.
        """
        from launcher.schedulers.checks import check_problems, unsupported

        resolved = self.resolved(cfg)
        info = self._submit_dryrun(app, resolved)
        check_problems(app, unsupported(app, self.supports, self.backend))
        for role in app.roles:
            info = role.pre_proc(self.backend, info)
        return info.completed(app=app, cfg=resolved, scheduler=self.backend)

    def exists(self, app_id: str) -> bool:
        """Whether `describe` knows the app."""
        return self.describe(app_id) is not None

    def cancel(self, app_id: str, grace_s: float | None = None) -> None:
        """Stop the app if it exists. Cancelling an app that has ended does nothing.

        Args:
            grace_s: seconds that its replicas may take to end, instead of the app's own grace period.
        """
        if grace_s is not None:
            raise SchedulerError(
                f"{self.backend} cannot change the grace period of an app", hint="cancel it without one"
            )
        if self.exists(app_id):
            self._cancel_existing(app_id)

    def cancel_all(
        self, app_ids: Iterable[str], grace_s: float | None = None
    ) -> Iterator[tuple[str, LauncherError | None]]:
        """`cancel` several apps together: all of them are asked to end before the first wait.

        They are asked in this order, as far as the scheduler can. Yields each id once its app has ended, with
        the error of an app that cannot be cancelled. This implementation cancels a few at a time.
        """
        from launcher.schedulers.many import in_threads

        given = () if grace_s is None else (grace_s,)
        return in_threads(lambda app_id: self.cancel(app_id, *given), app_ids)

    def interrupt(self, app_id: str, grace_s: float | None = None) -> None:
        """`cancel` for a client that was attached to the app; schedulers may record that as the reason."""
        self.cancel(app_id, *([] if grace_s is None else [grace_s]))

    def leave(self, app_id: str) -> None:
        """Let an attached app run on when this scheduler is closed. A scheduler may be unable to."""

    def check_cancel(self, app_id: str) -> None:
        """Raise SchedulerError, with a hint, for an app that `cancel` cannot reach."""

    def check_logs(self, app_id: str) -> None:
        """Raise SchedulerError, with a hint, for an app whose logs are where `logs` cannot reach them."""

    def wait(self, app_id: str, timeout_s: float | None = None) -> DescribeAppResponse | None:
        """Block until the app has ended. None when there is no such app.

        When `timeout_s` passes first, returns the app in its present state. This implementation polls at
        growing intervals; a scheduler whose engine reports ends overrides it.
        """
        from launcher.specs.status import is_terminal

        return poll(lambda: self.describe(app_id), lambda answer: is_terminal(answer.state), timeout_s)


class SchedulerFactory(Protocol):
    """A function that makes a scheduler; an entry point of the group `launcher.schedulers` names it."""

    def __call__(self, session_name: str, **kwargs: Any) -> Scheduler[Any]: ...


def poll(ask: Callable[[], T | None], is_over: Callable[[T], bool], timeout_s: float | None) -> T | None:
    """Ask at growing intervals; return the first answer that is None or over, or that at `timeout_s`."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    interval = 0.05
    while True:
        answer = ask()
        left = None if deadline is None else deadline - time.monotonic()
        if answer is None or is_over(answer) or (left is not None and left <= 0):
            return answer
        time.sleep(interval if left is None else min(interval, left))
        interval = min(interval * 1.5, 5.0)


def validate(scheduler: Scheduler[Any], app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
    """Call the scheduler's `_validate` with or without `cfg`: existing schedulers have either form."""
    hook = scheduler._validate
    code = getattr(getattr(hook, "__wrapped__", hook), "__code__", None)
    takes_two = code is not None and code.co_argcount == 3 and not code.co_flags & 0x04
    if takes_two:  # self, app, scheduler, without *args
        hook(app, scheduler.backend)  # type: ignore[call-arg]
    else:
        hook(app, scheduler.backend, cfg)


__getattr__, *_ = hand_on(  # names that schedulers import from here: each loads its module when it is used
    __name__,
    {
        "launcher.schedulers.logs": "filter_regex split_lines split_lines_iterator",
        "launcher.schedulers.responses": "DescribeAppResponse ListAppResponse Stream",
        "launcher.specs.app": "AppDryRunInfo",
        "launcher.specs.status": "AppState",
    },
)
