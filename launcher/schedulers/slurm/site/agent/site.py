"""The job directory of a user, and the cluster that it is on."""

import json
import os
import sys
import time
from typing import Any, List, Optional, Tuple

from launcher.schedulers.slurm.site.agent.folder import NAME, Folder, Json, OpError, checked, replace
from launcher.schedulers.slurm.site.agent.slurm import Row, Slurm, end_of_path

SECOND_LOOK_S = 2.0  # after a restart squeue may list nothing for a moment


class Site:
    """The job directory of the user on this cluster, and Slurm."""

    def __init__(self, job_dir: str) -> None:
        self.job_dir = os.path.abspath(os.path.expanduser(os.fsdecode(job_dir.encode("utf-8"))))
        self.apps = os.path.join(self.job_dir, "apps")
        self.outputs = os.path.join(self.job_dir, "outputs")
        self.slurm = Slurm()

    def path(self, app_id: Any) -> str:
        return os.path.join(self.apps, checked(app_id))

    def open(self, app_id: Any) -> Folder:
        """Raises OpError unknown-app."""
        try:
            return Folder(self.path(app_id))
        except FileNotFoundError:
            raise OpError("unknown-app", f"no app {app_id} in {self.apps}") from None

    def app_ids(self) -> List[str]:
        try:
            return sorted(name for name in os.listdir(self.apps) if NAME.match(name))
        except FileNotFoundError:
            return []

    def hidden(self) -> List[str]:
        """The paths of directories that are no app any more, or not yet."""
        try:
            names = [name for name in os.listdir(self.apps) if name.startswith(".")]
        except FileNotFoundError:
            return []
        return [os.path.join(self.apps, name) for name in sorted(names)]

    def rows_of(self, folder: Folder) -> List[Row]:
        """The jobs of an app: none of another one of its name, or that has the id of its job by now."""
        return self.slurm.rows(end_of_path(folder.app_id, folder.text("id") or ""))

    def live_job(self, folder: Folder) -> Optional[Row]:
        """The job on record of an app that has not started; None when Slurm does not have it any more."""
        job = (folder.text("job") or "").strip()
        for is_again in (False, True):
            if is_again:
                time.sleep(SECOND_LOOK_S)
            for row in self.rows_of(folder):
                if row.job == job and not row.is_over:
                    return row
        return None

    def scripts(self, row: Row) -> bool:
        """Whether the app whose script a job runs is one of this job directory."""
        return os.path.dirname(os.path.dirname(row.command)) == self.apps


def need_of(site: Site, app_id: str) -> Tuple[str, str]:
    """The state of an app that another one needs, "" while it has no end; and its job."""
    try:
        with site.open(app_id) as folder:
            outcome, started = folder.json("outcome"), folder.json("started")
            if outcome is not None:
                return str(outcome["state"]), ""
            if started is not None and "job" not in started:
                return "cancelled" if "cancelled" in started else "skipped", ""
            job = (started or {}).get("job") or folder.text("job")
            if job is None:
                raise OpError("state", f"{app_id} has no job yet")
            return "", str(job)
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return "removed", ""


def hello(site: Site, op: Json) -> Json:
    """What the cluster is; Slurm is asked once a day."""
    cached = None
    path = os.path.join(site.job_dir, "cluster")
    key = os.environ.get("SLURM_CONF", "")
    try:
        with open(path) as file:
            found = json.load(file)
        if found["conf"] == key and 0 <= time.time() - found["at"] < 86400:
            cached = found["found"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    if cached is None:
        cached = site.slurm.hello()
        os.makedirs(site.job_dir, 0o700, exist_ok=True)
        replace(path, json.dumps({"conf": key, "at": time.time(), "found": cached}))
    here = {"user": site.slurm.user, "home": os.path.expanduser("~"), "job_dir": site.job_dir}
    return dict(cached, python=".".join(str(each) for each in sys.version_info[:3]), **here)
