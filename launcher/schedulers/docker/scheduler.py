"""The Docker scheduler: apps run as containers of one engine, and a launcher process watches them.

The scheduler has no state of its own: everything is at the engine and in the state folder, where other
processes can read it.
"""

from __future__ import annotations

from _thread import allocate_lock

from launcher.errors import SchedulerError
from launcher.looks import noted
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.backend import EngineScheduler
from launcher.schedulers.docker import has_no_socket, records_root
from launcher.schedulers.staged import EngineTurns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.docker.client.engine import Engine
    from launcher.schedulers.docker.client.view import EngineView
    from launcher.schedulers.docker.job import DockerJob
    from launcher.schedulers.docker.observe import DockerApps
    from launcher.schedulers.docker.outputs import DockerOutputs
    from launcher.schedulers.docker.reserve import DockerReservation
    from launcher.schedulers.docker.submission import DockerSubmission
    from launcher.schedulers.readback import AppLogs
    from launcher.schedulers.workspaces import BoundWorkspace
    from launcher.specs.app import AppDef, AppDryRunInfo, CfgVal
    from launcher.specs.attempt import Attempt, ImageNow, Recorded
    from launcher.specs.check import Problem
    from launcher.specs.runopts import runopts
    from launcher.state.records import AppRecord
    from launcher.turns.machine import EngineTables, Machine

DOCKER = "local_docker"

_NO_TURNS = "this engine is not on this machine, so its apps take no turns: the app starts at once"


