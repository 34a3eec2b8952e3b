"""The Slurm scheduler: each app is one job of a cluster, here or behind a login node.

The scheduler has no state of its own: everything is in the apps' folders on the cluster and in Slurm's queue.
This state folder only notes which clusters it knows.
"""

from __future__ import annotations

from _thread import allocate_lock

from launcher.schedulers.appfolder import is_id
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.known import SLURM
from launcher.schedulers.staged import Reservation, StagedScheduler
from launcher.state.records import WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import IO, Any

    from launcher.schedulers.bound import BoundWorkspace
    from launcher.schedulers.logs import LogRecord
    from launcher.schedulers.responses import DescribeAppResponse, ListAppResponse, Stream
    from launcher.schedulers.restarts import Restart
    from launcher.schedulers.slurm.cluster import Cluster
    from launcher.schedulers.slurm.observe import Clusters
    from launcher.schedulers.slurm.request import SlurmRequest
    from launcher.schedulers.slurm.state import Facts, View
    from launcher.schedulers.slurm.submit import SlurmReservation
    from launcher.specs.app import AppDef, CfgVal
    from launcher.specs.attempt import Attempt
    from launcher.specs.check import Problem
    from launcher.specs.dryrun import AppDryRunInfo
    from launcher.specs.launch import JobKey
    from launcher.specs.runopts import runopts
    from launcher.state.records import AppRecord

_AGAIN_S = 10.0
"""How often the restarts of an app are read while it runs."""


