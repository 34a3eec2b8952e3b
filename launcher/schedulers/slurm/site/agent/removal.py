"""Remove apps that have ended, what dead clients have left, and output folders."""

import json
import os
import re
import time
from typing import List, Tuple

from launcher.schedulers.appfolder import AppFolder, remove_tree
from launcher.schedulers.slurm.site.agent.folder import (
    FULL,
    NAME,
    Folder,
    Json,
    OpError,
    checked,
    is_removed,
    record_unstarted,
    reserved,
    state_of,
)
from launcher.schedulers.slurm.site.agent.site import Row, Site


def dismantle(site: Site, folder: Folder) -> None:
    """Remove an app of which nothing has started; the caller is its owner, or completes what one began.

    Raises OpError reserved when it was started just now.
    """
    at = folder.owner()[1]
    started = folder.json("started")
    if started is None and at and not folder.link_to(at, "started"):
        started = folder.json("started")
    if started is not None and not is_removed(started):
        raise reserved(folder, state_of(folder), None)
    cancel_jobs(site, folder)
    put_away(site, folder)


def cancel_jobs(site: Site, folder: Folder) -> None:
    """Cancel all jobs of an app; without a call when none was ever submitted."""
    if "submitting" in folder.names():
        site.slurm.cancel([row.job for row in site.rows_of(folder) if not row.is_over])


def put_away(site: Site, folder: Folder) -> None:
    """Remove an app directory: out of the list first, at once, then its contents."""
    if folder.is_in_place():  # else another client was faster
        folder.remove()


# -- apps that have ended, and leftovers ---------------------------------------------------------------------


KEPT = {"attempt.json", "id", "outcome"}
"""The files that stay of an app whose outcome is kept."""
STALE_S = 3600.0  # temporary files of this age belong to no live agent


def remove(site: Site, op: Json) -> Json:
    """Remove an ended app. Unless `forget` is given, its outcome stays where plans may judge its job by it.

    Those that are kept of earlier attempts are removed then.
    """
    try:
        folder = site.open(op["app_id"])
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return {"removed": False}
    with folder:
        if "outcome" not in folder.names():
            raise OpError("live", f"{folder.app_id} has not ended", state=state_of(folder))
        if not op.get("forget") and _is_judged(site, folder):
            _strip(folder)
            if state_of(folder) != "skipped":  # plans judge the attempt before that one
                _remove_earlier(site, folder.app_id)
        else:
            put_away(site, folder)
        return {"removed": True}


def _strip(folder: Folder) -> None:
    """Leave the record of an app and of its end, and nothing else."""
    outcome = folder.json("outcome") or {}
    if "removed" not in outcome:
        folder.write("outcome", json.dumps(dict(outcome, removed=time.time())))
    for name in folder.names() - KEPT:
        path = os.path.join(folder.path, name)
        if os.path.isdir(path) and not os.path.islink(path):
            remove_tree(path)
        else:
            folder.unlink(name)


def _is_judged(site: Site, folder: Folder) -> bool:
    """Whether plans may judge a job by this attempt: no later one has ended, other than skipped."""
    if not (folder.json("attempt.json") or {}).get("key"):
        return False
    number = _number(folder.app_id)
    later = [each for each in _attempts(site, folder.app_id) if _number(each) > number]
    return all(_ended(site, each) in ("", "skipped") for each in later)


def _ended(site: Site, app_id: str) -> str:
    try:
        with site.open(app_id) as folder:
            return str((folder.json("outcome") or {}).get("state") or "")
    except OpError:
        return ""


def _attempts(site: Site, app_id: str) -> List[str]:
    """The other attempts of the job of an app: `<job>-<number>-<hash>`."""
    job, number, scope = _parts(app_id)
    found = [each for each in site.app_ids() if each != app_id and _parts(each)[::2] == (job, scope)]
    return [each for each in found if _number(each)] if number.isdigit() else []


