"""Submit apps, one or an array of them: reserve, create, start and take back, each in one request.

Before that, ask clusters whether they would take the apps: equal requests once, each cluster in one request.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, Any

from launcher.dataclass import asdict
from launcher.errors import LauncherError, ReservedError, SchedulerError
from launcher.schedulers.backend import BackendReservation
from launcher.schedulers.ids import random_id
from launcher.schedulers.owner import this_process
from launcher.schedulers.record import reserved, row_of
from launcher.schedulers.registry import open_store
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.cluster import Cluster, checked, error_of, program_name
from launcher.schedulers.slurm.clusters import Clusters, forget, outputs_of, seen
from launcher.schedulers.slurm.known import SLURM, Place
from launcher.schedulers.slurm.request import SlurmRequest, array_script, bind_request, build_request
from launcher.schedulers.slurm.state import alive_owner, seen_app
from launcher.schedulers.staged import Batches, Member, Reservation, Verdict
from launcher.schedulers.workspaces import BoundWorkspace
from launcher.secrets import resolve
from launcher.specs.app import AppDef, AppDryRunInfo, CfgVal
from launcher.specs.attempt import Attempt
from launcher.specs.outputs import has_output, own_output, read_outputs
from launcher.workspace.archive import archive


class SlurmReservation(BackendReservation):
    """An app id on a cluster that this client has reserved.

    Attributes:
        resumed: it resumes an interrupted submission of the same document, whose job Slurm holds.
        is_over: the app was started, or the reservation was taken back.
    """

    def __init__(self, cluster: Cluster, attempt: Attempt, nonce: str, *, resumed: bool) -> None:
        super().__init__(attempt)
        self.cluster = cluster
        self.nonce = nonce
        self.resumed = resumed
        self.is_over = False
        self.queued_for = "in Slurm's queue"

    def owned(self) -> dict[str, str]:
        """The fields of an operation that name the app and this client."""
        return {"app_id": self.app_id, "nonce": self.nonce}

    def put(self, workspace: BoundWorkspace) -> None:
        """Copy the workspace into the folder of the attempt."""
        if not self.resumed:
            self.cluster.put(self.app_id, archive(workspace.folder, digest=workspace.digest))

    def create(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        """Make the app's files and its held job. Raises StartError if Slurm refuses the job."""
        if self.resumed:
            return
        needs = self.needs()
        try:
            bound = self.bound(app, cfg)
            op = {"op": "create", **self.files(bound), "script": bound.script}
            op |= {"needs": needs, "program": program_name()}
            for answer in self.cluster.call(*self.cluster.programs, *self.make_output(app), op):
                checked(answer)
        except SchedulerError:
            self.abort()
            raise

    def needs(self) -> list[dict[str, str]]:
        """The apps that it waits for, with their jobs. Raises SchedulerError for one at another cluster."""
        for each in self.waits_for:
            place = known.place_of_app(each.app_id)
            if place is not None and place != self.cluster.place:
                there = f"behind {place[0]}" if place[0] else "of this machine"
                raise SchedulerError(
                    f"it needs {each.app_id}, which is at another cluster ({there}, {place[1]})",
                    hint="apply it when that has succeeded, or give both the same `host` and `job_dir`",
                )
        return [{"app_id": each.app_id, "job": each.job} for each in self.waits_for]

    def bound(
        self, app: AppDef, cfg: Mapping[str, CfgVal], outputs_there: Collection[str] | None = None
    ) -> SlurmRequest:
        """The request for the app id. `outputs_there`: the output folders of the cluster, if known."""
        request = self.request or build_request(app, cfg, session=self.attempt.session)
        if not self.attempt.number:  # an app without a job has no output folder
            return bind_request(request, self.app_id, program=program_name())
        folders, listed = outputs_of(self.cluster, self.attempt, app, outputs_there)
        own = {**self.attempt.variables, **listed}
        return bind_request(request, self.app_id, outputs=folders, variables=own, program=program_name())

    def files(self, bound: SlurmRequest) -> dict[str, Any]:
        """The fields of an operation that name the app and its files."""
        secrets = {
            role: {name: resolve(each) for name, each in found.items()}
            for role, found in bound.secrets.items()
        }
        return {**self.owned(), "app": json.dumps(bound.app), "secret": secrets}

    def make_output(self, app: AppDef) -> list[dict[str, Any]]:
        """The operation that makes the app's output folder; none for an app without one."""
        has_folder = self.attempt.number and has_output(app)
        return [{"op": "make_output", "name": own_output(self.attempt)}] if has_folder else []

    def start(self) -> None:
        (error,) = start_all([self])
        if error is not None:
            raise error

    def abort(self) -> None:
        abort_all([self])