class SlurmScheduler(StagedScheduler["SlurmRequest"]):
    """Runs apps as jobs of Slurm.

    Args:
        detach: apps outlive this object and its process; otherwise they are cancelled with it.
    """

    builds_workspaces = True
    describe_every_s = 2.0
    supports = ("retry_delay", "service", "ready", "depends_on", "hosts")
    holds = frozenset({SLURM})

    def __init__(self, session_name: str, *, detach: bool = False) -> None:
        super().__init__(SLURM, session_name)
        self._detach = detach
        self._attached: list[str] = []
        self._reserved: dict[str, SlurmReservation] = {}
        self._packed: dict[str, IO[bytes]] = {}  # digest of a workspace → its archive, until it is submitted
        self._pool: Clusters | None = None
        self._lock = allocate_lock()

    @property
    def _clusters(self) -> Clusters:
        from launcher.schedulers.slurm.observe import Clusters

        with self._lock:
            if self._pool is None:
                self._pool = Clusters()
            return self._pool

    # Dry run and submission

    def _run_opts(self) -> runopts:
        from launcher.schedulers.slurm.options import options

        return options()

    def _validate(self, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]) -> None:
        """No check: a replica without a resource gets what Slurm gives a task."""

    def app_problems(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterable[Problem]:
        from launcher.schedulers.slurm.rules import problems

        return problems(app, cfg)

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[SlurmRequest]:
        from launcher.schedulers.slurm.request import build_request
        from launcher.specs.dryrun import AppDryRunInfo

        return AppDryRunInfo(build_request(app, cfg, session=self.session_name), str)

    def expect(self, cfg: Mapping[str, CfgVal]) -> None:
        self._clusters.expect(known.place_of(cfg))

    def workspace_app(self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace) -> AppDef:
        from launcher.schedulers.slurm.files import with_workspace

        return with_workspace(app, workspace)

    def build_workspace(
        self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace, *, app_id: str = ""
    ) -> AppDef:
        """Copy the workspace into the folder of a reserved attempt. Without one, keep it for `schedule`."""
        from launcher.schedulers.slurm.files import packed, with_workspace
        from launcher.workspace.archive import archive

        if not app_id:
            self._packed[workspace.digest] = packed(workspace)
        elif not (held := self._reserved[app_id].held).resumed:
            held.cluster.put(app_id, archive(workspace.folder, digest=workspace.digest))
        return with_workspace(app, workspace)

    def schedule(self, dryrun_info: AppDryRunInfo[SlurmRequest]) -> str:
        """Submit the app under a fresh id; returns when Slurm has accepted it.

        Raises StartError, with nothing left behind, when Slurm refuses it.
        """
        from launcher.schedulers.checks import refuse_outputs
        from launcher.schedulers.ids import make_unique, normalise
        from launcher.schedulers.slurm.files import digest_of, pieces, record_of_app
        from launcher.schedulers.slurm.submit import submit_app

        app, cfg = dryrun_info.app, dryrun_info.cfg
        if app is None:
            raise ValueError("want an info that submit_dryrun has made")
        refuse_outputs(app)
        record = record_of_app(app, cfg, make_unique(normalise(app.name, limit=48)), self.session_name)
        archive = self._packed.get(digest_of(app))
        cluster = self._clusters.at(known.place_of(cfg))
        submit_app(cluster, dryrun_info.request, record, pieces(archive) if archive else None)
        app_id: str = record["app_id"]
        if not self._detach:
            self._attached.append(app_id)
        return app_id

    # Staged submission

    def fingerprint(self) -> str:
        """The clusters that the launches at hand go to: their names, and the user and folder there."""
        from hashlib import sha256

        found = []
        for cluster in self._clusters.targets():
            about = cluster.about
            text = "\0".join(str(about[name]) for name in ("cluster", "user", "job_dir"))
            found.append(sha256(text.encode(errors="surrogateescape")).hexdigest()[:16])
        return f"slurm:{','.join(sorted(found))}"

    def reserve(self, attempt: Attempt) -> SlurmReservation:
        from launcher.schedulers.slurm.submit import reserve_attempt

        self._clusters.noted(attempt.app_id)  # true no longer
        made = reserve_attempt(self._clusters, attempt, take_over=self.take_over)
        self._reserved[attempt.app_id] = made
        return made

    def create(self, reservation: Reservation, app: AppDef, cfg: Mapping[str, CfgVal]) -> None:
        from launcher.schedulers.slurm.submit import create_attempt

        create_attempt(_ours(reservation), app, self.run_opts().resolve(cfg))

    def start(self, reservation: Reservation) -> None:
        from launcher.schedulers.slurm.submit import start

        reservation.accepted = start(_ours(reservation).held)
        reservation.queued_for = "in Slurm's queue"
        self._reserved.pop(reservation.app_id, None)

    def abort(self, reservation: Reservation) -> None:
        from launcher.schedulers.slurm.submit import take_back

        self._reserved.pop(reservation.app_id, None)
        take_back(_ours(reservation).held)

    def withdraw(self, app_id: str) -> bool:
        from launcher.schedulers.slurm.observe import find

        self._clusters.noted(app_id)  # true no longer
        found = find(self._clusters, app_id)
        if found is None or self._judged(*found).state not in WAITING:
            return False
        return bool(found[0].ask("withdraw", app_id=app_id)["withdrawn"])

    # Observation

    def observe(self, keys: Collection[JobKey], settled: Collection[str] = ()) -> list[Attempt]:
        from launcher.schedulers.slurm.observe import attempts

        return attempts(self._clusters, keys, settled, take_over=self.take_over)

    def attempts_of(self, keys: Collection[JobKey]) -> list[Attempt]:
        """Reads the folders of apps, and does not ask Slurm."""
        from launcher.schedulers.slurm.observe import attempts

        return attempts(self._clusters, keys, (), take_over=self.take_over, look=False)

    def attempt(self, app_id: str) -> Attempt | None:
        from launcher.schedulers.slurm.observe import find
        from launcher.schedulers.slurm.state import attempt_of

        # Ends are recorded by `reap`, and then by a look at each live attempt.
        found = self._clusters.noted(app_id) or find(self._clusters, app_id)
        return None if found is None else attempt_of(found[1], self._judged(*found))

    def _judged(self, cluster: Cluster, facts: Facts) -> View:
        """The state of an app, also of one that Slurm has ended; writes nothing."""
        from launcher.schedulers.slurm.observe import judged

        return judged(cluster, facts, take_over=self.take_over)

    def ended_attempt(self, app_id: str, timeout_s: float | None = None) -> Attempt | None:
        from launcher.schedulers.slurm.state import attempt_of, view_of

        found = self._ended(app_id, timeout_s)
        return None if found is None else attempt_of(found[1], view_of(found[1], take_over=self.take_over))

    def _ended(self, app_id: str, timeout_s: float | None) -> tuple[Cluster, Facts] | None:
        """The app when it has ended, with its outcome on record, or as it is after the timeout."""
        from launcher.schedulers.slurm.observe import cluster_of, settled

        cluster = cluster_of(self._clusters, app_id)
        if cluster is None:
            return None
        waited = self._clusters.waiter(cluster).until_end(app_id, timeout_s)
        if waited is None:
            return None
        return cluster, settled(cluster, {app_id: waited})[app_id]

    def reap(self) -> list[Attempt]:
        from launcher.schedulers.slurm.observe import reap

        return reap(self._clusters)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        found = self._found(app_id)
        return None if found is None else self._response(found[1])

    def _found(self, app_id: str) -> tuple[Cluster, Facts] | None:
        """The app with its replicas. Records how Slurm ended it where it could not say so itself."""
        from launcher.schedulers.slurm.observe import find, settled

        found = find(self._clusters, app_id, replicas=True)
        if found is None:
            return None
        cluster, facts = found
        return cluster, {**facts, **settled(cluster, {app_id: facts})[app_id]}

    def _response(self, facts: Facts) -> DescribeAppResponse:
        from launcher.schedulers.answers import description_of
        from launcher.schedulers.slurm.files import app_of

        record = self._whole_record(facts)
        if record.state == "lost":
            record.message = f"lost: {record.message}"
        return description_of(record, app_of(facts))

    # Records for the commands

    def records(self) -> Sequence[AppRecord]:
        from launcher.schedulers.slurm.observe import everything

        found = everything(self._clusters, take_over=self.take_over)
        return sorted(found, key=lambda each: each.created_at or 0.0, reverse=True)

    def record(self, app_id: str) -> AppRecord | None:
        found = self._found(app_id)
        return None if found is None else self._whole_record(found[1])

    def _whole_record(self, facts: Facts) -> AppRecord:
        """The app with its replicas."""
        from launcher.schedulers.slurm.state import view_of, whole_record_of

        return whole_record_of(facts, view_of(facts, take_over=self.take_over))

    def about(self, app_id: str) -> Mapping[str, Any]:
        from launcher.schedulers.slurm.observe import find
        from launcher.schedulers.slurm.state import attempt_of, view_of

        found = find(self._clusters, app_id)
        if found is None:
            return {}
        attempt = attempt_of(found[1], view_of(found[1]))
        if attempt is not None:
            return attempt.about()
        recorded = found[1]["attempt"]
        return {name: recorded[name] for name in ("metadata", "document") if recorded.get(name)}

    @property
    def shared_engine(self) -> str:
        return known.shared_engine()

    def has_apps_here(self) -> bool:
        """Also after the last one was removed: output folders outlive apps."""
        return bool(known.clusters())

    def is_in_use(self) -> bool:
        return known.is_in_use()

    def refresh(self, app_ids: Iterable[str]) -> Iterable[AppRecord]:
        """Apps that Slurm has ended and that left no outcome are left out, until `reap` has recorded that."""
        from launcher.schedulers.slurm.observe import Answers, where
        from launcher.schedulers.slurm.state import record_of, view_of

        answers = Answers()
        for cluster, ids in where(self._clusters, app_ids):
            for facts in answers.ask(cluster, app_ids=ids, ended=True).values():
                view = view_of(facts, take_over=self.take_over)
                if not view.is_new_end:
                    yield record_of(facts, view)
        if answers.error is not None:
            raise answers.error

    def wait(self, app_id: str, timeout_s: float | None = None) -> DescribeAppResponse | None:
        """Wait for the end of the app, with one request at a time for all threads of this process."""
        return None if self._ended(app_id, timeout_s) is None else self.describe(app_id)

    def wait_for_start(self, app_id: str) -> None:
        from launcher.schedulers.slurm.observe import cluster_of

        cluster = cluster_of(self._clusters, app_id)
        if cluster is not None:
            self._clusters.waiter(cluster).until_start(app_id)

    # Cancellation

    def cancel(self, app_id: str, grace_s: float | None = None) -> None:
        """Stop the app; returns when Slurm has no job of it. An app that has ended keeps its outcome."""
        from launcher.schedulers.slurm.stop import cancel

        self._clusters.noted(app_id)  # true no longer
        cancel(self._clusters, app_id, grace_s, on_wait=self.on_wait)

    def interrupt(self, app_id: str, grace_s: float | None = None) -> None:
        from launcher.schedulers.slurm.stop import cancel

        self._clusters.noted(app_id)  # true no longer
        cancel(self._clusters, app_id, grace_s, interrupt=True, on_wait=self.on_wait)

    def _cancel_existing(self, app_id: str) -> None:
        self.cancel(app_id)

    def close(self) -> None:
        """Cancel the attached apps, wait until they have ended, and close the connections."""
        attached, self._attached = self._attached, []
        for app_id in attached:
            self.cancel(app_id)
        packed, self._packed = self._packed, {}
        for file in packed.values():
            file.close()
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    # Cleaning up

    def finished(self) -> list[AppRecord]:
        return [each for each in self.records() if each.has_ended]

    def remove(self, app_id: str) -> None:
        from launcher.schedulers.slurm.observe import remove

        if is_id(app_id):
            remove(self._clusters, app_id)

    def outcomes(self) -> list[Attempt]:
        from launcher.schedulers.slurm.observe import kept_outcomes

        return kept_outcomes(self._clusters)

    def forget_outcome(self, app_id: str) -> None:
        from launcher.schedulers.slurm.observe import forget_outcome

        forget_outcome(self._clusters, app_id)

    def sweep(self) -> list[str]:
        self._clusters.of_each(lambda cluster: cluster.ask("sweep"))
        return []

    def outputs(self) -> list[str]:
        found = self._clusters.of_each(lambda cluster: cluster.ask("outputs")["outputs"])
        return sorted({name for names in found for name in names})

    def output_folder(self, name: str) -> str:
        from os.path import expanduser, isdir, join

        here = (expanduser(job_dir) for host, job_dir in known.places() if not host)
        found = [join(folder, "outputs", name) for folder in here]
        return next((path for path in found if isdir(path)), found[0] if found else "")

    def output_of(self, attempt: Attempt, app: AppDef) -> str:
        from launcher.schedulers.slurm.observe import output_path
        from launcher.specs.outputs import has_output

        return output_path(self._clusters, attempt) if has_output(app) else ""

    def lost_outputs(self, attempts: Iterable[Attempt]) -> set[str]:
        from launcher.schedulers.slurm.observe import lost_outputs

        return lost_outputs(self._clusters, attempts)

    def output_archive(self, attempt: Attempt) -> tuple[Iterator[bytes], str]:
        from launcher.schedulers.slurm.observe import cluster_with
        from launcher.specs.outputs import own_output

        return cluster_with(self._clusters, attempt).pack(own_output(attempt)), ""

    def remove_output(self, name: str) -> None:
        self._clusters.of_each(lambda cluster: cluster.ask("remove_output", name=name))

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
        from launcher.schedulers.readback import Selection
        from launcher.schedulers.slurm.logs import SlurmLogs, found

        want = Selection(streams, since, until)
        logs = SlurmLogs(*found(self._clusters, app_id), [(role_name, k)])
        return logs.read_records(want, follow=follow, on_restart=self.on_restart)

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
        from launcher.schedulers.readback import Selection
        from launcher.schedulers.slurm.logs import SlurmLogs, found

        want = Selection(stream, since, until, tail)
        logs = SlurmLogs(*found(self._clusters, app_id), replicas)
        return logs.read_chunks(want, follow=follow, on_restart=self.on_restart)

    def run_starts(
        self, app_id: str, replicas: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Sequence[tuple[int, float]]]:
        from launcher.schedulers.restarts import run_starts
        from launcher.schedulers.slurm.logs import RecordedEvents, found

        cluster, _ = found(self._clusters, app_id)
        return run_starts(RecordedEvents(cluster, app_id)(), replicas)

    def restarts(self, app_id: str) -> Iterator[Restart]:
        from itertools import chain, repeat

        from launcher.schedulers.restarts import followed
        from launcher.schedulers.slurm.logs import found, restart_reader

        reader = restart_reader(*found(self._clusters, app_id))
        return followed(reader, (self._has_ended(app_id, each) for each in chain([1.0], repeat(_AGAIN_S))))

    def _has_ended(self, app_id: str, within_s: float) -> bool:
        from launcher.schedulers.slurm.state import view_of

        found = self._ended(app_id, within_s)
        return found is None or view_of(found[1]).ended_at is not None

    def list(self) -> list[ListAppResponse]:
        from launcher.schedulers.answers import listed_of

        return [listed_of(each) for each in self.records()]


def _ours(reservation: Reservation) -> SlurmReservation:
    from launcher.schedulers.slurm.submit import SlurmReservation

    if not isinstance(reservation, SlurmReservation):
        raise TypeError(f"{reservation.app_id} was not reserved here")
    return reservation


def create_scheduler(session_name: str, detach: bool = False, **_: object) -> SlurmScheduler:
    """Replicas run as tasks of a job of Slurm, on this machine's cluster or behind option `host`."""
    return SlurmScheduler(session_name, detach=detach)
