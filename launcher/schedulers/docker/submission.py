"""Submit an app: at once under a fresh id, or as an attempt of a job, in stages from its reservation on.

Either way, all replicas that wait for no other one start, or none starts, and a failed submission leaves
nothing behind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from launcher.dataclass import asdict, replace
from launcher.errors import SchedulerError
from launcher.holding.app import App
from launcher.holding.events import created
from launcher.schedulers.docker import apps, images, record
from launcher.schedulers.docker.apps import DockerApp
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineUnreachable
from launcher.schedulers.docker.client.streams import Report
from launcher.schedulers.docker.containers import ContainerSetup, environment_of, start_all, trial
from launcher.schedulers.docker.facts import declaration
from launcher.schedulers.docker.job import DockerContainer, DockerJob, job_labels
from launcher.schedulers.docker.labels import OWNER, WATCHER, Labels, app_labels
from launcher.schedulers.docker.names import is_waiting
from launcher.schedulers.docker.record import RecordLock
from launcher.schedulers.docker.request import bind_request, build_request, check_head
from launcher.schedulers.docker.watching.client import WatcherClient, place_again, wait_for_exit
from launcher.schedulers.docker.watching.waiting import ensure_watched
from launcher.schedulers.owner import this_process
from launcher.specs.app import AppDryRunInfo, CfgVal
from launcher.specs.attempt import AttemptState, StoodOn, needs_to_json

if TYPE_CHECKING:
    from launcher.schedulers.docker.watching.container import EngineWatcher
    from launcher.turns.line import Ask
    from launcher.turns.table import Place


_EXIT_S = 60.0


def watcher_label(engine: Engine, cfg: Mapping[str, CfgVal]) -> dict[str, str]:
    """The label of an app whose options put its watcher on the engine; {} for any other app."""
    if cfg.get("watcher") != "engine":
        return {}
    from launcher.schedulers.docker.watching.container import name_of

    return {WATCHER: name_of(engine, cfg)}


class DockerSubmission:
    """Creates and starts one app, or removes the whole app.

    It needs the lock of the app's record, which the watcher takes over.

    Args:
        fresh: images that need not be pulled again; see `images.ensure_image`.
        marker: id of the container that reserves the app's name; removed when all others exist.
        attached: the app is cancelled when this object is closed, or its process ends.
    """

    def __init__(
        self,
        engine: Engine,
        lock: RecordLock,
        report: Report | None = None,
        fresh: set[str] | None = None,
        *,
        marker: str = "",
        attached: bool = False,
    ) -> None:
        self._engine = engine
        self._lock = lock
        self._app_dir = lock.app_dir
        self._marker = marker
        self._attached = attached
        self._report = report
        self._setup = ContainerSetup(engine, report, fresh)
        self._is_on_engine = False  # the watcher, which has the record from then on
        self._watcher: WatcherClient | None = None
        self._to_start: list[tuple[str, DockerContainer]] = []
        self._rules: Mapping[str, Mapping[str, Any]] = {}
        self._counts: Mapping[str, int] = {}
        self._declared: dict[str, Any] | None = None
        self._place: Place | None = None  # the app's place, until the watcher has it
        self._held: dict[str, Any] | None = None  # the message to the watcher of an app that waits
        self.accepted: AttemptState = "running"  # the state after `start`

    def prepare(
        self, job: DockerJob, common: Mapping[str, str], waits_for: Collection[StoodOn], turn: Ask | None
    ) -> None:
        """Create all containers, or only test the creation for an app that waits for others, or for its turn.

        When it fails, the caller must call `abort`.
        """
        if turn is not None:
            self._place = self._take(turn, job, common, later=bool(waits_for))
        if waits_for or (self._place is not None and not self._place.starts):
            self.accepted = "waiting" if waits_for else "queued"
            self._try_out(job, common, waits_for)
            return
        dealt: tuple[str, ...] = ()
        if self._place is not None:
            from launcher.schedulers.docker import share

            dealt, common = self._place.dealt, {**common, **share.label_of(self._place)}
        self._spawn(job, common)
        self._setup.create(job, common, os.environ, dealt)
        if self._marker:
            self._engine.remove(self._marker)
            self._marker = ""
        self._to_start = list(zip(self._setup.ids, job.containers, strict=True))
        self._rules, self._counts = job.role_rules, job.counts
        self._declared = _declaration(job, common)

    def _take(self, turn: Ask, job: DockerJob, common: Mapping[str, str], *, later: bool) -> Place:
        """Take the app's place, or have its watcher on the engine take it there.

        Args:
            later: see `share.take`.
        """
        if WATCHER in common:
            return self._spawn_on_engine(job, common, turn, later=later).take_turn(turn)
        from launcher.schedulers.docker import share

        return share.take(turn, self._engine.host, later=later)

    def resume(self, job: DockerJob, app: DockerApp) -> None:
        """Take over the containers that a dead owner created; `start` starts those that the owner did not.

        The watcher starts the replicas that wait for other roles.
        """
        if WATCHER not in app.containers[0].labels:
            self._place = place_again(self._engine, app.containers[0])
        self._spawn(job, app.containers[0].labels)
        self._rules, self._counts = job.role_rules, job.counts
        of = {(each.role, each.replica): each for each in job.containers}
        pending = [each for each in app.view.replicas if each.state == "pending" and not each.waits]
        self._to_start = [(each.id, of[each.role, each.k]) for each in pending]

    def _try_out(self, job: DockerJob, common: Mapping[str, str], waits_for: Collection[StoodOn]) -> None:
        """Test that the app can be created, by one container of each role, which are removed afterwards.

        `start` then leaves the app to its watcher, which creates the app once all of `waits_for` have
        succeeded and its turn has come.
        """
        if WATCHER in common and any(map(os.path.isabs, job.needs.values())):
            raise SchedulerError(
                f"{job.app_id} reads the output folder of a job of this machine, which its watcher on the"
                " engine cannot see",
                hint="leave out `watcher: engine`, or run both jobs on the engine",
            )
        self._spawn(job, common)
        self._held = {
            "job": _handover(job, os.environ),
            "labels": dict(common),
            "declared": _declaration(job, common),
            "needs": needs_to_json(waits_for),
        }
        self._setup.create(trial(job), common, os.environ)
        self._setup.undo()

    def _spawn(self, job: DockerJob, labels: Mapping[str, str]) -> None:
        """Find or start the watcher, before any request: it loads its modules while the engine works."""
        if WATCHER in labels:
            if self._watcher is None:
                self._spawn_on_engine(job, labels)
        else:
            self._watcher = WatcherClient.spawn(
                self._lock, job.app_id, attached=self._attached, place=self._place, engine=self._engine
            )

    def _spawn_on_engine(
        self, job: DockerJob, labels: Mapping[str, str], turn: Ask | None = None, *, later: bool = False
    ) -> EngineWatcher:
        from launcher.schedulers.docker.watching.container import EngineWatcher

        self._is_on_engine = True
        self._watcher = made = EngineWatcher(
            self._engine,
            self._lock,
            labels,
            turn=turn,
            later=later,
            policy=job.image_pull,
            report=self._report,
        )
        return made

    def start(self) -> None:
        """Start every replica that waits for no other, or leave the app to its watcher where it waits.

        Raises StartError, with nothing of the app left.

        An interrupt closes the submission: a detached app runs on, an attached one is cancelled. An
        unreachable engine does, too, since it is unknown then which replicas were started.
        """
        assert self._watcher is not None, "what was not created cannot be started"
        try:
            if self._held is not None:
                self._hold(self._held, self._watcher)
            else:
                self._watcher.go(self._declared)
                self._start_all()
                if not self._watcher.started() and self._is_on_engine:
                    ensure_watched(self._engine, self.app_id)
        except EngineUnreachable as error:
            self.close()
            then = "cancels the app" if self._attached else "starts the rest"
            raise EngineUnreachable(
                f"lost the engine while {os.path.basename(self._app_dir)} was being started: {error}",
                hint=f"the engine was stopped or restarted: when it answers, the app's watcher {then};"
                " `launcher list` and apply show how far it came",
            ) from error
        except Exception:
            self.abort()
            raise
        except BaseException:
            self.close()
            raise
        self._let_go()
        if not self._attached:
            self.close()

    def _let_go(self) -> None:
        """Release the lock; remove the record here if the watcher on the engine has its own."""
        if self._is_on_engine:
            self._lock.discard()
        self._lock.release()

    def _hold(self, message: dict[str, Any], watcher: WatcherClient) -> None:
        """Hand the held app to its watcher, which makes the container that represents the app."""
        accepted = watcher.hold({**message, "reservation": self._marker})
        if accepted is None:
            self._engine.answer_anew()  # raises EngineUnreachable where the engine went away
            why = record.last_failure(self._app_dir) or "its watcher has ended"
            raise SchedulerError(f"{message['job']['app_id']} cannot wait: {why}")
        self.accepted = accepted

    def _start_all(self) -> None:
        """Start the replicas whose roles wait for nothing, or only for the start of others."""
        app = App()
        app.take(created(((name, count, 0, "") for name, count in self._counts.items()), self._rules))
        app.take({"e": "starting"})
        while due := app.take_to_start(len(app.to_start)):
            roles = {each.role.name for each in due}  # whole roles, whatever the numbers of their replicas
            start_all(self._engine, [each for each in self._to_start if each[1].role in roles], self._rules)
            for each in due:
                app.take({"e": "spawn", "role": each.role.name, "k": each.k})

    def abort(self) -> None:
        """Remove all created objects, running or not, and the record."""
        try:
            self._setup.undo()
            if self._held is not None:  # a watcher that did not accept the app in time has made its container
                owner = this_process().to_json()
                for each in apps.list_containers(self._engine, self.app_id):
                    if is_waiting(each) and each.labels.get(OWNER) == owner:
                        self._engine.remove(each.id)
            if self._marker:
                self._engine.remove(self._marker)
        except EngineError:
            pass  # the engine went away, as the error that led here reports
        if self._place is not None:
            self._place.leave()
        if self._watcher is not None:
            self._watcher.abort()
        self._lock.discard()

    def close(self) -> None:
        """Close the connection to the watcher: an attached app is cancelled."""
        if self._watcher is not None:
            self._watcher.close()
        self._let_go()

    @property
    def app_id(self) -> str:
        return os.path.basename(self._app_dir)

    def leave(self) -> None:
        """Close the connection to the watcher: an attached app runs on."""
        if self._watcher is not None:
            self._watcher.leave()
        self._lock.release()

    def wait_for_exit(self) -> None:
        wait_for_exit(self._app_dir, _EXIT_S)


def _handover(job: DockerJob, environ: Mapping[str, str]) -> dict[str, Any]:
    """The bound request as JSON, with all values. It stays in memory, since it has the values of secrets.

    The watcher pulls its images only when they are missing.
    Raises SchedulerError for a secret that cannot be read.
    """
    whole = [
        replace(each, kwargs={**each.kwargs, "environment": environment_of(each, job, environ)})
        for each in job.containers
    ]
    policy = images.NEVER if job.image_pull == images.NEVER else images.MISSING
    return asdict(replace(job, containers=whole, copy_env=[], image_pull=policy))


def _declaration(job: DockerJob, labels: Mapping[str, str]) -> dict[str, Any]:
    counts = job.counts
    for each in job.containers:  # an edited request may lack containers before the last one
        counts[each.role] = max(counts[each.role], each.replica + 1)
    return declaration(Labels(labels), counts)


def launch(
    engine: Engine,
    app_id: str,
    info: AppDryRunInfo[DockerJob],
    session: str,
    report: Report,
    turn: Ask | None,
    *,
    attached: bool,
) -> DockerSubmission:
    """Start an app without a job; it may wait in line for its turn.

    Args:
        turn: its request to this machine; None for none.

    Returns the submission, which can close or cancel the app.

    Raises StartError, with nothing left behind; SchedulerError for a request edited into an invalid one.
    """
    app, cfg = info.app, info.cfg
    check_head(info.request, build_request(app, cfg, session=session))
    request = bind_request(info.request, app_id)
    common = app_labels(app, cfg, app_id, session, time.time(), this_process()) | job_labels(request)
    common |= {} if attached else watcher_label(engine, cfg)
    lock = record.claim(record.folder(app_id))
    submission = DockerSubmission(engine, lock, report, attached=attached)
    try:
        record.write_labels(lock.app_dir, engine, common)
        record.add_row(common)
        submission.prepare(request, common, (), turn)
    except BaseException:
        submission.abort()
        raise
    submission.start()
    return submission