def start_all(reservations: Sequence[SlurmReservation]) -> list[LauncherError | None]:
    """Let Slurm run the apps; returns for each app None, or the error that keeps it from running."""
    for each in reservations:
        each.is_over = True
    ops = [{"op": "start", **each.owned()} for each in reservations]
    answers = reservations[0].cluster.call(*ops)
    for each, answer in zip(reservations, answers, strict=True):
        each.is_over = answer.get("error") not in ("refused", "state")  # after these, the app will not run
        each.accepted = answer.get("state", each.accepted)
    return [error_of(answer) for answer in answers]


def abort_all(reservations: Sequence[SlurmReservation]) -> None:
    """Remove everything of the reservations, except started apps. Raises SchedulerError."""
    mine = [each for each in reservations if not each.is_over]
    if not mine:
        return
    answers = mine[0].cluster.call(*({"op": "abort", **each.owned()} for each in mine))
    removed = [each for each, answer in zip(mine, answers, strict=True) if "error" not in answer]
    for each in removed:
        each.is_over = True
    forget(*(each.app_id for each in removed))
    for answer in answers:
        checked(answer)


def _dead_owner(detail: Mapping[str, Any], known_dead: Collection[str], *, take_over: bool) -> str:
    """The nonce of a dead owner, whose app may be taken; "" where there is none."""
    found = detail.get("owner")
    if not found or found["nonce"] in known_dead:
        return ""
    seen = {**found, "quiet_s": detail.get("quiet_s")}
    return "" if alive_owner({"owner": seen}, take_over=take_over) else str(found["nonce"])


def _forget_unmade(cluster: Cluster, made: Mapping[str, SlurmReservation | LauncherError]) -> None:
    """Remove the notes about apps that could not be made: `reap` waits, as for a client that is about to."""
    failed = [app_id for app_id, each in made.items() if isinstance(each, LauncherError)]
    failed = [app_id for app_id in failed if not isinstance(made[app_id], ReservedError)]
    if failed:
        with suppress(LauncherError):
            there = seen(cluster, app_ids=failed)
            forget(*(app_id for app_id in failed if app_id not in there))


def _taken(cluster: Cluster, app_id: str, *, take_over: bool) -> ReservedError:
    facts = seen(cluster, app_ids=[app_id]).get(app_id)
    if facts is None:
        return ReservedError(app_id, "gone")
    found = seen_app(facts, take_over=take_over)
    return ReservedError(app_id, found.record.state, found.owner)


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


