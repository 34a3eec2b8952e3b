"""Submit apps: reserve, create, start and take back, each in one request."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from tempfile import TemporaryFile
from typing import IO, Any

from launcher.errors import LauncherError, ReservedError, SchedulerError
from launcher.schedulers.appstore import open_store
from launcher.schedulers.backend import BackendReservation
from launcher.schedulers.ids import random_id
from launcher.schedulers.owner import this_process
from launcher.schedulers.record import row_of
from launcher.schedulers.slurm import known, outputs
from launcher.schedulers.slurm.cluster import Cluster, checked, error_of, program_name
from launcher.schedulers.slurm.clusters import forget, seen
from launcher.schedulers.slurm.known import SLURM
from launcher.schedulers.slurm.request import SlurmRequest, bind_request, build_request
from launcher.schedulers.slurm.state import alive_owner, view_of
from launcher.schedulers.workspaces import BoundWorkspace
from launcher.secrets import resolve
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.attempt import Attempt, AttemptState
from launcher.specs.outputs import has_output, own_output
from launcher.state.records import AppRecord, of_attempt
from launcher.workspace.archive import archive


class Held:
    """An app id on a cluster that this client has reserved.

    Attributes:
        resumed: it resumes an interrupted submission of the same document, whose job Slurm holds.
        is_over: it was started, or taken back.
    """

    def __init__(self, cluster: Cluster, app_id: str, nonce: str, *, resumed: bool) -> None:
        self.cluster = cluster
        self.app_id = app_id
        self.nonce = nonce
        self.resumed = resumed
        self.is_over = False

    def _op(self, name: str, **fields: Any) -> dict[str, Any]:
        return {"op": name, "app_id": self.app_id, "nonce": self.nonce, **fields}

    def create(
        self,
        bound: SlurmRequest,
        needs: Sequence[Mapping[str, str]] = (),
        *,
        before: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Write the files of an app, and hand its job to Slurm, which holds it."""
        op = self._op(
            "create",
            app=json.dumps(bound.app),
            script=bound.script,
            program=program_name(),
            secret=secrets_of(bound),
            argv=bound.argv,
            needs=list(needs),
        )
        for answer in self.cluster.call(*self.cluster.programs, *before, op):
            checked(answer)

    def start(self) -> AttemptState:
        """Let Slurm run the app; returns the state in which Slurm accepted it."""
        self.is_over = True
        (answer,) = self.cluster.call(self._op("start"))
        self.take_answer(answer)
        accepted: AttemptState = checked(answer)["state"]
        return accepted

    def take_answer(self, answer: Mapping[str, Any]) -> None:
        """Note the answer of the start: after these errors, nothing will run."""
        self.is_over = answer.get("error") not in ("refused", "state")

    def take_back(self) -> None:
        """Remove everything of a reservation. May be called twice; without effect after the start."""
        if not self.is_over:
            checked(*self.cluster.call(self._op("abort")))
            self.is_over = True
            forget(self.app_id)


def secrets_of(bound: SlurmRequest) -> dict[str, dict[str, str]]:
    """Role → variable → its secret value."""
    return {
        role: {name: resolve(reference) for name, reference in values.items()}
        for role, values in bound.secrets.items()
    }