def _parts(app_id: str) -> Tuple[str, str, str]:
    """The job, the number and the hash of an attempt's id."""
    job, number, scope = ("", "", *app_id.rsplit("-", 2))[-3:]
    return job, number, scope


def _number(app_id: str) -> int:
    number = _parts(app_id)[1]
    return int(number) if number.isdigit() else 0


def _remove_earlier(site: Site, app_id: str) -> None:
    number = _number(app_id)
    for other in _attempts(site, app_id):
        if _number(other) < number:
            try:
                with site.open(other) as folder:
                    if "removed" in (folder.json("outcome") or {}):
                        put_away(site, folder)
            except OpError:
                continue  # another client has removed it


def sweep(site: Site, op: Json) -> Json:
    """Complete interrupted removals; cancel jobs that can never do anything; remove dead temporary files."""
    swept = []
    for path in site.hidden():
        try:
            is_dead = ".gone-" in path or time.time() - os.lstat(path).st_mtime > STALE_S
        except FileNotFoundError:
            continue
        if is_dead:
            remove_tree(path)
            swept.append("directory " + os.path.basename(path))
    app_ids = site.app_ids()
    for app_id in app_ids:
        swept += ["directory " + app_id] if _sweep_app(site, app_id) else []
    dead = [row.job for row in site.slurm.rows() if _is_superfluous(site, row)]
    site.slurm.cancel(dead)
    return {"removed": swept + ["job " + job for job in dead]}


def _sweep_app(site: Site, app_id: str) -> bool:
    try:
        folder = site.open(app_id)
    except OpError:
        return False
    with folder:
        for name in folder.names():
            if name.startswith(".") and folder.age_s(name) > STALE_S:
                folder.unlink(name)
        try:
            if "removed" in (folder.json("outcome") or {}):
                _strip(folder)  # it was interrupted
                return False
            started = folder.json("started")
            if started is None or not is_removed(started):
                return False
            dismantle(site, folder)
        except OpError as error:
            if error.kind not in ("state", "reserved"):
                raise
            return False
        return True


def _is_superfluous(site: Site, row: Row) -> bool:
    """Whether a job has not started, and would find its app removed, ended, or another job's."""
    if row.state != "PENDING" or not NAME.match(row.app_id) or not site.scripts(row):
        return False
    try:
        folder = site.open(row.app_id)
    except OpError:
        return True
    with folder:
        names = folder.names()
        if not row.of(folder, folder.text("id") or "") or "outcome" in names:
            return True
        started = folder.json("started")
        if started is not None:
            return started.get("job") != row.job
        return row.held and "job" in names and folder.text("job") != row.job


# -- output folders of jobs ----------------------------------------------------------------------------------


def outputs(site: Site, op: Json) -> Json:
    try:
        return {"outputs": sorted(name for name in os.listdir(site.outputs) if NAME.match(name))}
    except FileNotFoundError:
        return {"outputs": []}


def make_output(site: Site, op: Json) -> Json:
    path = os.path.join(site.outputs, checked(op["name"]))
    os.makedirs(path, 0o700, exist_ok=True)
    return {"folder": path}


def remove_output(site: Site, op: Json) -> Json:
    """Remove an output folder. Raises OpError live while an app has it in its variables or arguments."""
    path = os.path.join(site.outputs, checked(op["name"]))
    if not os.path.isdir(path):
        return {"removed": False}
    word = re.compile(re.escape(json.dumps("/outputs/" + op["name"])[1:-1]) + r"(?![\w.+@-])")
    for app_id in site.app_ids():
        with site.open(app_id) as folder:
            if "outcome" not in folder.names() and word.search(folder.text("app.json") or ""):
                raise OpError("live", f"{app_id} uses it", app_id=app_id)
    AppFolder(path).remove()
    return {"removed": True}


# -- ends ------------------------------------------------------------------------------------------------


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
