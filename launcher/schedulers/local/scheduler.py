"""The local scheduler: apps as processes of this machine, each with its own supervisor.

All state is in the state folder, where other processes can read it.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock

from launcher import paths
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.local import rundir
from launcher.schedulers.staged import Reservation, StagedScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from launcher.schedulers.api import DescribeAppResponse, ListAppResponse, Stream
    from launcher.schedulers.local.appview import AppView
    from launcher.schedulers.local.attemptfile import Record
    from launcher.schedulers.local.claim import Claim
    from launcher.schedulers.local.images import ImageProvider
    from launcher.schedulers.local.popen import PopenRequest
    from launcher.schedulers.local.supervisor_client import SupervisorClient
    from launcher.schedulers.logs import LogRecord
    from launcher.schedulers.restarts import Restart
    from launcher.specs.app import AppDef, CfgVal
    from launcher.specs.attempt import Attempt
    from launcher.specs.check import Problem
    from launcher.specs.dryrun import AppDryRunInfo
    from launcher.specs.launch import JobKey
    from launcher.specs.runopts import runopts
    from launcher.state.records import AppRecord
    from launcher.state.store import Store

CWD = "local_cwd"
DIR = "local_dir"


class LocalReservation(Reservation):
    """An attempt whose folder this process owns; `resumed`: it continues an interrupted submission."""

    def __init__(self, attempt: Attempt, claim: Claim) -> None:
        super().__init__(attempt)
        self.claim = claim
        self.resumed = claim.resumed
        self.supervisor: SupervisorClient | None = None
        self.is_over = False  # started, or removed


class LocalScheduler(StagedScheduler["PopenRequest"]):
    """Runs apps as local processes.

    Args:
        image_provider_class: decides where roles run, instead of the backend's own class.
        cache_size: accepted for compatibility, at least 1, and without effect: this scheduler knows every
            app of the state folder.
        extra_paths: folders in front of each replica's PATH.
        backend: local_cwd (the image is ignored) or local_dir (the image is the working folder); by default
            local_dir for a LocalDirectoryImageProvider, else local_cwd.
        detach: apps outlive this object and its process; otherwise they are cancelled with it.

    Raises ValueError for a `cache_size` below 1.
    """

    supports = ("retry_delay", "service", "ready", "depends_on", "hosts")

    holds = frozenset({CWD, DIR})

    def __init__(
        self,
        session_name: str,
        image_provider_class: Callable[[Mapping[str, CfgVal]], ImageProvider] | None = None,
        cache_size: int = 100,
        extra_paths: Sequence[str] | None = None,
        *,
        backend: str = "",
        detach: bool = False,
    ) -> None:
        self._store: Store | None = None
        if cache_size < 1:
            raise ValueError(f"want a cache_size of at least 1, got {cache_size}")
        super().__init__(backend or _backend_of(image_provider_class), session_name)
        self._provider = image_provider_class
        self._extra_paths = tuple(extra_paths or ())
        if self.backend == CWD:
            self.workspace_option = "cwd"
        else:
            self.no_workspace_hint = "make the folder the image of the roles, or use local_cwd"
        self._detach = detach
        self._supervisors: list[SupervisorClient] = []
        self._lock = allocate_lock()

    # Folders

    @property
    def _state_dir(self) -> str:
        return paths.local()

    def _app_dir(self, app_id: str) -> str:
        return rundir.app_dir(self._state_dir, app_id)

    # Dry run and submission

    def _run_opts(self) -> runopts:
        from launcher.schedulers.local.options import options

        return options(self.backend)

    def _validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]) -> None:
        """Local processes need no resource."""

    def checkout_folder(self, image: str, cfg: Mapping[str, CfgVal]) -> str | None:
        from launcher.schedulers.local.images import provider_of

        images = (self._provider or provider_of(self.backend))(cfg)
        try:
            return images.get_cwd(image) or images.default_cwd
        except ValueError:  # the image is no folder; the dry run says so
            return None

    def app_problems(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterable[Problem]:
        from launcher.schedulers.local.rules import problems

        return problems(app, cfg)

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[PopenRequest]:
        from launcher.specs.dryrun import AppDryRunInfo

        return AppDryRunInfo(self._request(app, cfg, self.session_name), str)

    def _request(self, app: AppDef, cfg: Mapping[str, CfgVal], session: str) -> PopenRequest:
        from launcher.schedulers.local.dryrun import request

        return request(
            app,
            cfg,
            backend=self.backend,
            session=session,
            state_dir=self._state_dir,
            provider=self._provider,
            extra_paths=self._extra_paths,
        )

    def schedule(self, dryrun_info: AppDryRunInfo[PopenRequest]) -> str:
        """Start the app under a fresh id; returns when every replica has started, or the app is in line.

        Raises StartError, with the app removed, when a replica cannot be started; SchedulerError for a
        request that was edited in a field without effect.
        """
        from launcher.schedulers.checks import refuse_outputs
        from launcher.schedulers.ids import make_unique, normalise
        from launcher.schedulers.local import attemptfile, submit
        from launcher.schedulers.local.request import bind_request, check_edits, without_gpus
        from launcher.schedulers.turns import ask_of_run

        app, cfg = dryrun_info.app, dryrun_info.cfg
        if app is None:
            raise ValueError("want an info that submit_dryrun has made")
        refuse_outputs(app)
        check_edits(dryrun_info.request, rundir.apps_dir(self._state_dir))
        app_id = make_unique(normalise(app.name, limit=48))
        record = attemptfile.of_app(app, cfg, self.backend, app_id, time.time())
        turn = ask_of_run(app, app_id, in_turn=self.in_turn)
        made = self._claim(record, session=self.session_name, name=app.name)
        request = bind_request(dryrun_info.request, app_id)
        request = request if turn else without_gpus(request)
        supervisor = self._keep(submit.create(self._state_dir, made, request, attached=not self._detach))
        submit.start(self._state_dir, supervisor, turn=turn)
        if self._detach:
            supervisor.close()
        return app_id

    def _keep(self, supervisor: SupervisorClient) -> SupervisorClient:
        """Remember a child process, and collect the ended ones, which are zombies until then."""
        self._supervisors = [each for each in self._supervisors if not each.reap()]
        self._supervisors.append(supervisor)
        return supervisor

    def _claim(self, record: Record, *, session: str, name: str, key: JobKey | None = None) -> Claim:
        from launcher.schedulers.appstore import open_store
        from launcher.schedulers.local.claim import claim

        with self._lock:
            if self._store is None:
                # Open while submitting: SQLite syncs three times whenever the last connection closes.
                self._store = open_store(durable=False)
        return claim(self._store, self._state_dir, record, session=session, name=name, key=key)

    # Staged submission

    def fingerprint(self) -> str:
        """This machine and this state folder."""
        from hashlib import sha256

        text = f"{_machine_id()}\0{os.path.realpath(self._state_dir)}"
        return f"local:{sha256(text.encode(errors='surrogateescape')).hexdigest()[:16]}"

    def on_this_machine(self) -> bool:
        return True

    def reserve(self, attempt: Attempt) -> LocalReservation:
        record = attempt.to_json()
        made = self._claim(record, session=attempt.key.session, name=attempt.key.job, key=attempt.key)
        return LocalReservation(attempt, made)

    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        from launcher.schedulers.local import outputs, submit
        from launcher.schedulers.local.request import bind_request, without_gpus

        mine = _ours(reservation)
        request = self._request(app, self.run_opts().resolve(cfg), mine.attempt.key.session)
        bound = bind_request(request, mine.app_id, outputs.folders(self._state_dir, mine.attempt))
        pending = [each.job for each in mine.waits_for if outputs.will_be_made(self._app_dir(each.app_id))]
        own = {**mine.attempt.variables, **outputs.variables(self._state_dir, mine.attempt, pending)}
        for params in bound.role_params.values():
            for param in params:
                param.env.update(own)
        if mine.turn is None:
            bound = without_gpus(bound)
        outputs.make_root(self._state_dir)
        mine.is_over = True
        mine.supervisor = self._keep(
            submit.create(
                self._state_dir, mine.claim, bound, attached=False, output=self.output_of(mine.attempt, app)
            )
        )
        mine.is_over = False

    def start(self, reservation: Reservation) -> None:
        from launcher.schedulers.local import submit

        mine = _ours(reservation)
        if mine.supervisor is None:
            raise ValueError(f"{mine.app_id} was not created")
        mine.is_over = True
        mine.accepted = submit.start(
            self._state_dir,
            mine.supervisor,
            [(each.job, self._app_dir(each.app_id)) for each in mine.waits_for],
            mine.turn,
            mine.inputs,
        )
        mine.supervisor.close()

    def abort(self, reservation: Reservation) -> None:
        from launcher.schedulers.local import submit
        from launcher.schedulers.local.claim import discard

        mine = _ours(reservation)
        if mine.is_over:
            return
        mine.is_over = True
        if mine.supervisor is not None:
            submit.take_back(self._state_dir, mine.supervisor)
        else:
            discard(self._state_dir, mine.claim.app_dir, mine.claim)

    # Observation

    def observe(self, keys: Collection[JobKey], settled: Collection[str] = ()) -> list[Attempt]:
        """See `StagedScheduler.observe`; local_cwd and local_dir share the apps of the state folder."""
        from launcher.schedulers.local.observe import observe

        return observe(self._state_dir, keys, settled)

    def attempt(self, app_id: str) -> Attempt | None:
        from launcher.schedulers.local import attemptfile

        if not is_id(app_id):
            return None
        app_dir = self._app_dir(app_id)
        record = attemptfile.read(app_dir)
        view = rundir.read_state(app_dir)
        if record is None or view is None or not record.get("key"):
            return None
        return attemptfile.attempt_of(record, view)

    def ended_attempt(self, app_id: str, timeout_s: float | None = None) -> Attempt | None:
        self._wait_view(app_id, timeout_s)
        return self.attempt(app_id)

    def reap(self) -> list[Attempt]:
        from launcher.schedulers.local.observe import reap

        return reap(self._state_dir)

    def finished(self) -> list[AppRecord]:
        from launcher.schedulers.local.tidy import finished

        return finished(self._state_dir, self.backend)

    def remove(self, app_id: str) -> None:
        from launcher.schedulers.local.tidy import remove

        if is_id(app_id):
            remove(self._state_dir, app_id)

    # For the commands: answered from the records, without importing the specs

    def outputs(self) -> list[str]:
        from launcher.schedulers.local import outputs

        return outputs.names(self._state_dir)

    def output_of(self, attempt: Attempt, app: AppDef) -> str:
        from launcher.specs.outputs import own_output

        return self.output_folder(own_output(attempt))

    def lost_outputs(self, attempts: Iterable[Attempt]) -> set[str]:
        from launcher.schedulers.local import outputs

        return {each.app_id for each in attempts if outputs.is_gone(self._state_dir, each)}

    def output_archive(self, attempt: Attempt) -> tuple[Iterator[bytes], str]:
        from launcher.schedulers.local import outputs
        from launcher.specs.outputs import own_output

        return outputs.archive(self._state_dir, own_output(attempt)), ""

    def output_folder(self, name: str) -> str:
        from launcher.schedulers.local import outputs

        return outputs.folder(self._state_dir, name)

    def unreadable(self, other: str) -> str:
        return "" if other in (CWD, DIR) else super().unreadable(other)

    def remove_output(self, name: str) -> None:
        from launcher.schedulers.local import outputs

        outputs.remove(self._state_dir, name)

    @property
    def shared_engine(self) -> str:
        return ""

    def has_apps_here(self) -> bool:
        return True

    def refresh(self, app_ids: Iterable[str]) -> Iterable[AppRecord]:
        from launcher.schedulers.local.apprecord import app_record

        for app_id in filter(is_id, app_ids):
            view = rundir.read_state(self._app_dir(app_id))
            if view is not None and not view.abandoned:
                yield app_record(self.backend, self.session_name, app_id, view)

    def record(self, app_id: str) -> AppRecord | None:
        view = self._view(app_id)
        if view is None:
            return None
        from launcher.schedulers.local import attemptfile
        from launcher.schedulers.local.apprecord import app_record, replica_records

        found = app_record(self.backend, self.session_name, app_id, view)
        found.replicas = replica_records(self._app_dir(app_id), view)
        found.output = str((attemptfile.read(self._app_dir(app_id)) or {}).get("output") or "")
        return found

    def wait_record(self, app_id: str, timeout_s: float | None = None) -> AppRecord | None:
        view = self._wait_view(app_id, timeout_s)
        if view is None:
            return None
        from launcher.schedulers.local.apprecord import app_record

        return app_record(self.backend, self.session_name, app_id, view)

    def about(self, app_id: str) -> Mapping[str, Any]:
        from launcher.schedulers.local import attemptfile

        record = (attemptfile.read(self._app_dir(app_id)) if is_id(app_id) else None) or {}
        return {name: record[name] for name in ("metadata", "digest", "document") if record.get(name)}

    def _view(self, app_id: str) -> AppView | None:
        """The state of the app; None when there is none. Kills processes left by a dead supervisor."""
        if not is_id(app_id):
            return None
        app_dir = self._app_dir(app_id)
        view = rundir.read_state(app_dir)
        if view is not None and view.abandoned:
            from launcher.schedulers.local.observe import record_end

            record_end(self._state_dir, app_id, view)
        return view

    def warnings(self, app_id: str) -> Sequence[str]:
        view = rundir.read_state(self._app_dir(app_id)) if is_id(app_id) else None
        return [] if view is None else view.warnings

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        view = self._view(app_id)
        return None if view is None else self._response(app_id, view)

    def _response(self, app_id: str, view: AppView) -> DescribeAppResponse | None:
        from launcher.schedulers.local import attemptfile
        from launcher.schedulers.local.describe import response

        app_dir = self._app_dir(app_id)
        record = attemptfile.read(app_dir)
        if record is not None and record["scheduler"] != self.backend:
            return None  # local_dir://…/x is no handle of an app of local_cwd
        return response(app_id, app_dir, view, record)

    def list(self) -> list[ListAppResponse]:
        from launcher.schedulers.answers import listed_of

        return [listed_of(each) for each in self.records()]

    def records(self) -> Sequence[AppRecord]:
        from launcher.schedulers.local.observe import present

        return present(self._state_dir, self.backend)

    def wait(self, app_id: str, timeout_s: float | None = None) -> DescribeAppResponse | None:
        """Woken by the kernel when the supervisor ends."""
        view = self._wait_view(app_id, timeout_s)
        return None if view is None else self._response(app_id, view)

    def _wait_view(self, app_id: str, timeout_s: float | None = None) -> AppView | None:
        from launcher.schedulers.local.waiting import wait_for_end

        if not is_id(app_id):
            return None
        view = wait_for_end(self._app_dir(app_id), timeout_s)
        return self._view(app_id) if view is not None and view.abandoned else view

    def wait_for_start(self, app_id: str) -> None:
        from launcher.schedulers.local.follow import wait_for_start

        if is_id(app_id):
            wait_for_start(self._app_dir(app_id))

    # Cancellation

    def cancel(self, app_id: str, grace_s: float | None = None) -> None:
        """Stop the app and return when none of its processes is left. An ended app keeps its outcome."""
        from launcher.schedulers.local.stop import cancel

        if is_id(app_id) and os.path.isdir(self._app_dir(app_id)):
            cancel(self._state_dir, app_id, grace_s, on_wait=self.on_wait)

    def withdraw(self, app_id: str) -> bool:
        from launcher.schedulers.local.withdraw import withdraw

        return is_id(app_id) and withdraw(self._state_dir, app_id, on_wait=self.on_wait)

    def interrupt(self, app_id: str, grace_s: float | None = None) -> None:
        from launcher.schedulers.local.stop import cancel

        if is_id(app_id) and os.path.isdir(self._app_dir(app_id)):
            cancel(self._state_dir, app_id, grace_s, interrupt=True, on_wait=self.on_wait)

    def _cancel_existing(self, app_id: str) -> None:
        self.cancel(app_id)

    def close(self) -> None:
        """Cancel the attached apps, and wait until they have ended."""
        self._close_store()
        for supervisor in self._supervisors:
            supervisor.close()
        self._end_attached()
        self._supervisors = [supervisor for supervisor in self._supervisors if not supervisor.reap()]

    def _end_attached(self) -> None:
        """Wait for the supervisors of attached apps; a suspended one does not notice the closed socket."""
        attached = [supervisor for supervisor in self._supervisors if supervisor.attached]
        if not attached:
            return
        from launcher.schedulers.local.stop import NOTE_S

        for supervisor in attached:
            if not supervisor.ends(NOTE_S):
                self.cancel(os.path.basename(supervisor.app_dir))
            supervisor.reap(block=True)

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def __del__(self) -> None:
        """Close the store: Python warns of open databases, and schedulers need not be closed."""
        self._close_store()

    # Logs

    def log_records(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        since: float | None = None,
        until: float | None = None,
        follow: bool = False,
        streams: Stream | str | None = None,
    ) -> Iterator[LogRecord]:
        from launcher.schedulers.local.logs import LocalLogs
        from launcher.schedulers.readback import Selection

        found = LocalLogs(self._app_dir(app_id), [(role_name, k)])
        return found.read_records(Selection(streams, since, until), follow=follow, on_restart=self.on_restart)

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
        from launcher.schedulers.local.logs import LocalLogs
        from launcher.schedulers.readback import Selection

        want = Selection(stream, since, until, tail)
        found = LocalLogs(self._app_dir(app_id), replicas)
        return found.read_chunks(want, follow=follow, on_restart=self.on_restart)

    def run_starts(
        self, app_id: str, replicas: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Sequence[tuple[int, float]]]:
        from launcher.schedulers.local.follow import recorded_events
        from launcher.schedulers.restarts import run_starts

        return run_starts(recorded_events(self._app_dir(app_id))(), replicas)

    def restarts(self, app_id: str) -> Iterator[Restart]:
        from launcher.schedulers.local.follow import recorded_events, rounds
        from launcher.schedulers.restarts import RestartReader, followed

        app_dir = self._app_dir(app_id)
        return followed(RestartReader(recorded_events(app_dir)), rounds(app_dir))


def _ours(reservation: Reservation) -> LocalReservation:
    if not isinstance(reservation, LocalReservation):
        raise TypeError(f"{reservation.app_id} was not reserved here")
    return reservation


def _machine_id() -> str:
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return os.uname().nodename


def _backend_of(provider: Callable[[Mapping[str, CfgVal]], ImageProvider] | None) -> str:
    if not isinstance(provider, type):
        return CWD
    from launcher.schedulers.local.images import LocalDirectoryImageProvider

    return DIR if issubclass(provider, LocalDirectoryImageProvider) else CWD


def create_scheduler(
    session_name: str,
    cache_size: int = 100,
    extra_paths: Sequence[str] | None = None,
    image_provider_class: Callable[[Mapping[str, CfgVal]], ImageProvider] | None = None,
    *,
    detach: bool = False,
    backend: str = "",
    **_: object,
) -> LocalScheduler:
    """Replicas run where `image_provider_class` decides; by default in option `cwd` or the current folder."""
    return LocalScheduler(
        session_name, image_provider_class, cache_size, extra_paths, backend=backend, detach=detach
    )


def create_dir_scheduler(session_name: str, **params: Any) -> LocalScheduler:
    """Replicas run in their role's image, an absolute existing folder."""
    return create_scheduler(session_name, **{**params, "backend": DIR})