class SlurmBatches(Batches):
    """Submits apps with the same options of sbatch and the same setup as tasks of one array, or of few."""

    def __init__(self, clusters: Clusters, *, take_over: bool) -> None:
        self._clusters = clusters
        self._take_over = take_over

    def traits(self, request: SlurmRequest) -> Mapping[str, str]:
        own = {"host": request.host, "job_dir": request.job_dir, "setup": "\n".join(request.setup)}
        return {**{name: value for name, value in request.options.items() if name != "job-name"}, **own}

    def most(self, cfg: Mapping[str, CfgVal]) -> int:
        return int(self._clusters.at(known.place_of(cfg)).about.get("max_array", 0))

    def reserve(self, attempts: Sequence[Attempt]) -> Sequence[SlurmReservation | LauncherError]:
        for each in attempts:
            self._clusters.noted(each.app_id)  # true no longer
        cluster = self._clusters.at(known.place_of(attempts[0].document.get("cfg", {})))
        records = {each.app_id: reserved(each) for each in attempts}
        rows = [row_of(SLURM, app_id, record) for app_id, record in records.items()]
        known.remember(rows, cluster.place)
        with open_store(durable=False) as store:
            store.add_all((row, True) for row in rows)
        nonce = random_id()
        owner = {**asdict(this_process()), "nonce": nonce, "at": time.time()}
        ops: dict[str, dict[str, Any]] = {
            app_id: {"op": "reserve", "app_id": app_id, "record": record, "owner": owner, "dead": []}
            for app_id, record in records.items()
        }
        made: dict[str, SlurmReservation | LauncherError] = {}
        while left := [each for each in attempts if each.app_id not in made]:
            asked = [ops[each.app_id] for each in left]
            for attempt, op, answer in zip(left, asked, cluster.answers(*asked), strict=True):
                app_id = attempt.app_id
                if answer.get("error") != "reserved":
                    mine = SlurmReservation(cluster, attempt, nonce, resumed=bool(answer.get("resumed")))
                    made[app_id] = error_of(answer) or mine
                elif rival := _dead_owner(answer.get("detail") or {}, op["dead"], take_over=self._take_over):
                    op["dead"].append(rival)
                else:
                    made[app_id] = _taken(cluster, app_id, take_over=self._take_over)
        _forget_unmade(cluster, made)
        return [made[each.app_id] for each in attempts]

    def create(self, members: Sequence[Member], at_once: int | None) -> list[LauncherError | None]:
        new = [each for each in members if not _ours(each.reservation).resumed]
        if not new:
            return [None] * len(members)
        cluster = _ours(new[0].reservation).cluster
        errors: dict[str, LauncherError] = {}
        if len(new) > (limit := int(cluster.about.get("max_jobs", 0))) > 0:  # sbatch would try for long
            raise SchedulerError(
                f"{len(new)} jobs are more than the cluster takes: MaxJobCount is {limit}",
                hint="apply some of them first: --select",
            )
        _put_workspaces(cluster, new)
        reads = any(read_outputs(each.reservation.attempt) for each in new)
        there = set(cluster.ask("outputs")["outputs"]) if reads else set()
        most = int(cluster.about["max_array"])
        for first in range(0, len(new), most):
            errors |= _create_array(cluster, new[first : first + most], at_once, there)
        return [errors.get(each.reservation.app_id) for each in members]

    def start(self, reservations: Sequence[Reservation]) -> list[LauncherError | None]:
        return start_all([*map(_ours, reservations)])

    def abort(self, reservations: Sequence[Reservation]) -> None:
        abort_all([*map(_ours, reservations)])


def _ours(reservation: Reservation) -> SlurmReservation:
    if not isinstance(reservation, SlurmReservation):
        raise TypeError(f"{reservation.app_id} was not reserved here")
    return reservation


def _create_array(
    cluster: Cluster, members: Sequence[Member], at_once: int | None, outputs: Collection[str]
) -> dict[str, LauncherError]:
    """Submit held arrays; returns app id → error for apps of other clients, or that cannot wait for needs."""
    apps: list[dict[str, Any]] = []
    before, name = [*cluster.programs], random_id()
    errors: dict[str, LauncherError] = {}
    for each in members:
        reservation = _ours(each.reservation)
        try:
            needs = reservation.needs()
        except SchedulerError as error:
            errors[reservation.app_id] = error
            continue
        bound = reservation.bound(each.app, each.cfg, outputs)
        before += reservation.make_output(each.app)
        apps.append({**reservation.files(bound), "needs": needs})
    if not apps:
        return errors
    script = array_script(bound, name, program_name())
    op = {"op": "create_array", "array": name, "script": script, "at_once": at_once}
    more = {"aftercorr": cluster.about.get("aftercorr"), "program": program_name(), "apps": apps}
    *made, answer = cluster.call(*before, {**op, **more})
    for done in made:
        checked(done)
    lost: dict[str, str] = checked(answer)["lost"]
    return errors | {app_id: SchedulerError(message) for app_id, message in lost.items()}


