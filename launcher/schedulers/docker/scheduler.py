"""The Docker scheduler: apps run as containers of one engine, and each app has a watcher process.

The scheduler has no state of its own: everything is at the engine and in the state folder, where other
processes can read it.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

from launcher.errors import SchedulerError
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.docker import shared_engine
from launcher.schedulers.staged import Reservation, StagedScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.bound import BoundWorkspace
    from launcher.schedulers.docker.apps import DockerApp
    from launcher.schedulers.docker.client.engine import Engine
    from launcher.schedulers.docker.client.view import EngineView
    from launcher.schedulers.docker.request.job import DockerJob
    from launcher.schedulers.docker.submission import DockerReservation, Submission
    from launcher.schedulers.logs import LogRecord
    from launcher.schedulers.responses import DescribeAppResponse, ListAppResponse, Stream
    from launcher.schedulers.restarts import Restart
    from launcher.specs.app import AppDef, CfgVal
    from launcher.specs.attempt import Attempt
    from launcher.specs.check import Problem
    from launcher.specs.dryrun import AppDryRunInfo
    from launcher.specs.launch import JobKey
    from launcher.specs.runopts import runopts
    from launcher.state.records import AppRecord
    from launcher.turns.ask import Ask

DOCKER = "local_docker"

_NO_TURNS = "this engine is not on this machine, so its apps take no turns: the app starts at once"


class DockerScheduler(StagedScheduler["DockerJob"]):
    """Runs apps as containers of a Docker engine.

    Args:
        detach: apps outlive this object and its process; otherwise they are cancelled with it.
        readonly: the scheduler reads from the engine only, and starts no watcher.
    """

    builds_workspaces = True
    holds = frozenset({DOCKER, "local_cwd", "local_dir"})
    supports = ("retry_delay", "service", "ready", "depends_on", "hosts")

    def __init__(self, session_name: str, *, detach: bool = False, readonly: bool = False) -> None:
        super().__init__(DOCKER, session_name)
        self._detach = detach
        self._readonly = readonly
        self._client: EngineView | None = None
        self._attached: list[Submission] = []
        self._fresh: dict[str, set[str]] = {}  # app id → images that were pulled for it, until it is created
        self._lock = allocate_lock()

    @property
    def view(self) -> EngineView:
        """The engine, for reading. Connects on first use."""
        with self._lock:
            if self._client is None:
                from launcher.schedulers.docker.client.engine import connect

                self._client = connect(readonly=self._readonly)
            return self._client

    @property
    def engine(self) -> Engine:
        """The engine, for changes. Raises SchedulerError for a readonly scheduler."""
        from launcher.schedulers.docker.client.engine import Engine

        if not isinstance(self.view, Engine):
            raise SchedulerError("this scheduler was made readonly: it changes nothing at the engine")
        return self.view

    def _report(self, app_id: str) -> Callable[[str, Mapping[str, Any]], None]:
        """The callback for the progress of an app's images."""

        def report(kind: str, facts: Mapping[str, Any]) -> None:
            if self.on_progress is not None:
                self.on_progress(app_id, kind, facts)

        return report

    # Dry run and submission

    def _run_opts(self) -> runopts:
        from launcher.schedulers.docker.options import options

        return options()

    def _validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]) -> None:
        """No check: containers need no resource."""

    def app_problems(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterable[Problem]:
        from launcher.schedulers.docker.request.rules import problems, unpinned

        return [*problems(app, cfg), *_out_of_reach(app), *unpinned(app)]

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[DockerJob]:
        from launcher.schedulers.checks import check_problems
        from launcher.schedulers.docker.request.derive import build_request
        from launcher.schedulers.turns import asks
        from launcher.specs.dryrun import AppDryRunInfo

        job = build_request(app, cfg, session=self.session_name)
        check_problems(app, _out_of_reach(app))
        if asks(app) and not self.on_this_machine():
            job.notes.append(_NO_TURNS)
        return AppDryRunInfo(job, str)

    def workspace_app(self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace) -> AppDef:
        from launcher.schedulers.docker.images import build

        return build.workspace_app(app, self.run_opts().resolve(cfg), workspace)

    def build_workspace(
        self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace, *, app_id: str = ""
    ) -> AppDef:
        from launcher.schedulers.docker.images import build

        cfg = self.run_opts().resolve(cfg)
        fresh = self._fresh.get(app_id)
        return build.build_workspace(self.engine, app, cfg, workspace, self._report(app_id), fresh)

    def workspace_notes(
        self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace
    ) -> Sequence[str]:
        from launcher.schedulers.docker.images import build

        return build.notes(app, workspace)

    def schedule(self, dryrun_info: AppDryRunInfo[DockerJob]) -> str:
        """Start the app under a fresh id; returns when every replica was started, or when it is in line.

        Raises StartError, with nothing left behind, when one cannot.
        """
        from launcher.schedulers.docker.submission import launch

        attached = not self._detach
        app_id, submission = launch(
            self.engine,
            dryrun_info,
            self.session_name,
            self._report,
            attached=attached,
            turn_of=self._turn_of,
        )
        if attached:
            self._attached.append(submission)
        return app_id

    def on_this_machine(self) -> bool:
        import sys

        from launcher.schedulers.docker.client.contexts import endpoint

        try:
            return sys.platform == "linux" and endpoint().host.startswith("unix://")
        except SchedulerError:  # no engine, as the first request to it says
            return False

    def _turn_of(self, app: AppDef, app_id: str) -> Ask | None:
        """What an app without a job asks of this machine."""
        if not self.on_this_machine():
            return None
        from launcher.schedulers.turns import ask_of_run

        return ask_of_run(app, app_id, in_turn=self.in_turn)

    # Staged submission

    def fingerprint(self) -> str:
        return f"docker:{self.view.engine_id()}"

    def reserve(self, attempt: Attempt) -> DockerReservation:
        from launcher.schedulers.docker import submission

        report, fresh = self._report(attempt.app_id), set[str]()
        made = submission.reserve_attempt(
            self.engine, attempt, take_over=self.take_over, report=report, fresh=fresh
        )
        self._fresh[attempt.app_id] = fresh
        return made

    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        from launcher.schedulers.docker import submission

        resolved, report = self.run_opts().resolve(cfg), self._report(reservation.app_id)
        fresh = self._fresh.pop(reservation.app_id, set())
        submission.create(
            self.engine, submission.as_docker_reservation(reservation), app, resolved, report, fresh
        )

    def start(self, reservation: Reservation) -> None:
        from launcher.schedulers.docker import submission

        submission.start(submission.as_docker_reservation(reservation))

    def abort(self, reservation: Reservation) -> None:
        from launcher.schedulers.docker import submission

        self._fresh.pop(reservation.app_id, None)
        submission.abort(self.engine, submission.as_docker_reservation(reservation))

    def withdraw(self, app_id: str) -> bool:
        from launcher.schedulers.docker.watching.ends import give_up

        return is_id(app_id) and give_up(self.engine, app_id, "skipped", "withdrawn")

    # Observation

    def observe(self, keys: Collection[JobKey], settled: Collection[str] = ()) -> list[Attempt]:
        from launcher.schedulers.docker import recorded
        from launcher.schedulers.docker.apps import observe

        here = observe(self.view, keys, settled, take_over=self.take_over)
        return [*here, *recorded.live_elsewhere(self.view, keys, settled)]

    def attempt(self, app_id: str) -> Attempt | None:
        from launcher.schedulers.docker import apps, recorded

        found = apps.find(self.view, app_id, take_over=self.take_over)
        if found is not None:
            return apps.attempt_of(found)
        return recorded.attempt_elsewhere(self.view, app_id) if is_id(app_id) else None

    def kept_notes(self, kept: Mapping[str, AppDef]) -> Mapping[str, Sequence[str]]:
        from launcher.schedulers.docker.images import tag_changes

        return tag_changes.notes(self.view, kept)

    def reap(self) -> list[Attempt]:
        from launcher.schedulers.docker.watching.ends import record_ends

        return record_ends(self.engine)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        found = self._find_watched(app_id)
        return None if found is None else self._response(found)

    def _find_watched(self, app_id: str) -> DockerApp | None:
        """The app. Starts a watcher when the app needs one and has none."""
        from launcher.schedulers.docker import apps, recorded
        from launcher.schedulers.docker.watching.client import ensure_watched

        found = apps.find(self.view, app_id)
        if found is None and is_id(app_id):
            recorded.refuse_elsewhere(self.view, app_id)
        if found is not None and found.view.needs_watcher and not self._readonly:
            ensure_watched(self.engine, app_id)
        return found

    def _response(self, found: DockerApp) -> DescribeAppResponse:
        from launcher.schedulers.docker.describe import error_files, response

        return response(found, error_files(self.view, found))

    # Records for the commands

    def records(self) -> Sequence[AppRecord]:
        from launcher.schedulers.docker.apps import find_all, inspect

        # The list alone does not show which containers wait to be restarted.
        found = [inspect(self.view, app) if _is_unclear(app) else app for app in find_all(self.view)]
        return [app.to_record() for app in found]

    def record(self, app_id: str) -> AppRecord | None:
        """As `describe`, which has no word for an app that waits, or was skipped."""
        from launcher.schedulers.answers import of_description

        found = self._find_watched(app_id)
        if found is None:
            return None
        record = of_description(self._response(found), self.backend, self.session_name)
        if found.view.state in ("waiting", "queued", "skipped"):
            record.state = found.view.state
            record.abandoned = found.is_abandoned
        return record

    @property
    def shared_engine(self) -> str:
        return shared_engine()

    def has_apps_here(self) -> bool:
        from os.path import isdir

        from launcher.schedulers.docker.record import root

        return isdir(root())

    def is_in_use(self) -> bool:
        from os import environ

        return bool(environ.get("DOCKER_HOST")) or self.has_apps_here()

    def refresh(self, app_ids: Iterable[str]) -> Iterable[AppRecord]:
        """Read the records of these apps; apps without a watcher are read from the engine's list."""
        from launcher.schedulers.docker import recorded

        unwatched = []
        for app_id in app_ids:
            seen = recorded.read(app_id)
            if seen is not None and (not seen.is_live or recorded.is_locked(app_id)):
                if seen.state == "reserved":
                    seen.state = "unknown"  # the record has no line between reservation and start
                yield seen
            else:
                unwatched.append(app_id)
        if unwatched:
            from launcher.schedulers.docker.apps import find_all

            found = {app.app_id: app for app in find_all(self.view)}
            for app_id in unwatched:
                app = found.get(app_id)
                if app is not None and not app.view.ended:  # else one read is not enough
                    yield app.to_record()

    def wait_record(self, app_id: str, timeout_s: float | None = None) -> AppRecord | None:
        """As `wait`. An app without a job is read as `describe` reads it; a job's takes one read less."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        found = self._wait(app_id, deadline)
        if found is not None and not found.labels.is_job:
            from launcher.schedulers.answers import of_description

            return of_description(self._response(found), self.backend, self.session_name)
        attempt = self._attempt_then(app_id, deadline)
        if attempt is None:
            return None
        from launcher.state.records import of_attempt

        return of_attempt(attempt)

    def _wait(self, app_id: str, deadline: float | None) -> DockerApp | None:
        """The app when it has ended, or as it is at `deadline` (monotonic)."""
        from launcher.schedulers.docker.watching.waiting import wait_for_end

        return None if self._find_watched(app_id) is None else wait_for_end(self.view, app_id, deadline)

    def ended_attempt(self, app_id: str, timeout_s: float | None = None) -> Attempt | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._wait(app_id, deadline)
        return self._attempt_then(app_id, deadline)

    def _attempt_then(self, app_id: str, deadline: float | None) -> Attempt | None:
        """The attempt after a wait for it, which the engine may have ended by going away."""
        from launcher.schedulers.docker.client.persist import Patience

        return Patience(self.view.host, deadline).persist(lambda: self.attempt(app_id))

    def wait(self, app_id: str, timeout_s: float | None = None) -> DescribeAppResponse | None:
        """Wait for the end of the app, on the engine's event stream."""
        found = self._wait(app_id, None if timeout_s is None else time.monotonic() + timeout_s)
        return None if found is None else self._response(found)

    def wait_for_start(self, app_id: str) -> None:
        from launcher.schedulers.docker.watching.waiting import wait_for_start

        wait_for_start(self.view, app_id)

    # Cancellation

    def cancel(self, app_id: str, grace_s: float | None = None) -> None:
        """Stop the app; returns when none of its containers runs. An app that has ended stays as it ended."""
        from launcher.schedulers.docker.watching import stop

        if is_id(app_id):
            self.check_cancel(app_id)
            stop.cancel(self.engine, app_id, grace_s=grace_s)

    def interrupt(self, app_id: str, grace_s: float | None = None) -> None:
        from launcher.schedulers.docker.watching import stop

        if is_id(app_id):
            stop.cancel(self.engine, app_id, grace_s=grace_s, interrupt=True)

    def leave(self, app_id: str) -> None:
        for submission in [each for each in self._attached if each.app_id == app_id]:
            submission.leave()
            self._attached.remove(submission)

    def check_cancel(self, app_id: str) -> None:
        from launcher.schedulers.docker import recorded

        if is_id(app_id):
            recorded.refuse_elsewhere(self.view, app_id)

    def _cancel_existing(self, app_id: str) -> None:
        self.cancel(app_id)

    def close(self) -> None:
        """Cancel the attached apps, and wait until they have ended."""
        attached, self._attached = self._attached, []
        for submission in attached:
            submission.close()
        for submission in attached:
            submission.wait_for_exit()
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # Cleaning up

    def finished(self) -> list[AppRecord]:
        from launcher.schedulers.docker import gc

        return gc.finished(self.view)

    def remove(self, app_id: str) -> None:
        from launcher.schedulers.docker import gc

        gc.remove(self.engine, app_id)

    def outcomes(self) -> list[Attempt]:
        from launcher.schedulers.docker import tombstones

        found = (stone.attempt() for stone in tombstones.read_all(self.view).values())
        return [attempt for attempt in found if attempt is not None]

    def forget_outcome(self, app_id: str) -> None:
        from launcher.schedulers.docker import tombstones

        self.engine.remove_volume(tombstones.name_of(app_id))

    def outputs(self) -> list[str]:
        from launcher.schedulers.docker import outputs

        return outputs.names(self.view)

    def unreadable(self, other: str) -> str:
        if other == DOCKER or other not in self.holds:
            return super().unreadable(other)
        from launcher.schedulers.docker.client.contexts import endpoint, shares_folders

        try:
            host = endpoint().host
        except SchedulerError:  # no engine, as the first request to it says
            return ""
        return "" if shares_folders(host) else f"the engine at {host} has no folders of this machine"

    def output_of(self, attempt: Attempt, app: AppDef) -> str:
        from launcher.schedulers.docker.names import output_volume
        from launcher.specs.outputs import has_output, own_output

        return output_volume(own_output(attempt)) if has_output(app) else ""

    def lost_outputs(self, attempts: Iterable[Attempt]) -> set[str]:
        from launcher.schedulers.docker import outputs

        try:
            return outputs.lost(self.view, attempts)
        except SchedulerError:
            return set()

    def output_archive(self, attempt: Attempt) -> tuple[Iterator[bytes], str]:
        from launcher.schedulers.docker import outputs
        from launcher.specs.outputs import own_output

        images = [str(role["image"]) for role in attempt.document.get("roles", ()) if role.get("image")]
        return outputs.archive(self.engine, own_output(attempt), images), outputs.ARCHIVED

    def remove_output(self, name: str) -> None:
        from launcher.schedulers.docker import outputs

        outputs.remove(self.engine, name)

    def sweep(self) -> list[str]:
        from launcher.schedulers.docker import gc

        return gc.sweep(self.engine)

    def leftovers(self) -> list[tuple[str, str]]:
        from launcher.schedulers.docker import gc

        return gc.leftovers(self.view)

    # Logs

    def log_records(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        since: float | None = None,
        until: float | None = None,
        follow: bool = False,
        streams: Stream | None = None,
    ) -> Iterator[LogRecord]:
        from launcher.schedulers.docker.logs import read
        from launcher.schedulers.docker.logs.reader import LogQuery

        query = LogQuery(streams, since, until)
        found = read.app_records(self.view, app_id, (role_name, k), query, follow=follow)
        if not follow or self.on_restart is None:
            return found
        from launcher.schedulers.docker.restarts import RestartNotes, noted

        def wanted(restart: Restart, again: Collection[tuple[str, int]]) -> bool:
            return (restart.role, restart.k) == (role_name, k)  # of several, the one that failed reports it

        return noted(found, RestartNotes(app_id, self.on_restart, wanted, since or 0.0))

    def log_chunks(
        self,
        app_id: str,
        replicas: Sequence[tuple[str, int]],
        *,
        stream: str = "combined",
        since: float | None = None,
        until: float | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> Iterator[tuple[str, int, bytes]]:
        from launcher.schedulers.docker.logs import read
        from launcher.schedulers.docker.logs.reader import LogQuery

        query = LogQuery(stream, since, until)
        found = read.app_chunks(self.view, app_id, replicas, query, tail=tail, follow=follow)
        if not follow or self.on_restart is None:
            return found
        from launcher.schedulers.docker.restarts import RestartNotes, noted

        def wanted(restart: Restart, again: Collection[tuple[str, int]]) -> bool:
            return not set(replicas).isdisjoint(again)

        began = since or 0.0 if tail is None else time.time()
        return noted(found, RestartNotes(app_id, self.on_restart, wanted, began))

    def restarts(self, app_id: str) -> Iterator[Restart]:
        from launcher.schedulers.docker.restarts import restarts

        return (restart for restart, _ in restarts(app_id))

    def run_starts(
        self, app_id: str, replicas: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Sequence[tuple[int, float]]]:
        from launcher.schedulers.docker.logs.read import run_starts

        return run_starts(self.view, app_id, replicas)

    def list(self) -> list[ListAppResponse]:
        from launcher.schedulers.answers import listed_of

        return [listed_of(each) for each in self.records()]


def _out_of_reach(app: AppDef) -> Iterable[Problem]:
    """Probes that reach no replica of the engine in use, by its address; sends nothing."""
    if all(role.ready is None or role.ready.port is None for role in app.roles):
        return []
    from launcher.schedulers.docker.client.contexts import endpoint, is_on_this_host
    from launcher.schedulers.docker.request.rules import probed_from_here

    try:
        host = endpoint().host
        return [] if is_on_this_host(host) else probed_from_here(app, host)
    except (SchedulerError, ValueError):  # no engine, as the first request to it says
        return []


def _is_unclear(app: DockerApp) -> bool:
    return app.paused_by is not None or (app.view.ended and not app.view.final)


def create_scheduler(
    session_name: str, detach: bool = False, readonly: bool = False, **_: object
) -> DockerScheduler:
    """Replicas run as containers of the engine that DOCKER_HOST or the docker context names."""
    return DockerScheduler(session_name, detach=detach, readonly=readonly)
