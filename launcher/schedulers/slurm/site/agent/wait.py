"""Wait for the ends of apps, and repeat releases and ends of needs that Slurm's controller has lost."""

import os
import re
import time
from typing import Dict, List, Sequence, Tuple

from launcher.schedulers.slurm.site.agent.observe import add_facts, look, read_app
from launcher.schedulers.slurm.site.agent.site import Site
from launcher.schedulers.slurm.site.agent.slurm import OpError, Slurm
from launcher.schedulers.slurm.site.shared import Json

QUEUE_S, SLOWEST_S = 2.0, 30.0  # the growing pause between looks at the queue


def wait(site: Site, op: Json) -> Json:
    """Block until one of the apps has ended, or has left the queue without an outcome, or time is over.

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


# -- releases and ends that were lost ------------------------------------------------------------------------


LATE_S = 30.0  # how long Slurm may take to notice that a job has ended whose outcome is on record


def release(site: Site, op: Json) -> Json:
    """Release again the jobs of apps whose release was lost."""
    return {"released": release_again(site, look(site, op["app_ids"], {}))}


def release_again(site: Site, apps: Dict[str, Json]) -> List[str]:
    """Release the jobs of apps (id → facts) that a killed controller holds back by mistake; returns ids."""
    unstarted = {app_id: facts for app_id, facts in apps.items() if _is_due(facts)}
    held = _held_by_mistake(site, unstarted)
    if held:
        site.slurm.run(["scontrol", "release", ",".join(apps[each]["job"] for each in held)])
    behind = [app_id for app_id, facts in unstarted.items() if _waits_in_vain(site, facts)]
    if behind:
        jobs = ",".join(apps[each]["job"] for each in behind)
        site.slurm.run(["scontrol", "update", "JobId=" + jobs, "Dependency="])
    return held + behind


def _is_due(facts: Json) -> bool:
    """Whether the app was released, has not started, and its job is in the queue."""
    if facts["outcome"] is not None or facts["started"] is not None or facts["submitted"] is None:
        return False
    return any(row["state"] == "PENDING" for row in facts["queue"])


def _held_by_mistake(site: Site, apps: Dict[str, Json]) -> List[str]:
    """The apps whose release was lost: a hold of the user is younger than the controller, or the job aged."""
    held: Dict[str, Json] = {}
    for app_id, facts in apps.items():
        rows = [row for row in facts["queue"] if row["held"] and row["state"] == "PENDING"]
        if any(row["reason"] != "JobHeldAdmin" for row in rows):  # otherwise its user may not release it
            held[app_id] = facts
    booted_at = site.slurm.booted_at() if held else None
    jobs = {each: facts["job"] for each, facts in held.items() if facts["submitted"] < (booted_at or 0.0)}
    aged = site.slurm.column("AccrueTime", list(jobs.values())) if jobs else {}
    return [app_id for app_id, job in jobs.items() if aged.get(job) == "N/A"]


def _waits_in_vain(site: Site, facts: Json) -> bool:
    """Whether Slurm has forgotten the ends of an app's needs, which succeeded a while ago.

    It shows their jobs as running until it asks their nodes, which may take half an hour. It then takes the
    jobs for failed, and would cancel the job of this app. The conductor of the app judges the needs again.
    """
    named = [{*re.findall(r"(?<=:)\d+", row["dependency"])} for row in facts["queue"]]
    if not all(named) or {*facts["needs"].values()} != {"succeeded"}:
        return False
    needs = [_job_and_end(site, each) for each in facts["needs"]]
    jobs = {job.partition("_")[0] for job, _ in needs}
    if any(each - jobs for each in named):  # a user has added a dependency
        return False
    return all(time.time() > ended_at + LATE_S for _, ended_at in needs)


def _job_and_end(site: Site, app_id: str) -> Tuple[str, float]:
    """The job of an app, and the time of its outcome; "" and infinity for an app that is gone by now."""
    try:
        with site.open(app_id) as folder:
            job = (folder.json("started") or {}).get("job") or folder.job()
            return str(job or ""), os.stat(os.path.join(folder.path, "outcome")).st_mtime
    except (OpError, OSError):
        return "", float("inf")