def _put_workspaces(cluster: Cluster, members: Iterable[Member]) -> None:
    """Send each workspace once, to the folder of one app; the cluster copies it to the other apps."""
    same: dict[str, tuple[str, list[str]]] = {}  # digest → a folder with it, and the apps
    for each in members:
        if each.workspace is not None:
            _, app_ids = same.setdefault(each.workspace.digest, (each.workspace.folder, []))
            app_ids.append(each.reservation.app_id)
    for digest, (folder, (first, *others)) in same.items():
        cluster.put(first, archive(folder, digest=digest))
        if others:
            cluster.ask("copy_workspace", app_id=first, to=others)


# -- whether clusters would take apps ------------------------------------------------------------------------


MOST = 100
"""The most different requests that a plan asks a cluster about: each takes its controller milliseconds."""

_FIELDS = (
    (r"account", "account"),
    (r"partition", "partition"),
    (r"\bqos spec", "qos"),
    (r"feature spec", "constraint"),
    (r"time limit is", "time"),
    (r"generic resource", "gres"),
    (r"license", "licenses"),
    (r"reservation", "reservation"),
    (r"node name", "nodelist"),
    (r"wckey", "wckey"),
)
"""Pattern in a refusal → the option of sbatch that it may be about. Source: slurm_errno.c."""

Alike = tuple[Place, str]
"""The cluster and the options of a request, the only parts that sbatch judges."""


def verdicts(
    requests: Mapping[str, AppDryRunInfo[SlurmRequest]],
    clusters: Clusters,
    judged: dict[Alike, Verdict | None],
) -> dict[str, Verdict]:
    """The verdicts of `StagedScheduler.check`. Raises SchedulerError when a cluster cannot be asked.

    Args:
        judged: the verdicts so far, None for a request that is taken; new ones are added.
    """
    keys = {
        app_id: (known.place_of(info.cfg), str(info.request.options)) for app_id, info in requests.items()
    }
    first: dict[Alike, str] = {}
    for app_id, key in keys.items():
        if key not in judged:
            first.setdefault(key, app_id)
    for place in dict.fromkeys(place for place, _ in first):
        asked = {key: app_id for key, app_id in first.items() if key[0] == place}
        jobs = [_job(app_id, requests[app_id].request) for app_id in [*asked.values()][:MOST]]
        answers = clusters.at(place).ask("check", jobs=jobs)["answers"]
        left = {"unchecked": f"there are {len(asked)} different requests, and a plan asks about {MOST}"}
        for k, (key, app_id) in enumerate(asked.items()):
            judged[key] = _verdict(answers[k] if k < MOST else left, requests[app_id].cfg)
    return {app_id: verdict for app_id, key in keys.items() if (verdict := judged[key]) is not None}


def _job(app_id: str, request: SlurmRequest) -> dict[str, Any]:
    """The fields by which the agent asks about a request."""
    options = request.options
    return {
        "script": bind_request(request, app_id, program=program_name()).script,
        "partition": options.get("partition", ""),
        "one_node": "1" in (options.get("ntasks"), options.get("nodes")),
    }


def _verdict(answer: Mapping[str, str], cfg: Mapping[str, Any]) -> Verdict | None:
    refusal = answer.get("refused", "")
    return Verdict(refusal, _path(refusal, cfg), answer.get("unchecked", "")) if answer else None


def _path(refusal: str, cfg: Mapping[str, Any]) -> str:
    """The field of the job that a refusal is about; "" where that is unknown, and "" without a refusal."""
    unknown = re.findall(r"unrecognized option '--([\w-]+)", refusal)
    for pattern, option in (*_FIELDS, *(("", name) for name in unknown)):
        if not re.search(pattern, refusal, re.IGNORECASE):
            continue
        if cfg.get(option):
            return f"cfg.{option}"
        if option in (cfg.get("sbatch") or {}):
            return f"cfg.sbatch.{option}"
        if option == "time" and cfg.get("timeout_s"):
            return "timeout_s"
    return ""
