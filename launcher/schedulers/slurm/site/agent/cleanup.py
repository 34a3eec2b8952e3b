"""Remove apps that have ended, and what dead clients have left."""

import json
import os
import time
from typing import List, Tuple

from launcher.schedulers.slurm.site.agent.app import is_removed, state_of
from launcher.schedulers.slurm.site.agent.folder import NAME, Folder, Json, OpError
from launcher.schedulers.slurm.site.agent.removal import dismantle, put_away, remove_tree
from launcher.schedulers.slurm.site.agent.rows import Row
from launcher.schedulers.slurm.site.agent.site import Site

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
    """The state that an app has ended in; "" for one that has not, or is gone."""
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
    """The number of an attempt; 0 for an app without one."""
    number = _parts(app_id)[1]
    return int(number) if number.isdigit() else 0


def _remove_earlier(site: Site, app_id: str) -> None:
    """Remove what is kept of earlier attempts of the same job."""
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
