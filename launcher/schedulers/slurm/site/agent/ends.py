"""The ends of apps: wait for them, cancel or withdraw apps, record an outcome that no conductor records.

`cancel` and `withdraw` take the operations of several apps: all decisions are written before Slurm is called.
While apps are waited for, releases and ends of needs that Slurm's controller has lost are repeated.
"""

import json
import os
import re
import time
from contextlib import suppress
from functools import partial
from typing import Callable, Dict, List, Sequence, Set, Tuple

from launcher.holding.journal import is_full
from launcher.schedulers.slurm.site.agent.observe import look, read_app
from launcher.schedulers.slurm.site.agent.removal import cancel_jobs, complete_end
from launcher.schedulers.slurm.site.agent.site import Folder, Site, answered
from launcher.schedulers.slurm.site.agent.slurm import OpError, Row, Slurm
from launcher.schedulers.slurm.site.shared import Json

_SIGNAL = ("--signal=USR2", "--batch")


class _Stop:
    """An app that is decided to end, and whose `jobs` are left.

    Args:
        answer: the answer of its operation, which `take` completes.
        state, message: the outcome of an app that has not started; "" where it has another one.
        job: the job that has started; "" for an unstarted app, all of whose jobs are cancelled.
        force: Slurm ends the job, not its conductor.
    """

    def __init__(
        self, folder: Folder, answer: Json, state: str, message: str, job: str = "", force: bool = False
    ) -> None:
        self._identity = folder.identity
        self._is_submitted = bool(job) or "submitting" in folder.names()
        self.answer = answer
        self._state, self._message = state, message
        self._job, self._force = job, force
        self._rows: List[Row] = []
        self.jobs: List[str] = []

    def look(self, site: Site) -> None:
        """Find the jobs of the app."""
        if self._is_submitted:
            rows = [row for row in site.rows(self._identity) if not row.is_over]
            self._rows = [row for row in rows if self._job in ("", row.job)]
            self.jobs = [row.job for row in self._rows]

    @property
    def is_signalled(self) -> bool:
        """Whether a conductor ends it. Only a job that runs gets a signal: scancel repeats it for others."""
        return bool(self._job) and not self._force and [row.state for row in self._rows] == ["RUNNING"]

    def take(self, found: Json) -> None:
        """Complete the answer; an error replaces it, with what follows although Slurm does not answer."""
        if "error" in found:
            self.answer.clear()
        self.answer.update(found)
        if found.get("error") == "unreachable" and self._state == "cancelled" and not self._force:
            follows = "it is stopped within a minute" if self._job else "it will not start"
            self.answer["message"] += f"; the cancellation is on record: {follows}"

    def note(self, site: Site, over: Set[str]) -> Json:
        """Record the end of an unstarted app; returns the rest of the answer. `over`: ended jobs."""
        if not self._job:
            folder = site.open_again(self._identity) if self._state else None
            if folder is not None:
                with folder:
                    folder.end_unstarted(self._state, self._message)
            return {}
        if not self._rows or over.intersection(self.jobs):
            return {"is": "ended"}
        # Slurm has requeued a pending job: clients derive the end of its app, with the first run.
        return {"is": "pending" if [row.state for row in self._rows] == ["PENDING"] else "running"}


_Decide = Callable[[Site, Json, List[_Stop], Folder], Json]


def cancel(site: Site, ops: Sequence[Json]) -> List[Json]:
    """Cancel apps: unstarted apps never start, running ones are signalled to end."""
    return _all(site, ops, _cancelled)


def withdraw(site: Site, ops: Sequence[Json]) -> List[Json]:
    """End unstarted apps as skipped; False for one that has started, or ended otherwise."""
    return _all(site, ops, _withdrawn)


def _all(site: Site, ops: Sequence[Json], decide: _Decide) -> List[Json]:
    """The answers to the operations. `decide` writes a decision, and adds the stop that is left to do."""
    stops: List[_Stop] = []

    answers = [site.answer(op, partial(decide, site, op, stops)) for op in ops]
    _carry_out(site, stops)
    is_gone = [
        op["op"] == "cancel" and answer.get("error") == "unknown-app" for op, answer in zip(ops, answers)
    ]
    return [{"is": "unknown"} if gone else answer for gone, answer in zip(is_gone, answers)]