class DockerScheduler(EngineScheduler["DockerJob"]):
    """Runs apps as containers of a Docker engine.

    Args:
        detach: apps outlive this object and its process; otherwise they are cancelled with it.
        readonly: the scheduler only reads from the engine, and starts no watcher.
    """

    builds_workspaces = True
    holds = frozenset({DOCKER, "local_cwd", "local_dir"})
    judges_fields_alone = True
    supports = ("retry_delay", "service", "ready", "depends_on", "hosts", "cfg")
    longest_name = 32

    def __init__(self, session_name: str, *, detach: bool = False, readonly: bool = False) -> None:
        super().__init__(DOCKER, session_name, detach=detach)
        self._readonly = readonly
        self._client: EngineView | None = None
        self._submissions: list[DockerSubmission] = []  # submissions of attached apps
        self._lock = allocate_lock()

    @property
    def _view(self) -> EngineView:
        """The engine, for reading. Connects on first use."""
        with self._lock:
            if self._client is None:
                from launcher.schedulers.docker.client.engine import connect

                self._client = connect(readonly=self._readonly)
            return self._client

    @property
    def engine(self) -> Engine:
        """The engine, for changes. Raises SchedulerError for a readonly scheduler."""
        from launcher.schedulers.docker.client.engine import writable

        return writable(self._view)

    def _report(self, app_id: str) -> Callable[[str, Mapping[str, Any]], None]:
        """The callback for the progress of an app's images."""
        return lambda kind, facts: self.on_progress and self.on_progress(app_id, kind, facts)

    # Dry run and submission

    def _run_opts(self) -> runopts:
        from launcher.schedulers.docker.rules import options

        return options()

    def app_problems(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterable[Problem]:
        from launcher.schedulers.docker.rules import problems, unpinned

        found = [*problems(app, cfg), *unpinned(app)]
        return [*found, *(_out_of_reach(app) if self.is_held_here(cfg) else _of_this_machine(app))]

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[DockerJob]:
        from launcher.schedulers.checks import check_problems, gpu_type_notes
        from launcher.schedulers.docker.request import build_request
        from launcher.schedulers.record import asks
        from launcher.specs.app import AppDryRunInfo

        job = build_request(app, cfg, session=self.session_name)
        is_held_here = self.is_held_here(cfg) or not self._detach
        check_problems(app, _out_of_reach(app) if is_held_here else _of_this_machine(app))
        job.notes += gpu_type_notes(app, self.backend, is_here=self.on_this_machine())
        if asks(app) and is_held_here and not self.on_this_machine():
            job.notes.append(_NO_TURNS)
        return AppDryRunInfo(job, str)

    def workspace_app(self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace) -> AppDef:
        from launcher.schedulers.docker import image_build

        return image_build.workspace_app(app, self.resolved(cfg), workspace)

    def build_workspace(
        self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace, *, app_id: str = ""
    ) -> AppDef:
        from launcher.schedulers.docker import image_build
        from launcher.schedulers.docker.reserve import DockerReservation

        reserved = self._reserved.get(app_id)
        fresh = reserved.fresh if isinstance(reserved, DockerReservation) else None
        cfg = self.resolved(cfg)
        return image_build.build_workspace(self.engine, app, cfg, workspace, self._report(app_id), fresh)

    def workspace_notes(
        self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace
    ) -> Sequence[str]:
        from launcher.schedulers.docker import image_build

        return image_build.notes(app, workspace)

    def launch(self, app_id: str, info: AppDryRunInfo[DockerJob]) -> None:
        """Start an app; returns when every replica was started, or when the app is in line.

        Raises StartError, with nothing left behind, when a replica cannot be started.
        """
        from launcher.schedulers.docker.submission import launch
        from launcher.schedulers.record import ask_of_run

        attached, report = not self._detach, self._report(app_id)
        is_held_here = attached or self.is_held_here(info.cfg)
        takes_turns = not is_held_here or self.on_this_machine()
        turn = (
            ask_of_run(info.app, app_id, in_turn=self.in_turn, is_held_here=is_held_here)
            if takes_turns
            else None
        )
        made = launch(self.engine, app_id, info, self.session_name, report, turn, attached=attached)
        if attached:
            self._submissions.append(made)

    def is_held_here(self, cfg: Mapping[str, CfgVal]) -> bool:
        return cfg.get("watcher") != "engine"

    def on_this_machine(self) -> bool:
        import sys

        return sys.platform == "linux" and _engine_host().startswith("unix://")

    @property
    def engine_turns(self) -> EngineTurns:
        return DockerTurns(lambda: self._view)

    def most_cores(self) -> float | None:
        machine = self.engine_turns.machine()
        return None if machine is None else machine.cpu

    # Staged submission

    def fingerprint(self) -> str:
        return f"docker:{self._view.engine_id()}"

    def claim(self, attempt: Attempt) -> DockerReservation:
        from launcher.schedulers.docker.reserve import DockerReservation

        report = self._report(attempt.app_id)
        return DockerReservation(self.engine, attempt, report, take_over=self.take_over)

    # Reading, and what follows from it

    @property
    def apps(self) -> DockerApps:
        from launcher.schedulers.docker.observe import DockerApps

        return DockerApps(self._view, take_over=self.take_over)

    def check_cancel(self, app_id: str) -> None:
        from launcher.schedulers.docker import record

        if is_id(app_id):
            record.refuse_elsewhere(self._view, app_id)

    def check_logs(self, app_id: str) -> None:
        from launcher.schedulers.docker import record

        if is_id(app_id):
            record.refuse_logs_elsewhere(self._view, app_id)

    def recorded(self, app_id: str) -> list[Recorded]:
        return self.apps.recorded(app_id)

    def images_now(self, names: Collection[str]) -> Mapping[str, ImageNow]:
        from launcher.schedulers.docker import images

        return images.images_now(self._view, names)

    def kept_notes(self, kept: Mapping[str, AppDef]) -> Mapping[str, Sequence[str]]:
        from launcher.schedulers.docker import images

        return images.changed_tags(self._view, kept)

    def leftovers(self) -> list[tuple[str, str]]:
        from launcher.schedulers.docker import gc

        return gc.leftovers(self._view)

    def has_apps_here(self) -> bool:
        from os.path import isdir

        return isdir(records_root())

    def remote_engine(self) -> str:
        from launcher.schedulers.docker.client.configuration import endpoint, is_on_this_host

        host = endpoint().host
        return "" if is_on_this_host(host) else host

    def is_in_use(self) -> bool:
        from os import environ

        return bool(environ.get("DOCKER_HOST")) or self.has_apps_here()

    def refresh(self, app_ids: Iterable[str]) -> Iterable[AppRecord]:
        """Read the records of these apps; apps without a watcher are read from the engine's list."""
        from launcher.schedulers.docker import record

        unwatched = []
        for app_id in app_ids:
            seen = record.read(app_id)
            if seen is not None and (not seen.is_live or record.is_locked(record.folder(app_id))):
                if seen.state == "reserved":
                    seen.state = "unknown"  # the record has no line between reservation and start
                yield seen
            else:
                unwatched.append(app_id)
        if unwatched:
            from launcher.schedulers.docker.apps import find_all

            found = {app.app_id: app for app in find_all(self._view)}
            for app_id in unwatched:
                app = found.get(app_id)
                if app is not None and not app.view.ended:  # otherwise one read is not enough
                    yield app.to_record()

    # Attached apps

    def leave(self, app_id: str) -> None:
        for submission in [each for each in self._submissions if each.app_id == app_id]:
            submission.leave()
            self._submissions.remove(submission)

    def close(self) -> None:
        """Cancel the attached apps, and wait until they have ended."""
        attached, self._submissions = self._submissions, []
        for submission in attached:
            submission.close()
        for submission in attached:
            submission.wait_for_exit()
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def output_folders(self) -> DockerOutputs:
        from launcher.schedulers.docker.outputs import DockerOutputs

        return DockerOutputs(lambda: self._view)

    def logs(self, app_id: str) -> AppLogs:
        from launcher.schedulers.docker.app_logs import DockerLogs

        return DockerLogs(self._view, app_id)


class DockerTurns(EngineTurns):
    """The turns of apps whose watcher is on the engine.

    The tables are in a volume that all watchers of an engine have. So any running watcher answers for all of
    them; where none runs, no such app is in line.

    Args:
        view: connects to the engine, which loads the client of its API.
    """

    def __init__(self, view: Callable[[], EngineView]) -> None:
        self._view = view

    def machine(self) -> Machine | None:
        from launcher.turns.machine import Machine

        try:
            size = self._view().size()
        except SchedulerError:  # no engine, as the first request to it says
            return None
        return None if size is None else Machine(*size)

    def tables(self) -> EngineTables | None:
        if has_no_socket():  # no process there holds apps
            return None
        answer = self._answer("tables", {"op": "turns"})
        if answer is None:
            return None
        from launcher.turns.machine import tables_of_report

        return tables_of_report(self._view().host, answer)

    def start_now(self, app_ids: Collection[str]) -> set[str]:
        answer = self._answer("started", {"op": "now", "apps": sorted(app_ids)})
        return set() if answer is None else set(answer["started"])

    def _answer(self, wanted: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The first answer of a running watcher that has the field `wanted`; None without one."""
        from launcher.schedulers.docker.client.engine import writable
        from launcher.schedulers.docker.labels import PART, WATCHER_PART

        engine = writable(self._view())
        for each in engine.containers(f"{PART}={WATCHER_PART}"):
            if each.live:
                from launcher.schedulers.docker.watching.container import tell

                answer = tell(engine, each.name, message)
                if answer is not None and wanted in answer:
                    return answer
        return None


def _out_of_reach(app: AppDef) -> Iterable[Problem]:
    """Problems of probes that reach no replica, judged by the address of the engine in use; sends nothing."""
    if all(role.ready is None or role.ready.port is None for role in app.roles):
        return []
    from launcher.schedulers.docker.client.configuration import is_on_this_host
    from launcher.schedulers.docker.rules import probed_from_here

    host = _engine_host()
    try:
        return [] if is_on_this_host(host) else probed_from_here(app, host)
    except ValueError:  # no address, as the first request says
        return []


def _of_this_machine(app: AppDef) -> Iterable[Problem]:
    """GPUs of this machine, for which apps take turns; a watcher on the engine takes none. Sends nothing."""
    from launcher.specs.check import Problem

    is_here = _engine_host().startswith("unix://")
    message = (
        "GPUs of this machine are dealt out by turns, which a watcher on the engine does not take: leave"
        " `watcher` out"
    )
    asking = (role.name for role in app.roles if is_here and role.resource.gpu > 0)
    return [Problem(("roles", name, "resource", "gpu"), "constraint", message) for name in asking]


@noted
def _engine_host() -> str:
    """The address of the engine; "" where none is known, as the first request says."""
    from launcher.schedulers.docker.client.configuration import endpoint

    try:
        return endpoint().host
    except SchedulerError:
        return ""


def create_scheduler(
    session_name: str, detach: bool = False, readonly: bool = False, **_: object
) -> DockerScheduler:
    """Replicas run as containers of the engine that DOCKER_HOST or the docker context names."""
    return DockerScheduler(session_name, detach=detach, readonly=readonly)
