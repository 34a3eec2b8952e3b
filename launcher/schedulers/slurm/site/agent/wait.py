"""Wait for the ends and starts of apps."""

import os
import time
from typing import Dict, List, Sequence, Tuple

from launcher.schedulers.slurm.site.agent.again import release_again
from launcher.schedulers.slurm.site.agent.facts import add_facts, read_app
from launcher.schedulers.slurm.site.agent.folder import Json, OpError
from launcher.schedulers.slurm.site.agent.observe import look
from launcher.schedulers.slurm.site.agent.site import Site
from launcher.schedulers.slurm.site.agent.slurm import Slurm

QUEUE_S, SLOWEST_S = 2.0, 30.0  # between looks at the queue, more and more


def wait(site: Site, op: Json) -> Json:
    """Block until one of the apps has ended, or has left the queue without an outcome, or time is over.

    Jobs whose release Slurm has lost are released again.

    starts: apps of which the start is waited for, too.
    queue: seconds until the queue is looked at, and between the next two looks. The answer has the same for
    the request that goes on with this one.
    """
    parent, began = os.getppid(), time.monotonic()
    pause, end = 0.1, began + float(op["seconds"])
    first_s, queue_pause = op.get("queue") or (0.0, QUEUE_S)
    queue_at = began + first_s
    done: Dict[str, Json] = {}
    errors: Dict[str, str] = {}
    while True:
        began = time.monotonic()
        ended, missing = _finished(site, op["app_ids"], op.get("starts") or ())
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
                site.slurm = Slurm()  # and ask again later
        left = end - time.monotonic()
        if done or missing or errors or not waiting or left <= 0 or os.getppid() != parent:
            queue = [max(0.0, queue_at - time.monotonic()), queue_pause]
            return {"apps": done, "missing": missing, "errors": errors, "queue": queue}
        time.sleep(min(left, max(pause, 5 * (time.monotonic() - began))))
        pause = min(1.0, pause * 1.2)


def _finished(site: Site, app_ids: Sequence[str], starts: Sequence[str]) -> Tuple[List[str], List[str]]:
    """The apps that have ended, or started (of `starts`), and those without a directory."""
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
                if app_id in starts or "job" not in (folder.json("started") or {"job": ""}):
                    ended.append(app_id)
    return ended, missing
