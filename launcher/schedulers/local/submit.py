"""Submit an app in a claimed folder, and undo the submission when it fails."""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from launcher import paths
from launcher.ci_environment import inherited
from launcher.errors import SchedulerError
from launcher.schedulers.backend import BackendReservation
from launcher.schedulers.local.claim import Claim, claim, discard, discard_ownerless
from launcher.schedulers.local.outputs import LocalOutputs, will_be_made
from launcher.schedulers.local.popen import PopenRequest
from launcher.schedulers.local.request import bind_request, check_edits, without_gpus
from launcher.schedulers.local.supervisor_client import LineClient, SupervisorClient
from launcher.schedulers.record import ask_of_run, reserved
from launcher.schedulers.registry import open_store
from launcher.secrets import resolve
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.attempt import Attempt
from launcher.specs.secret import Secret

if TYPE_CHECKING:
    from launcher.specs.app import AppDryRunInfo
    from launcher.specs.attempt import AttemptState
    from launcher.state.store import Store

    RequestOf = Callable[[AppDef, Mapping[str, CfgVal], str], PopenRequest]
    """A function of app, options and session that returns the request under the symbolic id."""

_TAKE_BACK_S = 10.0
"""Seconds in which a supervisor must undo a submission; its replicas get less (TAKE_BACK_GRACE_S)."""

_NOTICE_S = 2.0  # how long a supervisor may take to notice that its client has closed the socket


