"""Remove apps that have ended, and what dead clients have left."""

import json
import os
import time

from launcher.schedulers.slurm.site.agent.app import is_removed, state_of
from launcher.schedulers.slurm.site.agent.folder import NAME, Folder, Json, OpError
from launcher.schedulers.slurm.site.agent.removal import dismantle, put_away, remove_tree
from launcher.schedulers.slurm.site.agent.rows import Row
from launcher.schedulers.slurm.site.agent.site import Site

KEPT = {"attempt.json", "id", "outcome"}
"""The files that stay of an app whose outcome is kept."""
STALE_S = 3600.0  # temporary files of this age belong to no live agent


def remove(site: Site, op: Json) -> Json:
    """Remove an ended app. With `keep` its outcome stays, in place of those of the job's earlier attempts."""
    try:
        folder = site.open(op["app_id"])
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return {"removed": False}
    with folder:
        if "outcome" not in folder.names():
            raise OpError("live", f"{folder.app_id} has not ended", state=state_of(folder))
        if op.get("keep"):
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


def _remove_earlier(site: Site, app_id: str) -> None:
    """Remove what is kept of earlier attempts of the same job: `<job>-<number>-<hash>`."""
    job, number, scope = ("", "", *app_id.rsplit("-", 2))[-3:]
    for other in site.app_ids() if number.isdigit() else ():
        its_job, its_number, its_scope = ("", "", *other.rsplit("-", 2))[-3:]
        if (its_job, its_scope) != (job, scope) or not its_number.isdigit():
            continue
        if int(its_number) < int(number):
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
    if row.state != "PENDING" or not NAME.match(row.name) or not site.scripts(row):
        return False
    try:
        folder = site.open(row.name)
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
