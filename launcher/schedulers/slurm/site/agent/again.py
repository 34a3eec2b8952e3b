"""Release jobs again whose release Slurm's controller has lost."""

from typing import Dict, List

from launcher.schedulers.slurm.site.agent.folder import Json
from launcher.schedulers.slurm.site.agent.observe import look
from launcher.schedulers.slurm.site.agent.site import Site

_NEVER = "N/A"


def release(site: Site, op: Json) -> Json:
    """Release those of some apps whose release was lost."""
    return {"released": release_again(site, look(site, op["app_ids"], {}))}


def release_again(site: Site, apps: Dict[str, Json]) -> List[str]:
    """Release the jobs of these apps (id → facts) whose release was lost; returns their ids.

    A controller that was killed comes back with what it had written down before. A hold of the user stays: it
    is younger than the controller, or the job has aged in the queue, unlike one that was never released. So
    does a hold that has a state of its own, as when the job's reservation was deleted.
    """
    held = [app_id for app_id, facts in apps.items() if _is_held(facts)]
    booted_at = site.slurm.booted_at() if held else None
    jobs = {each: apps[each]["job"] for each in held if apps[each]["submitted"] < (booted_at or 0.0)}
    aged = site.slurm.column("AccrueTime", list(jobs.values())) if jobs else {}
    lost = [app_id for app_id, job in jobs.items() if aged.get(job) == _NEVER]
    if lost:
        site.slurm.run(["scontrol", "release", ",".join(jobs[app_id] for app_id in lost)])
    return lost


def _is_held(facts: Json) -> bool:
    """Whether the app was released, has not started, and the user of its job may release that again."""
    if facts["outcome"] is not None or facts["started"] is not None or facts["submitted"] is None:
        return False
    held = (row for row in facts["queue"] if row["held"])
    return any(row["state"] == "PENDING" and row["reason"] != "JobHeldAdmin" for row in held)
