"""End apps: cancel or withdraw many with few calls of Slurm; record an outcome that no conductor records.

`cancel` and `withdraw` take the operations of several apps: all decisions are written before Slurm is called.
"""

import json
import time
from functools import partial
from typing import Callable, List, Sequence, Set

from launcher.holding.journal import is_full
from launcher.schedulers.slurm.site.agent.removal import cancel_jobs
from launcher.schedulers.slurm.site.agent.site import Folder, Site, answered
from launcher.schedulers.slurm.site.agent.slurm import Row
from launcher.schedulers.slurm.site.shared import Json

_SIGNAL = ("--signal=USR2", "--batch")


class _Stop:
    """An app that is decided to end, and whose `jobs` are left.

    Args:
        answer: the answer of its operation, which `note` completes.
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

    def note(self, site: Site, over: Set[str]) -> None:
        """Record the end of an unstarted app, and complete the answer. `over`: jobs that had ended before."""
        self.take(answered(partial(self._noted, site, over), site.job_dir))

    def take(self, found: Json) -> None:
        """Complete the answer; an error replaces it."""
        if "error" in found:
            self.answer.clear()
        self.answer.update(found)

    def _noted(self, site: Site, over: Set[str]) -> Json:
        if not self._job:
            if self._state:
                self._end_unstarted(site)
            return {}
        if not self._rows or over.intersection(self.jobs):
            return {"is": "ended"}
        if [row.state for row in self._rows] == ["PENDING"]:  # it was requeued, or is suspended
            self._end_unstarted(site)
            return {"is": "pending"}
        return {"is": "running"}

    def _end_unstarted(self, site: Site) -> None:
        folder = site.open_again(self._identity)
        if folder is not None:
            with folder:
                folder.end_unstarted(self._state, self._message)


_Decide = Callable[[Site, Folder, Json, List[_Stop]], Json]


def cancel(site: Site, ops: Sequence[Json]) -> List[Json]:
    """Cancel apps: unstarted apps never start, running ones are signalled to end."""
    return _all(site, ops, _cancelled)


def withdraw(site: Site, ops: Sequence[Json]) -> List[Json]:
    """End unstarted apps as skipped; False for one that has started, or ended otherwise."""
    return _all(site, ops, _withdrawn)


def _all(site: Site, ops: Sequence[Json], decide: _Decide) -> List[Json]:
    """The answers to the operations. `decide` writes a decision, and adds the stop that is left to do."""
    stops: List[_Stop] = []

    def act(op: Json) -> Json:
        with site.open(op["app_id"]) as folder:
            return decide(site, folder, op, stops)

    answers = [answered(partial(act, op), site.job_dir) for op in ops]
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
            stop.note(site, over)
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


def _cancelled(site: Site, folder: Folder, op: Json, stops: List[_Stop]) -> Json:
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


def _withdrawn(site: Site, folder: Folder, op: Json, stops: List[_Stop]) -> Json:
    if "outcome" in folder.names() and "started" not in folder.names():
        return {"withdrawn": False}
    folder.link("started", json.dumps({"withdrawn": True, "at": time.time()}))
    if "withdrawn" not in (folder.json("started") or {}):
        return {"withdrawn": False}
    answer = {"withdrawn": True}
    stops.append(_Stop(folder, answer, "skipped", "withdrawn"))
    return answer


def end(site: Site, op: Json) -> Json:
    """Record the outcome of an app whose conductor no longer can."""
    with site.open(op["app_id"]) as folder:
        won = folder.link("outcome", json.dumps(op["outcome"]))
        folder.unlink("secrets")
        if won and op["outcome"].get("state") in ("lost", "skipped"):
            cancel_jobs(site, folder)  # Slurm may have queued the job again, or still have it in the queue
        return {"won": won}