def _carry_out(site: Site, stops: Sequence[_Stop]) -> None:
    """Cancel the jobs of apps, and record that; in halves where Slurm refuses all jobs for one of them."""
    over = answered(partial(_without_jobs, site, stops), site.job_dir)
    if isinstance(over, set):
        for stop in stops:
            stop.take(answered(partial(stop.note, site, over), site.job_dir))
    elif len(stops) > 1:
        _carry_out(site, stops[: len(stops) // 2])
        _carry_out(site, stops[len(stops) // 2 :])
    else:
        for stop in stops:
            stop.take(over)


def _without_jobs(site: Site, stops: Sequence[_Stop]) -> Set[str]:
    """Cancel the jobs of apps that wait before others end, whose nodes they could get; returns ended jobs."""
    with site.one_look(len(stops)):
        for stop in stops:
            stop.look(site)
    waiting = [job for stop in stops if not stop.is_signalled for job in stop.jobs]
    running = [job for stop in stops if stop.is_signalled for job in stop.jobs]
    return site.slurm.cancel(waiting) | site.slurm.cancel(running, _SIGNAL)


def _cancelled(site: Site, op: Json, stops: List[_Stop], folder: Folder) -> Json:
    message = str(op.get("message") or "cancelled")
    if "outcome" in folder.names():
        return {"is": "ended"}
    now: Json = {"at": time.time(), "interrupt": bool(op.get("interrupt")), "message": message}
    now.update({"grace_s": op.get("grace_s"), "by": op.get("by")})
    force = bool(op.get("force"))
    try:
        folder.link("started", json.dumps({"cancelled": True, "at": now["at"], "message": message}))
    except OSError as error:
        if not is_full(error):
            raise
        force = True  # a cancellation by Slurm needs no file, and may free space
    answer = {"is": "pending"}
    started = folder.json("started")
    if started is None or "job" not in started:
        state = "cancelled" if "cancelled" in (started or {}) else ""
        stops.append(_Stop(folder, answer, state, message))
        return answer
    if op.get("force"):
        now["force"] = True
    try:
        folder.write("cancel", json.dumps(now))
    except OSError as error:
        if not is_full(error):
            raise
        force = True
    stops.append(_Stop(folder, answer, "cancelled", message, str(started["job"]), force))
    return answer


def _withdrawn(site: Site, op: Json, stops: List[_Stop], folder: Folder) -> Json:
    if "outcome" in folder.names() and "started" not in folder.names():
        return {"withdrawn": False}
    folder.link("started", json.dumps({"withdrawn": True, "at": time.time()}))
    if "withdrawn" not in (folder.json("started") or {}):
        return {"withdrawn": False}
    answer = {"withdrawn": True}
    stops.append(_Stop(folder, answer, "skipped", "withdrawn"))
    return answer


def end(site: Site, op: Json) -> Json:
    """Record the outcome of an app that no conductor records, or complete a cancellation that was cut off."""
    with site.open(op["app_id"]) as folder:
        if "outcome" not in folder.names() and complete_end(site, folder):
            return {"won": True}
        won = folder.link("outcome", json.dumps(op["outcome"]))
        folder.unlink("secrets")
        if won and op["outcome"].get("state") in ("lost", "skipped"):
            cancel_jobs(site, folder)  # Slurm may have queued the job again, or still have it in the queue
        return {"won": won}


# -- waiting -------------------------------------------------------------------------------------------------


QUEUE_S, SLOWEST_S = 2.0, 30.0  # the growing pause between looks at the queue


def wait(site: Site, op: Json) -> Json:
    """Block until one of the apps has ended, or has left the queue without an outcome, or time is over; or
    until one of `starts` among them has started.

    queue: seconds until the next look at the queue, and between the two looks after it. The answer has the
    same values for the request that continues this one.
    """
    parent, began = os.getppid(), time.monotonic()
    pause, end = 0.1, began + float(op["seconds"])
    first_s, queue_pause = op.get("queue") or (0.0, QUEUE_S)
    queue_at = began + first_s
    done: Dict[str, Json] = {}
    while True:
        began = time.monotonic()
        ended, missing = _finished(site, op["app_ids"], op.get("starts", ()))
        waiting = [each for each in op["app_ids"] if each not in ended and each not in missing]
        for app_id in ended:
            with suppress(OpError):  # it was just removed, or is damaged
                done[app_id] = read_app(site, app_id)
        missing += [each for each in ended if each not in done]
        if not done and not missing and waiting and began >= queue_at:
            queue_at, queue_pause = began + queue_pause, min(SLOWEST_S, queue_pause * 1.5)
            try:
                found = look(site, waiting)
                done = {each: facts for each, facts in found.items() if facts["vanished"] or facts["outcome"]}
                release_again(site, found)
            except OpError as error:
                if error.kind != "unreachable":
                    raise
                site.slurm = Slurm()  # asks again later
        left = end - time.monotonic()
        if done or missing or not waiting or left <= 0 or os.getppid() != parent:
            queue = [max(0.0, queue_at - time.monotonic()), queue_pause]
            return {"apps": done, "missing": missing, "queue": queue}
        time.sleep(min(left, max(pause, 5 * (time.monotonic() - began))))
        pause = min(1.0, pause * 1.2)


def _finished(site: Site, app_ids: Sequence[str], starts: Sequence[str]) -> Tuple[List[str], List[str]]:
    """The apps that have ended, with those of `starts` that have started; and those without a directory."""
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
                awaited = {"cancelled", "withdrawn", *(["job"] if app_id in starts else ())}
                if awaited & (folder.json("started") or {}).keys():
                    ended.append(app_id)
    return ended, missing


# -- releases and ends that were lost ------------------------------------------------------------------------


LATE_S = 30.0  # how long Slurm may take to notice that a job has ended whose outcome is on record


def release(site: Site, op: Json) -> Json:
    """Release again the jobs of apps whose release was lost."""
    return {"released": release_again(site, look(site, op["app_ids"]))}


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
