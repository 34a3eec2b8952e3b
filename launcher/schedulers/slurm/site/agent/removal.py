"""Remove ended apps, the remains of dead clients, and output folders."""

import json
import math
import os
import re
import time
from contextlib import suppress
from functools import partial
from typing import Dict, List, Sequence, Tuple

from launcher.schedulers.appfolder import AppFolder, remove_tree
from launcher.schedulers.contents import output_digest
from launcher.schedulers.slurm.site.agent.site import NAME, Folder, Site, answered, checked, is_removed
from launcher.schedulers.slurm.site.agent.slurm import OpError, Row
from launcher.schedulers.slurm.site.shared import ARRAY_SCRIPT, Json, Owner, read_tasks


def abort(site: Site, ops: Sequence[Json]) -> List[Json]:
    """Remove the apps among these that their owners have not started. May be called twice."""
    mine: List[Owner] = []
    submitted: Dict[Owner, Json] = {}

    def condemned(op: Json) -> Json:
        folder = site.find(op["app_id"])
        if folder is None:
            return {"removed": False}
        with folder:
            is_mine = _is_condemned(folder, op["nonce"])
            if is_mine:
                mine.append(folder.identity)
            if is_mine and "submitting" in folder.names():
                submitted[folder.identity] = folder.json("submitting") or {}
            return {"removed": is_mine}

    answers = [answered(partial(condemned, op), site.job_dir) for op in ops]
    with site.one_look(len(submitted)):
        site.slurm.cancel([row.job for each in submitted for row in site.rows(each) if not row.is_over])
    for identity in mine:
        found = site.open_again(identity)
        if found is not None:
            with found:
                put_away(found)
    for name in {about["array"] for about in submitted.values() if "array" in about}:
        _remove_array(site, name)
    return answers


def _is_condemned(folder: Folder, nonce: str) -> bool:
    """Decide that an app is removed, if the client of this nonce owns it and has not started it."""
    owner = folder.owner()[0]
    if owner is None or owner["nonce"] != nonce or "submitted" in folder.names():
        return False
    try:
        _condemn(folder)
    except OpError as error:
        if error.kind != "reserved":
            raise
        return False
    return True


def dismantle(site: Site, folder: Folder) -> None:
    """Remove an unstarted app for its owner, or complete that. Raises OpError reserved if it has started."""
    _condemn(folder)
    cancel_jobs(site, folder)
    put_away(folder)


def _condemn(folder: Folder) -> None:
    """Decide that an app is removed, not started. Raises OpError reserved when it was just started."""
    at = folder.owner()[1]
    started = folder.json("started")
    if started is None and at and not folder.link_to(at, "started"):
        started = folder.json("started")
    if started is not None and not is_removed(started):
        raise folder.reserved(None)


def cancel_jobs(site: Site, folder: Folder) -> None:
    """Cancel all jobs of an app; without a call of Slurm when none was ever submitted."""
    if "submitting" in folder.names():
        site.slurm.cancel([row.job for row in site.rows(folder.identity) if not row.is_over])


def put_away(folder: Folder) -> None:
    """Remove an app directory: first from the list, atomically, then its contents."""
    if folder.is_in_place():  # else another client was faster
        folder.remove()


# -- apps that have ended, and leftovers ---------------------------------------------------------------------


KEPT = {"attempt.json", "id", "outcome"}
"""The files that remain of an app whose outcome is kept."""
UNUSED_S = 86400.0  # age of an unused program: a client that is submitting an app may be about to use it
STALE_S = 3600.0  # temporary files of this age belong to no live agent


def remove(site: Site, op: Json) -> Json:
    """Remove an ended app. Without `forget`, its outcome stays while plans may judge its job by it, and the
    kept outcomes of earlier attempts are removed."""
    folder = site.find(op["app_id"])
    if folder is None:
        return {"removed": False}
    with folder:
        if "outcome" not in folder.names() and not complete_end(site, folder):
            raise OpError("live", f"{folder.app_id} has not ended", state=folder.state())
        others = [] if op.get("forget") else _attempts(site, folder.app_id)
        if not op.get("forget") and _is_judged(site, folder, others):
            _strip(folder)
            # Plans judge the attempt before a skipped one.
            for other in others if folder.state() != "skipped" else ():
                if _number(other) < _number(folder.app_id):
                    with suppress(OpError), site.open(other) as earlier:  # another client may have removed it
                        if "removed" in (earlier.json("outcome") or {}):
                            put_away(earlier)
        else:
            put_away(folder)
        return {"removed": True}


def remove_logs(site: Site, op: Json) -> Json:
    """Remove the output of an ended app; its events and its outcome, which notes that, stay."""
    folder = site.find(op["app_id"])
    if folder is None:
        return {"removed": False}
    with folder:
        outcome = folder.json("outcome")
        if outcome is None:
            raise OpError("live", f"{folder.app_id} has not ended", state=folder.state())
        remove_tree(os.path.join(folder.path, "logs"))
        if not outcome.keys() & {"removed", "logs_removed"}:
            folder.write("outcome", json.dumps(dict(outcome, logs_removed=time.time())))
        return {"removed": True}


def complete_end(site: Site, folder: Folder) -> bool:
    """Complete a cancellation or withdrawal that was cut off; False for an app without one.

    Raises OpError while Slurm does not answer; the end is not recorded then.
    """
    started = folder.json("started") or {}
    for word, state in (("cancelled", "cancelled"), ("withdrawn", "skipped")):
        if word in started:
            cancel_jobs(site, folder)
            folder.end_unstarted(state, str(started.get("message") or word))
            return True
    return False