class Submitter:
    """Submits the apps of one scheduler object, and keeps the open store and the child processes for them."""

    def __init__(self, output_folders: LocalOutputs) -> None:
        self.outputs = output_folders
        self._store: Store | None = None
        self._supervisors: list[SupervisorClient] = []
        self._holds = False  # whether it has an app that waits or takes its turn
        self._line: LineClient | None = None
        self._lock = allocate_lock()

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment that all attempts of one apply, which this object submits, inherit."""
        return inherited()

    def claim(self, recorded: Mapping[str, Any]) -> Claim:
        with self._lock:
            if self._store is None:
                paths.ensure(paths.local_apps())
                # Open while submitting: SQLite syncs three times whenever the last connection closes.
                self._store = open_store(durable=False)
        return claim(self._store, paths.local_app(recorded["app_id"]), dict(recorded))

    def create(
        self,
        made: Claim,
        request: PopenRequest,
        environment: dict[str, str],
        *,
        attached: bool,
        output: str = "",
        held: bool = False,
    ) -> SupervisorClient:
        """Start a supervisor that has prepared the app and waits for "go"; see `SupervisorClient.create`.

        Args:
            held: the app waits for others or takes its turn. The first such app has a supervisor; one process
                holds the others.

        Raises StartError, SecretError or SchedulerError, with the app removed.
        """
        every = (param for params in request.role_params.values() for param in params)
        used = {value for param in every for value in param.env.values() if isinstance(value, Secret)}
        try:
            # Their values stay in the supervisor's memory.
            secrets = {str(reference): resolve(reference) for reference in sorted(used)}
            made.prepare(request)
            supervisor = self._holder_of(made, held=held)
        except BaseException:
            discard(made)
            raise
        # Only the supervisor may hold the lock: with a second copy it would look alive when killed.
        made.release()
        # Collect ended supervisors, which are zombies until then.
        self._supervisors = [each for each in self._supervisors if not each.reap()]
        self._supervisors.append(supervisor)
        try:
            supervisor.create(request, environment, attached=attached, secrets=secrets, output=output)
        except BaseException:
            self.take_back(supervisor)
            raise
        return supervisor

    def _holder_of(self, made: Claim, *, held: bool) -> SupervisorClient:
        with self._lock:
            is_first, self._holds = not self._holds, self._holds or held
            if not held or is_first or sys.platform != "linux":
                return SupervisorClient.spawn(made.app_dir, made.lock_fd)
            if self._line is None:
                self._line = LineClient()
            return self._line.hold(made.app_dir, made.lock_fd)

    def start(self, supervisor: SupervisorClient, *wants: Any) -> AttemptState:
        """See `SupervisorClient.go`, which gets `wants`. Raises StartError, with the app removed.

        On an interrupt a detached app keeps running and an attached one is cancelled.
        """
        try:
            return supervisor.go(*wants)
        except SchedulerError:
            self.take_back(supervisor)
            raise
        except BaseException:
            supervisor.close()
            raise

    def take_back(self, supervisor: SupervisorClient) -> None:
        """Undo the submission: the supervisor removes the app when the socket closes before "go"."""
        supervisor.close()
        if not supervisor.ends(_TAKE_BACK_S):
            supervisor.kill()  # it is suspended, or hangs
        supervisor.reap(block=True)
        if os.path.isdir(supervisor.app_dir):  # the supervisor was killed before it could remove the app
            discard_ownerless(supervisor.app_dir)
            return
        with open_store(durable=False) as store:
            store.remove_void(os.path.basename(supervisor.app_dir), supervisor.app_dir)

    def run(
        self, attempt: Attempt, info: AppDryRunInfo[PopenRequest], *, attached: bool, in_turn: bool
    ) -> None:
        """Start an app without a job. Raises the errors of `LocalScheduler.launch`."""
        check_edits(info.request, paths.local_apps())
        turn = ask_of_run(info.app, attempt.app_id, in_turn=in_turn)
        made = self.claim(reserved(attempt))
        request = bind_request(info.request, attempt.app_id)
        request = request if turn else without_gpus(request)
        supervisor = self.create(made, request, inherited(), attached=attached)
        self.start(supervisor, (), turn)
        if not attached:
            supervisor.close()

    def leave(self, app_id: str) -> None:
        """Let an attached app run on when this object is closed."""
        for supervisor in self._supervisors:
            if os.path.basename(supervisor.app_dir) == app_id:
                supervisor.leave()

    def close(self, cancel: Callable[[str], None]) -> None:
        """End the attached apps, and wait for their supervisors.

        `cancel` is called for a suspended one, which does not notice the closed socket.
        """
        self.close_store()
        for supervisor in self._supervisors:
            supervisor.close()
        for supervisor in self._supervisors:
            if supervisor.attached:
                if not supervisor.ends(_NOTICE_S):
                    cancel(os.path.basename(supervisor.app_dir))
                supervisor.reap(block=True)
        self._supervisors = [each for each in self._supervisors if not each.reap()]

    def close_store(self) -> None:
        if self._line is not None:
            self._line.close()
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def __del__(self) -> None:
        """Close the store: Python warns of open databases, and schedulers need not be closed."""
        self.close_store()


class LocalReservation(BackendReservation):
    """An attempt whose folder this process owns."""

    def __init__(self, attempt: Attempt, submitter: Submitter, request_of: RequestOf) -> None:
        super().__init__(attempt)
        self._submitter = submitter
        self._request_of = request_of
        self._claim = submitter.claim(attempt.to_json())
        self._supervisor: SupervisorClient | None = None
        self._is_over = False  # the attempt was started or removed

    def create(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        folders, attempt = self._submitter.outputs, self.attempt
        request = self.request or self._request_of(app, cfg, attempt.session)
        bound = bind_request(request, attempt.app_id, folders.macros(attempt))
        pending = [each.job for each in self.waits_for if will_be_made(paths.local_app(each.app_id))]
        own = {**attempt.variables, **folders.variables(attempt, pending)}
        for params in bound.role_params.values():
            for param in params:
                param.env.update(own)
        if self.turn is None:
            bound = without_gpus(bound)
        paths.ensure(folders.root)
        self._is_over = True
        self._supervisor = self._submitter.create(
            self._claim,
            bound,
            self._submitter.environment,
            attached=False,
            output=folders.address(attempt, app),
            held=bool(self.waits_for or self.turn),
        )
        self._is_over = False

    def start(self) -> None:
        supervisor = self._supervisor
        if supervisor is None:
            raise ValueError(f"{self.app_id} was not created")
        self._is_over = True
        needs = [(each.job, paths.local_app(each.app_id)) for each in self.waits_for]
        self.accepted = self._submitter.start(supervisor, needs, self.turn, self._compared())
        supervisor.close()

    def _compared(self) -> dict[str, list[str]] | None:
        """Return the arguments of `Comparison` for the files that the supervisor compares; None for none."""
        workspace = self.workspace if self.waits_for or self.turn else None  # else the app starts at once
        if not (self.inputs or workspace):
            return None
        return {
            "args": [*self.inputs[:3], *self.inputs.globs] if self.inputs else [],
            "env": [f"LAUNCHER_HOME={os.path.abspath(paths.home())}"],  # the lists of files are there
            "workspace": [workspace.digest, workspace.path] if workspace else [],
        }

    def abort(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._supervisor is not None:
            self._submitter.take_back(self._supervisor)
        else:
            discard(self._claim)
