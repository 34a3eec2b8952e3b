"""End an app."""

import json
import time

from launcher.schedulers.slurm.site.agent.folder import FULL, Folder, Json, OpError, record_unstarted
from launcher.schedulers.slurm.site.agent.removal import cancel_jobs
from launcher.schedulers.slurm.site.agent.site import Site


def cancel(site: Site, op: Json) -> Json:
    """Cancel an app: one that has not started never will, a running one is signalled to end."""
    try:
        folder = site.open(op["app_id"])
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return {"is": "unknown"}
    with folder:
        message = str(op.get("message") or "cancelled")
        if "outcome" in folder.names():
            return {"is": "ended"}
        now = {"at": time.time(), "grace_s": op.get("grace_s"), "interrupt": bool(op.get("interrupt"))}
        now["by"] = op.get("by")
        full = False
        try:
            folder.link("started", json.dumps({"cancelled": True, "at": now["at"], "message": message}))
        except OSError as error:
            if error.errno not in FULL:
                raise
            full = True  # Slurm's own cancellation needs no file, and may make room
        started = folder.json("started")
        if started is None or "job" not in started:
            cancel_jobs(site, folder)
            if started is not None and "cancelled" in started:
                record_unstarted(folder, "cancelled", message)
            return {"is": "pending"}
        if op.get("force"):
            now["force"] = True
        try:
            folder.write("cancel", json.dumps(dict(now, message=message)))
        except OSError as error:
            if error.errno not in FULL:
                raise
            full = True
        return {
            "is": _cancel_started(site, folder, str(started["job"]), message, full or bool(op.get("force")))
        }


def _cancel_started(site: Site, folder: Folder, job: str, message: str, force: bool) -> str:
    """Signal the conductor, or cancel a job that has none: it was requeued, or is suspended.

    A job that does not run must get no signal: scancel would try it again and again.
    """
    states = [row.state for row in site.rows_of(folder) if row.job == job and not row.is_over]
    if not states:
        return "ended"
    runs = states == ["RUNNING"]
    if not site.slurm.cancel([job], ["--signal=USR2", "--batch"] if runs and not force else []):
        return "ended"
    if states == ["PENDING"]:
        record_unstarted(folder, "cancelled", message)
        return "pending"
    return "running"


def withdraw(site: Site, op: Json) -> Json:
    """End an app of which nothing has run as skipped; False when it has started, or ended otherwise."""
    with site.open(op["app_id"]) as folder:
        if "outcome" in folder.names() and "started" not in folder.names():
            return {"withdrawn": False}
        folder.link("started", json.dumps({"withdrawn": True, "at": time.time()}))
        if "withdrawn" not in (folder.json("started") or {}):
            return {"withdrawn": False}
        cancel_jobs(site, folder)
        record_unstarted(folder, "skipped", "withdrawn")
        return {"withdrawn": True}


def end(site: Site, op: Json) -> Json:
    """Record the outcome of an app that cannot do so itself any more."""
    with site.open(op["app_id"]) as folder:
        won = folder.link("outcome", json.dumps(op["outcome"]))
        folder.unlink("secrets")
        if won and op["outcome"].get("state") == "lost":
            cancel_jobs(site, folder)  # Slurm may have queued it again
        return {"won": won}
