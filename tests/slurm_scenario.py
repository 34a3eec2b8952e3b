"""The words of scenarios for apps on a Slurm cluster, below the HOME of their test, or of its user there."""

import os
import textwrap
import time
from pathlib import Path

from launcher.schedulers.slurm.cluster import program, program_name
from tests import processes
from tests.engines.slurm import Job, SlurmCluster
from tests.scenario import Scenario
from tests.unit.slurm.site import patch

CLEARED_S = 60.0


class SlurmScenario(Scenario):
    """`job()` makes jobs of the scheduler slurm, which run on `cluster`."""

    def __init__(self, folder: Path, home: Path, cluster: SlurmCluster) -> None:
        super().__init__(folder, home)
        self.cluster = cluster
        home = cluster.home if cluster.user else Path(os.environ["HOME"])
        self.job_dir = home / ".launcher" / "slurm"

    def job(
        self, script: str, *, name: str = "job", replicas: int = 1, role: str = "", top: str = ""
    ) -> Path:
        top = f"scheduler: slurm\n{textwrap.dedent(top).strip()}"
        return super().job(script, name=name, replicas=replicas, role=role, top=top)

    def patch_program(self, module: str, old: str, new: str) -> None:
        """Change a module of the program that nodes run, before the first app is submitted."""
        file = self.job_dir / "programs" / program_name()
        file.parent.mkdir(mode=0o700, parents=True)
        file.write_bytes(program())
        patch(file, module, old, new)

    # the world

    def queue(self) -> list[Job]:
        """Return the jobs of this test in Slurm's queue."""
        user = self.cluster.user
        return self.cluster.jobs(user=user, below="" if user else str(self.job_dir))

    def left_in_queue(self) -> list[Job]:
        """Return the jobs of this test that stay in the queue; Slurm removes a job after its app's end."""
        deadline = time.monotonic() + CLEARED_S
        while (found := self.queue()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def apps(self) -> list[str]:
        folder = self.job_dir / "apps"
        return sorted(one for one in os.listdir(folder) if one[0] != ".") if folder.is_dir() else []

    def processes_of(self, app_id: str) -> list[int]:
        # Other tests have apps of the same id at the same time.
        root = f"/home/{self.cluster.user}/.launcher/slurm" if self.cluster.user else self.job_dir
        return processes.of_scratch(f"{root}/apps/{app_id}/scratch")

    def job_of(self, app_id: str) -> str:
        """Return the id of an app's job."""
        return next(job.id for job in self.queue() if job.name == app_id)