def _strip(folder: Folder) -> None:
    """Remove everything but the record of an app and of its end."""
    outcome = folder.json("outcome") or {}
    if "removed" not in outcome:
        folder.write("outcome", json.dumps(dict(outcome, removed=time.time())))
    for name in folder.names() - KEPT:
        path = os.path.join(folder.path, name)
        if os.path.isdir(path) and not os.path.islink(path):
            remove_tree(path)
        else:
            folder.unlink(name)


def _is_judged(site: Site, folder: Folder, others: Sequence[str]) -> bool:
    """Whether plans may judge a job by this attempt: no later attempt has ended, except as skipped."""
    if not (folder.json("attempt.json") or {}).get("key"):
        return False
    for other in others:
        if _number(other) > _number(folder.app_id):
            with suppress(OpError), site.open(other) as later:
                if (later.json("outcome") or {}).get("state") not in (None, "", "skipped"):
                    return False
    return True


_listed: Dict[str, Tuple[float, Dict[Tuple[str, str], List[str]]]] = {}
"""Folder of the apps → the time (s) until which the list is used, and (job, hash) → attempts."""
_USES = 10  # a list is used for so many times the time that it took


def _attempts(site: Site, app_id: str) -> List[str]:
    """The other attempts of the job of an app: `<job>-<number>-<hash>`. With an older list, more stays."""
    now = time.monotonic()
    until, found = _listed.get(site.apps, (0.0, {}))
    if now >= until:
        found = {}
        for each in filter(_number, site.app_ids()):
            job, _, scope = _parts(each)
            found.setdefault((job, scope), []).append(each)
        took_s = time.monotonic() - now
        _listed[site.apps] = (now + took_s * (1 + _USES), found)
    job, number, scope = _parts(app_id)
    return [each for each in found.get((job, scope), ()) if each != app_id] if number.isdigit() else []


def _parts(app_id: str) -> Tuple[str, str, str]:
    """The job, the number and the hash of an attempt's id."""
    job, number, scope = ("", "", *app_id.rsplit("-", 2))[-3:]
    return job, number, scope


def _number(app_id: str) -> int:
    number = _parts(app_id)[1]
    return int(number) if number.isdigit() else 0


def sweep(site: Site, op: Json) -> Json:
    """Complete interrupted removals; cancel jobs that can run nothing; remove dead temporary files."""
    for path in site.hidden():
        if ".gone-" in path or AppFolder(os.path.dirname(path)).age_s(os.path.basename(path)) > STALE_S:
            remove_tree(path)
    for app_id in site.app_ids():
        _sweep_app(site, app_id)
    _sweep_programs(site)
    site.slurm.cancel([row.job for row in site.slurm.rows() if _is_superfluous(site, row)])
    for name in os.listdir(site.arrays) if os.path.isdir(site.arrays) else ():
        if NAME.match(name):
            _remove_array(site, name)
    return {}


def _remove_array(site: Site, name: str) -> None:
    """Remove the folder of an array, unless one of its apps is open."""
    path = os.path.join(site.arrays, checked(name))
    if not any(_is_open(site, *owner) for owner in read_tasks(path)):
        AppFolder(path).remove()


def _is_open(site: Site, app_id: str, generation: str) -> bool:
    """Whether this app exists and has no outcome."""
    try:
        with site.open(app_id) as folder:
            return folder.text("id") == generation and "outcome" not in folder.names()
    except OpError:
        return False


def _sweep_app(site: Site, app_id: str) -> None:
    folder = site.find(app_id)
    if folder is None:
        return
    with folder:
        for name in folder.names():
            if name.startswith(".") and folder.age_s(name) > STALE_S:
                folder.unlink(name)
        try:
            started = folder.json("started")
            if "removed" in (folder.json("outcome") or {}):
                _strip(folder)  # an earlier removal was interrupted
            elif started is not None and is_removed(started):
                dismantle(site, folder)
        except OpError as error:
            if error.kind not in ("state", "reserved"):
                raise


def _sweep_programs(site: Site) -> None:
    """Remove the programs of other versions that no live app runs, and that were not used lately."""
    names = os.listdir(site.programs) if os.path.isdir(site.programs) else []
    old = {name for name in names if AppFolder(site.programs).age_s(name) > UNUSED_S}
    for app_id in site.app_ids() if old else ():
        with suppress(OpError), site.open(app_id) as folder:
            if "outcome" not in folder.names():
                old.discard(str((folder.json("created") or {}).get("program")))
    for name in old:
        os.unlink(os.path.join(site.programs, name))


def _is_superfluous(site: Site, row: Row) -> bool:
    """Whether a job has not started, and its app was removed, has ended, or belongs to another job."""
    if row.state != "PENDING" or not site.scripts(row):
        return False
    if not NAME.match(row.app_id):  # also an array that was removed while it was being submitted
        return os.path.basename(row.command) == ARRAY_SCRIPT
    folder = site.find(row.app_id)
    if folder is None:
        return True
    with folder:
        names = folder.names()
        if row.owner != folder.identity or "outcome" in names:
            return True
        started = folder.json("started")
        if started is not None:
            return started.get("job") != row.job
        return row.held and folder.job() not in ("", row.job)


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


def hash_output(site: Site, op: Json) -> Json:
    """The digest of the files that an output folder has now."""
    return {"digest": output_digest(os.path.join(site.outputs, checked(op["name"])), math.inf)}


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