class SlurmReservation(BackendReservation):
    """An attempt whose folder on the cluster this client owns."""

    def __init__(self, held: Held, attempt: Attempt) -> None:
        super().__init__(attempt)
        self.held = held
        self.queued_for = "in Slurm's queue"

    def put(self, workspace: BoundWorkspace) -> None:
        """Copy the workspace into the folder of the attempt."""
        if not self.held.resumed:
            self.held.cluster.put(self.app_id, archive(workspace.folder, digest=workspace.digest))

    def create(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        """Make the files and the held job. Raises StartError when Slurm refuses the job."""
        held = self.held
        if held.resumed:
            return
        needs = self.needs()
        try:
            request = build_request(app, cfg, session=self.attempt.key.session)
            held.create(self.bound(request, app), needs, before=self.make_output(app))
        except SchedulerError:
            held.take_back()
            raise

    def needs(self) -> list[dict[str, str]]:
        """The apps that it waits for, with their jobs. Raises SchedulerError for one at another cluster."""
        _refuse_elsewhere(self.held.cluster, [each.app_id for each in self.waits_for])
        return [{"app_id": each.app_id, "job": each.job} for each in self.waits_for]

    def bound(
        self, request: SlurmRequest, app: AppDef, outputs_there: Collection[str] | None = None
    ) -> SlurmRequest:
        """The request for the app id. `outputs_there`: the output folders of the cluster, if known."""
        folders, listed = outputs.of_attempt(self.held.cluster, self.attempt, app, outputs_there)
        own = {**self.attempt.variables, **listed}
        return bind_request(request, self.app_id, outputs=folders, variables=own, program=program_name())

    def make_output(self, app: AppDef) -> list[dict[str, Any]]:
        """The operation that makes the app's output folder; none for an app without one."""
        return [{"op": "make_output", "name": own_output(self.attempt)}] if has_output(app) else []

    def start(self) -> None:
        self.accepted = self.held.start()

    def abort(self) -> None:
        self.held.take_back()


def reserve(cluster: Cluster, attempt: Attempt, *, take_over: bool = False) -> Held:
    """Take an app id. Raises ReservedError, with the owner or the state, when it is taken."""
    (found,) = reserve_all(cluster, [(of_attempt(attempt), attempt.to_json())], take_over=take_over)
    if isinstance(found, LauncherError):
        raise found
    return found


def reserve_all(
    cluster: Cluster, apps: Sequence[tuple[AppRecord, Mapping[str, Any]]], *, take_over: bool = False
) -> list[Held | LauncherError]:
    """Take app ids; returns for each the reservation, or the error that forbids it.

    Args:
        apps: their rows, each with the contents of `attempt.json`.
        take_over: see `StagedScheduler`.
    """
    _note(cluster, [row for row, _ in apps])
    nonce = random_id()
    owner = {**asdict(this_process()), "nonce": nonce, "at": time.time()}
    ops: dict[str, dict[str, Any]] = {
        row.app_id: {"op": "reserve", "app_id": row.app_id, "record": record, "owner": owner, "dead": []}
        for row, record in apps
    }
    made: dict[str, Held | LauncherError] = {}
    while left := [op for app_id, op in ops.items() if app_id not in made]:
        answers = cluster.call(*cluster.greeting, *left, one_look=len(left) > 1)
        for op, answer in zip(left, answers[-len(left) :], strict=True):
            app_id = op["app_id"]
            if answer.get("error") != "reserved":
                resumed = bool(answer.get("resumed"))
                made[app_id] = error_of(answer) or Held(cluster, app_id, nonce, resumed=resumed)
            elif rival := _dead_owner(answer.get("detail") or {}, op["dead"], take_over=take_over):
                op["dead"].append(rival)
            else:
                made[app_id] = _taken(cluster, app_id, take_over=take_over)
    return [made[app_id] for app_id in ops]


def _note(cluster: Cluster, rows: Sequence[AppRecord]) -> None:
    """Note apps in this state folder, before any object of them is made."""
    for row in rows:
        row.state = "reserved"
    known.remember(rows, cluster.place)
    with open_store(durable=False) as store:
        store.add_all((row, True) for row in rows)


def _dead_owner(detail: Mapping[str, Any], known_dead: Collection[str], *, take_over: bool) -> str:
    """The nonce of a dead owner, whose app may be taken; "" where there is none."""
    found = detail.get("owner")
    if not found or found["nonce"] in known_dead:
        return ""
    seen = {**found, "at": detail.get("progress_at") or found.get("at")}
    return "" if alive_owner({"owner": seen}, take_over=take_over) else str(found["nonce"])


def _taken(cluster: Cluster, app_id: str, *, take_over: bool) -> ReservedError:
    facts = seen(cluster, app_ids=[app_id], ended=True).get(app_id)
    if facts is None:
        return ReservedError(app_id, "gone")
    view = view_of(facts, take_over=take_over)
    return ReservedError(app_id, view.state, view.owner)


def _refuse_elsewhere(cluster: Cluster, app_ids: Iterable[str]) -> None:
    for app_id in app_ids:
        place = known.place_of_app(app_id)
        if place is not None and place != cluster.place:
            there = f"behind {place[0]}" if place[0] else "of this machine"
            raise SchedulerError(
                f"it needs {app_id}, which is at another cluster ({there}, {place[1]})",
                hint="apply it when that has succeeded, or give both the same `host` and `job_dir`",
            )


def submit_app(
    cluster: Cluster,
    request: SlurmRequest,
    record: Mapping[str, Any],
    workspace: Iterable[bytes] | None,
) -> None:
    """Submit an app that no job file made.

    Args:
        record: the contents of `attempt.json`.
        workspace: its files as a tar archive; None without any.
    """
    (held,) = reserve_all(cluster, [(row_of(SLURM, record["app_id"], record), record)])
    if isinstance(held, LauncherError):
        raise held
    try:
        if workspace is not None:
            cluster.put(held.app_id, workspace)
        bound = bind_request(request, held.app_id, outputs={}, variables={}, program=program_name())
        held.create(bound)
        held.start()
    except BaseException:
        held.take_back()
        raise


# -- workspaces ------------------------------------------------------------------------------------------


_PIECE = 1 << 18


class AppWithWorkspace(AppDef):
    """An app whose replicas run in a copy of a workspace. `workspace` is the digest of its files."""

    workspace = ""


def with_workspace(app: AppDef, workspace: BoundWorkspace) -> AppDef:
    """The app with the workspace: a new value; nothing is copied."""
    made = AppWithWorkspace(**{name: getattr(app, name) for name in ("name", "roles", "metadata")})
    made.workspace = workspace.digest
    return made


def digest_of(app: AppDef) -> str:
    """The digest of an app's workspace; "" for an app without one."""
    return app.workspace if isinstance(app, AppWithWorkspace) else ""


def packed(workspace: BoundWorkspace) -> IO[bytes]:
    """The archive of a workspace, in an unnamed file. Raises WorkspaceError."""
    file = TemporaryFile()  # noqa: SIM115, it outlives this function
    try:
        for piece in archive(workspace.folder, digest=workspace.digest):
            file.write(piece)
    except BaseException:
        file.close()
        raise
    return file


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """The whole file, each time from its beginning."""
    file.seek(0)
    yield from iter(lambda: file.read(_PIECE), b"")
