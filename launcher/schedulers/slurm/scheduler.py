"""The Slurm scheduler: each app is a job of a cluster, or a task of an array, here or behind a login node.

The scheduler has no state of its own: everything is in the apps' folders on the cluster and in Slurm's queue.
This state folder only notes which clusters it knows.
"""

from __future__ import annotations

from _thread import allocate_lock

from launcher.errors import LauncherError
from launcher.schedulers.backend import EngineScheduler
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.known import SLURM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import IO

    from launcher.schedulers.backend import BackendReservation
    from launcher.schedulers.readback import AppLogs
    from launcher.schedulers.slurm.apps import SlurmApps
    from launcher.schedulers.slurm.clusters import Clusters, SlurmOutputs
    from launcher.schedulers.slurm.request import SlurmRequest
    from launcher.schedulers.slurm.submit import Alike, SlurmBatches, SlurmReservation
    from launcher.schedulers.staged import Verdict
    from launcher.schedulers.workspaces import BoundWorkspace
    from launcher.specs.app import AppDef, AppDryRunInfo, CfgVal
    from launcher.specs.attempt import Attempt, Recorded
    from launcher.specs.check import Problem
    from launcher.specs.launch import JobKey
    from launcher.specs.runopts import runopts
    from launcher.state.records import AppRecord


class SlurmScheduler(EngineScheduler["SlurmRequest"]):
    """Runs apps as jobs of Slurm. `detach`: see `BackendScheduler`."""

    builds_workspaces = True
    judges_fields_alone = True
    describe_every_s = 2.0
    supports = ("retry_delay", "service", "ready", "depends_on", "hosts")
    holds = frozenset({SLURM})

    def __init__(self, session_name: str, *, detach: bool = False) -> None:
        super().__init__(SLURM, session_name, detach=detach)
        self._packed: dict[str, IO[bytes]] = {}  # digest of a workspace → its archive, until it is submitted
        self._pool: Clusters | None = None
        self._verdicts: dict[Alike, Verdict | None] = {}
        self._lock = allocate_lock()

    @property
    def _clusters(self) -> Clusters:
        from launcher.schedulers.slurm.clusters import Clusters

        with self._lock:
            if self._pool is None:
                self._pool = Clusters()
            return self._pool

    # Dry run and submission

    def _run_opts(self) -> runopts:
        from launcher.schedulers.slurm.options import options

        return options()

    def app_problems(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> Iterable[Problem]:
        from launcher.schedulers.slurm.rules import problems

        return problems(app, cfg)

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[SlurmRequest]:
        from launcher.schedulers.slurm.request import build_request
        from launcher.specs.app import AppDryRunInfo

        return AppDryRunInfo(build_request(app, cfg, session=self.session_name), str)

    def expect(self, cfg: Mapping[str, CfgVal]) -> None:
        self._clusters.expect(known.place_of(cfg))

    def workspace_app(self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace) -> AppDef:
        from launcher.schedulers.slurm.submit import with_workspace

        return with_workspace(app, workspace)

    def build_workspace(
        self, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace, *, app_id: str = ""
    ) -> AppDef:
        """Copy the workspace into a reserved attempt's folder. Without an attempt, keep it for `schedule`."""
        from launcher.schedulers.slurm.submit import SlurmReservation, packed, with_workspace

        reserved = self._reserved.get(app_id)
        if isinstance(reserved, SlurmReservation):
            reserved.put(workspace)
        else:
            self._packed[workspace.digest] = packed(workspace)
        return with_workspace(app, workspace)

    def bring_files(self, reservation: BackendReservation, app: AppDef) -> None:
        from launcher.schedulers.slurm.submit import SlurmReservation, digest_of, pieces

        archive = self._packed.get(digest_of(app))
        if archive is not None and isinstance(reservation, SlurmReservation):
            reservation.cluster.put(reservation.app_id, pieces(archive))

    # Staged submission

    def check(self, requests: Mapping[str, AppDryRunInfo[SlurmRequest]]) -> Mapping[str, Verdict]:
        from launcher.schedulers.slurm.submit import verdicts

        return verdicts(requests, self._clusters, self._verdicts)

    def fingerprint(self) -> str:
        """The target clusters of the present launches: their names, and the user and folder there."""
        from hashlib import sha256

        found = []
        for cluster in self._clusters.targets():
            about = cluster.about
            text = "\0".join(str(about[name]) for name in ("cluster", "user", "job_dir"))
            found.append(sha256(text.encode(errors="surrogateescape")).hexdigest()[:16])
        return f"slurm:{','.join(sorted(found))}"

    def claim(self, attempt: Attempt) -> SlurmReservation:
        (made,) = self.batches.reserve([attempt])
        if isinstance(made, LauncherError):
            raise made
        return made

    @property
    def batches(self) -> SlurmBatches:
        from launcher.schedulers.slurm.submit import SlurmBatches

        return SlurmBatches(self._clusters, take_over=self.take_over)

    # Reading, and what follows from it

    @property
    def apps(self) -> SlurmApps:
        from launcher.schedulers.slurm.apps import SlurmApps

        return SlurmApps(self._clusters, take_over=self.take_over, on_wait=self.on_wait)

    def attempts_of(self, keys: Collection[JobKey], settled: Collection[str] = ()) -> list[Attempt]:
        """Read the attempts from the folders of apps, without asking Slurm."""
        return self.apps.observe(keys, settled, look=False)

    def refresh(self, app_ids: Iterable[str]) -> Iterable[AppRecord]:
        return self.apps.refresh(app_ids)

    def details(self, app_ids: Iterable[str]) -> Iterable[tuple[str, AppRecord | LauncherError | None]]:
        return self.apps.details(app_ids)

    def recorded(self, app_id: str) -> list[Recorded]:
        return self.apps.recorded(app_id)

    def has_apps_here(self) -> bool:
        """See `Scheduler.has_apps_here`. True even after the last removal: output folders outlive apps."""
        return bool(known.clusters())

    def is_in_use(self) -> bool:
        return known.is_in_use()

    def close(self) -> None:
        """Cancel the attached apps, wait until they have ended, and close the connections."""
        super().close()
        packed, self._packed = self._packed, {}
        for file in packed.values():
            file.close()
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    @property
    def output_folders(self) -> SlurmOutputs:
        from launcher.schedulers.slurm.clusters import SlurmOutputs

        return SlurmOutputs(self._clusters)

    # Logs

    def engine_of(self, app_id: str) -> str:
        host, job_dir = known.place_of_app(app_id) or ("", "")
        return f"{SLURM} {host} {job_dir}"

    def logs(self, app_id: str) -> AppLogs:
        from launcher.schedulers.slurm.logs import SlurmLogs, found

        cluster, facts = found(self._clusters, app_id)
        return SlurmLogs(cluster, facts, self._has_ended)

    def _has_ended(self, app_id: str, within_s: float) -> bool:
        seen = self.read_ended(app_id, within_s)
        return seen is None or seen.record.ended_at is not None


def create_scheduler(session_name: str, detach: bool = False, **_: object) -> SlurmScheduler:
    """Replicas run as tasks of a job of Slurm, on this machine's cluster or behind option `host`."""
    return SlurmScheduler(session_name, detach=detach)
