"""Wait for the ends of apps, and release again the jobs whose release Slurm's controller has lost."""

import os
import time
from typing import Dict, List, Sequence, Tuple

from launcher.schedulers.slurm.site.agent.folder import Json, OpError
from launcher.schedulers.slurm.site.agent.observe import add_facts, look, read_app
from launcher.schedulers.slurm.site.agent.site import Site, Slurm

QUEUE_S, SLOWEST_S = 2.0, 30.0  # the growing pause between looks at the queue


def wait(site: Site, op: Json) -> Json:
    """Block until one of the apps has ended, or has left the queue without an outcome, or time is over.

    Jobs whose release Slurm has lost are released again.

    queue: seconds until the next look at the queue, and between the two looks after it. The answer has the
    same values for the request that continues this one.
    """
    parent, began = os.getppid(), time.monotonic()
    pause, end = 0.1, began + float(op["seconds"])
    first_s, queue_pause = op.get("queue") or (0.0, QUEUE_S)
    queue_at = began + first_s
    done: Dict[str, Json] = {}
    errors: Dict[str, str] = {}
    while True:
        began = time.monotonic()
        ended, missing = _finished(site, op["app_ids"])
        waiting = [each for each in op["app_ids"] if each not in ended and each not in missing]
        for app_id in ended:
            add_facts(done, errors, app_id, read_app, site, app_id)
        missing += [each for each in ended if each not in done and each not in errors]  # it is being removed
        if not done and not missing and waiting and began >= queue_at:
            queue_at, queue_pause = began + queue_pause, min(SLOWEST_S, queue_pause * 1.5)
            try:
                found = look(site, waiting, errors)
                done = {each: facts for each, facts in found.items() if facts["vanished"] or facts["outcome"]}
                release_again(site, found)
            except OpError as error:
                if error.kind != "unreachable":
                    raise
                site.slurm = Slurm()  # asks again later
        left = end - time.monotonic()
        if done or missing or errors or not waiting or left <= 0 or os.getppid() != parent:
            queue = [max(0.0, queue_at - time.monotonic()), queue_pause]
            return {"apps": done, "missing": missing, "errors": errors, "queue": queue}
        time.sleep(min(left, max(pause, 5 * (time.monotonic() - began))))
        pause = min(1.0, pause * 1.2)


def _finished(site: Site, app_ids: Sequence[str]) -> Tuple[List[str], List[str]]:
    """The apps that have ended, and those without a directory."""
    ended, missing = [], []
    for app_id in app_ids:
        try:
            names = os.listdir(site.path(app_id))
        except FileNotFoundError:
            missing.append(app_id)
            continue
        if "outcome" in names:
            ended.append(app_id)
        elif "started" in names:
            with site.open(app_id) as folder:
                if "job" not in (folder.json("started") or {"job": ""}):
                    ended.append(app_id)
    return ended, missing


# -- releases that were lost ---------------------------------------------------------------------------------


_NEVER = "N/A"


def release(site: Site, op: Json) -> Json:
    """Release again the jobs of apps whose release was lost."""
    return {"released": release_again(site, look(site, op["app_ids"], {}))}


def release_again(site: Site, apps: Dict[str, Json]) -> List[str]:
    """Release the jobs of these apps (id → facts) whose release was lost; returns their ids.

    A killed controller comes back with the state that it had saved before. A hold of the user stays: it is
    younger than the controller, or the job has aged in the queue, unlike a job that was never released. A
    hold with a state of its own stays, too, such as that of a job whose reservation was deleted.
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
    """Whether the app was released, has not started, and its user may release the job again."""
    if facts["outcome"] is not None or facts["started"] is not None or facts["submitted"] is None:
        return False
    held = (row for row in facts["queue"] if row["held"])
    return any(row["state"] == "PENDING" and row["reason"] != "JobHeldAdmin" for row in held)
