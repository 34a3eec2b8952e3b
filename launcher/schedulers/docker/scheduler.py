"""The Docker scheduler: apps as containers of one engine, each app looked after by a watcher of its own.

This object holds nothing that another process could not find out: all it knows is at the engine and in the
state folder.
"""

from __future__ import annotations

import time
from _thread import allocate_lock

from launcher.schedulers.api import Reservation, StagedScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from launcher.schedulers.api import BoundWorkspace, Finished
    from launcher.schedulers.docker.apps import App
    from launcher.schedulers.docker.client import EngineView
    from launcher.schedulers.docker.engine import Engine
    from launcher.schedulers.docker.job import DockerJob
    from launcher.schedulers.docker.logreader import Followed
    from launcher.schedulers.docker.reserve import Place
    from launcher.schedulers.docker.submission import Submission
    from launcher.schedulers.logs import LogRecord
    from launcher.schedulers.responses import DescribeAppResponse, ListAppResponse, Stream
    from launcher.specs.app import AppDef, CfgVal
    from launcher.specs.attempt import Attempt
    from launcher.specs.dryrun import AppDryRunInfo
    from launcher.specs.launch import JobKey
    from launcher.specs.runopts import runopts

DOCKER = "local_docker"


class DockerReservation(Reservation):
    """An attempt whose app id is ours; `resumed`: a dead owner had started some of it."""

    def __init__(self, attempt: Attempt, place: Place, labels: Mapping[str, str]) -> None:
        super().__init__(attempt)
        self.place = place
        self.labels = labels
        self.resumed = place.resumed is not None
        self.submission: Submission | None = None
        self.is_over = False  # started, or removed


class DockerScheduler(StagedScheduler["DockerJob"]):
    """Runs apps as containers of a Docker engine.

    Args:
        detach: apps outlive this object and its process; otherwise they are cancelled with it.
        readonly: it gets a client of the engine that can change nothing, and starts no watcher.
    """

    builds_workspaces = True

    def __init__(self, session_name: str, *, detach: bool = False, readonly: bool = False) -> None:
        super().__init__(DOCKER, session_name)
        self._detach = detach
        self._readonly = readonly
        self._client: EngineView | None = None
        self._attached: list[Submission] = []
        self._lock = allocate_lock()

    @property
    def view(self) -> EngineView:
        """The engine, to ask. Connected when it is first asked."""
        with self._lock:
            if self._client is None:
                from launcher.schedulers.docker.engine import connect

                self._client = connect(readonly=self._readonly)
            return self._client

    @property
    def engine(self) -> Engine:
        """The engine, to do something. Raises TypeError for a scheduler that is to change nothing."""
        from launcher.schedulers.docker.engine import Engine

        if not isinstance(self.view, Engine):
            raise TypeError("this scheduler is to change nothing")
        return self.view

    def _report(self, app_id: str) -> Callable[[str, Mapping[str, Any]], None]:
        """Where progress of an app's images goes."""

        def report(kind: str, facts: Mapping[str, Any]) -> None:
            if self.on_progress is not None:
                self.on_progress(app_id, kind, facts)

        return report

    # Dry run and submission

    def _run_opts(self) -> runopts:
        from launcher.schedulers.docker.options import options

        return options()

    def _validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]) -> None:
        """Containers need no resource."""

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[DockerJob]:
        from launcher.schedulers.docker.request import build_request
        from launcher.specs.dryrun import AppDryRunInfo

        return AppDryRunInfo(build_request(app, cfg, session=self.session_name), str)

    def workspace_app(self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace) -> AppDef:
        from launcher.schedulers.docker import build

        return build.workspace_app(app, self.run_opts().resolve(cfg), workspace)

    def build_workspace(
        self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace, *, app_id: str = ""
    ) -> AppDef:
        from launcher.schedulers.docker import build

        cfg = self.run_opts().resolve(cfg)
        return build.build_workspace(self.engine, app, cfg, workspace, self._report(app_id))

    def schedule(self, dryrun_info: AppDryRunInfo[DockerJob]) -> str:
        """Start the app under a fresh id; returns when every replica was seen to start.

        Raises StartError, with nothing left behind, when one cannot.
        """
        from launcher.schedulers.docker import apps, labels, owner, record
        from launcher.schedulers.docker.request import bind_request
        from launcher.schedulers.docker.submission import Submission
        from launcher.schedulers.ids import make_unique, normalise

        app, cfg = dryrun_info._app, dryrun_info._cfg
        if app is None:
            raise ValueError("want an info that submit_dryrun has made")
        app_id = make_unique(normalise(app.name, limit=32))
        me = owner.this_process()
        common = labels.app_labels(app, cfg, app_id, self.session_name, time.time(), me)
        lock = record.claim(record.folder(app_id))
        submission = Submission(self.engine, lock, self._report(app_id), attached=not self._detach)
        try:
            record.write_attempt(lock.app_dir, apps.facts(self.engine, common))
            submission.create(bind_request(dryrun_info.request, app_id), common)
        except BaseException:
            submission.abort()
            raise
        submission.start()
        if not self._detach:
            self._attached.append(submission)
        return app_id

    # Staged submission

    def fingerprint(self) -> str:
        return f"docker:{self.view.engine_id()}"

    def reserve(self, attempt: Attempt) -> DockerReservation:
        from launcher.schedulers.docker.labels import attempt_labels
        from launcher.schedulers.docker.owner import this_process
        from launcher.schedulers.docker.reserve import reserve

        labels = attempt_labels(attempt, this_process())
        report = self._report(attempt.app_id)
        place = reserve(self.engine, attempt, labels, take_over=self.take_over, report=report)
        return DockerReservation(attempt, place, labels)

    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        from launcher.schedulers.docker.request import build_request
        from launcher.schedulers.docker.submission import Submission

        mine = _ours(reservation)
        resolved = self.run_opts().resolve(cfg)
        job = build_request(app, resolved, mine.app_id, session=mine.attempt.key.session)
        made = Submission(self.engine, mine.place.lock, self._report(mine.app_id), marker=mine.place.marker)
        mine.submission = made
        try:
            if mine.place.resumed is not None:
                made.resume(job, mine.place.resumed)
            else:
                made.create(job, mine.labels)
        except BaseException:
            self.abort(mine)
            raise

    def start(self, reservation: Reservation) -> None:
        mine = _ours(reservation)
        if mine.submission is None:
            raise ValueError(f"{mine.app_id} was not created")
        mine.is_over = True
        mine.submission.start()

    def abort(self, reservation: Reservation) -> None:
        from launcher.schedulers.docker.reserve import give_back

        mine = _ours(reservation)
        if mine.is_over:
            return
        mine.is_over = True
        if mine.submission is not None:
            mine.submission.abort()
        else:
            give_back(self.engine, mine.place)

    # Observation

    def observe(self, keys: Collection[JobKey], settled: Collection[str] = ()) -> list[Attempt]:
        from launcher.schedulers.docker.apps import observe

        return observe(self.view, keys, settled, take_over=self.take_over)

    def attempt(self, app_id: str) -> Attempt | None:
        from launcher.schedulers.docker.apps import attempt_of, find

        found = find(self.view, app_id, take_over=self.take_over)
        return None if found is None else attempt_of(found)

    def reap(self) -> list[Attempt]:
        from launcher.schedulers.docker.reap import reap

        return reap(self.engine)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        found = self._looked_after(app_id)
        return None if found is None else self._response(found)

    def _looked_after(self, app_id: str) -> App | None:
        """The app; when nobody looks after it and somebody has to, that is seen to."""
        from launcher.schedulers.docker import apps, watch

        found = apps.find(self.view, app_id)
        if found is not None and found.view.needs_watcher and not self._readonly:
            watch.ensure_watched(self.engine, app_id)
        return found

    def _response(self, found: App) -> DescribeAppResponse:
        from launcher.schedulers.docker.describe import error_files, response

        return response(found, error_files(self.view, found))

    def wait(self, app_id: str, timeout_s: float | None = None) -> DescribeAppResponse | None:
        """Woken by the engine when a container ends."""
        from launcher.schedulers.docker.waiting import wait_for_end

        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if self._looked_after(app_id) is None:
            return None
        found = wait_for_end(self.view, app_id, deadline)
        return None if found is None else self._response(found)

    # Cancellation

    def cancel(self, app_id: str, grace_s: float | None = None) -> None:
        """Stop it and return when none of it runs. What has ended stays as it ended."""
        from launcher.schedulers.docker import apps, stop

        if apps.is_id(app_id):
            stop.cancel(self.engine, app_id, grace_s=grace_s)

    def _cancel_existing(self, app_id: str) -> None:
        self.cancel(app_id)

    def close(self) -> None:
        """Cancel what was started attached, and wait until it is gone."""
        attached, self._attached = self._attached, []
        for submission in attached:
            submission.close()
        for submission in attached:
            submission.wait_for_exit()
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # Tidying up

    def finished(self) -> list[Finished]:
        from launcher.schedulers.docker import gc

        return gc.finished(self.view, DOCKER)

    def remove(self, app_id: str) -> None:
        from launcher.schedulers.docker import gc

        gc.remove(self.engine, app_id)

    def sweep(self) -> list[str]:
        from launcher.schedulers.docker import gc

        return gc.sweep(self.engine)

    # Logs

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
    ) -> Iterator[str]:
        """Lines as text; bytes that are no UTF-8 become U+FFFD. Times without a zone are local time."""
        from launcher.schedulers import logs
        from launcher.schedulers.api import filter_regex

        chunks = self.log_chunks(
            app_id,
            [(role_name, k)],
            since=since.timestamp() if since else None,
            until=until.timestamp() if until else None,
            follow=should_tail,
            stream=str(streams.value) if streams else logs.COMBINED,
        )
        lines = logs.text_lines(data for _, _, data in chunks)
        return filter_regex(regex, lines) if regex else lines

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
        from launcher.schedulers.docker import logs
        from launcher.schedulers.docker.logreader import Asked

        (container,) = self._containers(app_id, [(role_name, k)])
        asked = Asked(streams, since, until)
        return logs.records(self.view, container, asked, self._followed(app_id) if follow else None)

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
        from launcher.schedulers.docker import logs
        from launcher.schedulers.docker.logreader import Asked

        found = self._containers(app_id, replicas)
        sources = [(role, k, container) for (role, k), container in zip(replicas, found, strict=True)]
        followed = self._followed(app_id) if follow else None
        return logs.chunks(self.view, sources, Asked(stream, since, until), tail=tail, followed=followed)

    def _containers(self, app_id: str, replicas: Sequence[tuple[str, int]]) -> Sequence[str]:
        from launcher.errors import SchedulerError
        from launcher.schedulers.docker import apps, logs

        found = apps.find(self.view, app_id, inspected=False)
        if found is None:
            raise SchedulerError(f"there is no app {app_id} at {self.view.host}")
        there = dict.fromkeys(found.roster, "") | {
            (each.role, each.k): each.id for each in found.view.replicas
        }
        return [logs.find(there, app_id, role, k) for role, k in replicas]

    def _followed(self, app_id: str) -> Followed:
        from launcher.schedulers.docker import apps
        from launcher.schedulers.docker.logreader import Followed

        def is_over() -> bool:
            found = apps.find(self.view, app_id)
            return found is None or found.view.ended

        return Followed(app_id, is_over)

    def list(self) -> list[ListAppResponse]:
        from launcher.schedulers.docker.apps import find_all
        from launcher.schedulers.responses import ListAppResponse, app_state

        return [
            ListAppResponse(
                app_id=app.app_id,
                state=app_state(app.view.state),
                app_handle=f"{DOCKER}://{app.labels.session}/{app.app_id}",
                name=app.labels.name,
                created_at=app.labels.created_at,
            )
            for app in find_all(self.view)
        ]


def _ours(reservation: Reservation) -> DockerReservation:
    if not isinstance(reservation, DockerReservation):
        raise TypeError(f"{reservation.app_id} was not reserved here")
    return reservation


def create_scheduler(
    session_name: str, detach: bool = False, readonly: bool = False, **_: object
) -> DockerScheduler:
    """Replicas run as containers of the engine that DOCKER_HOST or the docker context names."""
    return DockerScheduler(session_name, detach=detach, readonly=readonly)
