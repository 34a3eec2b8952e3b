"""Submit an app: take its id, or give it back; its files, its held job, the release of that."""

import base64
import errno
import json
import os
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from launcher.schedulers.appfolder import remove_tree, token
from launcher.schedulers.slurm.site.agent.folder import (
    FULL,
    Folder,
    Json,
    OpError,
    checked,
    gone,
    is_removed,
    record_unstarted,
    reserved,
    state_of,
)
from launcher.schedulers.slurm.site.agent.removal import cancel_jobs, dismantle
from launcher.schedulers.slurm.site.agent.site import FORGOTTEN, TRIES, Site, need_of, refusal, script_of


def reserve(site: Site, op: Json) -> Json:
    """Take an app id: a new directory, or that of a dead owner which is complete and of the same digest."""
    path, owner, record = site.path(op["app_id"]), op["owner"], op["record"]
    checked(str(owner.get("nonce")))
    for _ in range(TRIES):
        try:
            folder = Folder(path)
        except FileNotFoundError:
            if _make(site, path, owner, record):
                return {"resumed": False}
            continue
        with folder:
            try:
                found = _take_over(folder, owner, record, op.get("dead", ()))
                if found and site.live_job(folder) is None:
                    found = None  # its job was cancelled, or lost: nothing is left to go on with
                if not folder.is_in_place():
                    continue  # files that another client was removing looked like those of a dead owner
                if found is not None:
                    return {"resumed": found}
                dismantle(site, folder)
            except FileNotFoundError:
                if folder.is_in_place():
                    raise  # else another client removes it
    raise OpError("reserved", "other clients take {} at this moment".format(op["app_id"]), state="reserved")


def _make(site: Site, path: str, owner: Json, record: Json) -> bool:
    """Make an app directory with its owner in it; False when there is one already."""
    os.makedirs(site.apps, 0o700, exist_ok=True)
    generation = "{}.{}".format(owner["nonce"], token())
    temp = os.path.join(site.apps, f".new-{os.path.basename(path)}-{generation}")
    os.mkdir(temp, 0o700)
    try:
        with Folder(temp) as folder:
            folder.write("id", generation)
            folder.write("attempt.json", json.dumps(record))
            folder.write("owner", json.dumps(owner))
        os.rename(temp, path)
        return True
    except OSError as error:
        remove_tree(temp)
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        with Folder(path) as there:  # NFS may have lost the reply to a rename that was made
            return bool(there.text("id") == generation)
    except BaseException:
        remove_tree(temp)
        raise


def _take_over(folder: Folder, owner: Json, record: Json, dead: Sequence[str]) -> Optional[bool]:
    """Whether the submission is resumed, as far as it is; None: the directory is to be removed.

    Raises OpError reserved when it has been started, or its owner is not among the dead ones.
    """
    present, _, successor = folder.owner()
    _refuse_started(folder, present)
    if present is not None and present["nonce"] == owner["nonce"]:
        return "created" in folder.names()
    removal = folder.json("started") if "started" in folder.names() else None
    if removal is not None and removal["nonce"] in (*dead, owner["nonce"]):
        return None  # it was interrupted
    if removal is not None:
        raise reserved(folder, "reserved", removal, progress_at=time.time() - folder.age_s("started"))
    if present is not None and present["nonce"] not in dead:
        progress = time.time() - min((folder.age_s(name) for name in folder.names()), default=0.0)
        raise reserved(folder, state_of(folder), present, progress_at=progress)
    if not folder.link(successor, json.dumps(owner)):
        present = folder.owner()[0]
        raise reserved(folder, state_of(folder), present, progress_at=time.time())
    _refuse_started(folder, None)
    before = folder.json("attempt.json") or {}
    if "created" in folder.names() and before.get("digest") and before.get("digest") == record.get("digest"):
        return True
    return None


def _refuse_started(folder: Folder, owner: Optional[Json]) -> None:
    """Raise OpError reserved for an app that was submitted, cancelled or withdrawn."""
    names = folder.names()
    started = folder.json("started") if "started" in names else None
    if "outcome" in names or "submitted" in names or (started is not None and not is_removed(started)):
        raise reserved(folder, state_of(folder), None)


def abort(site: Site, op: Json) -> Json:
    """Remove an app that this owner has not started. May be called twice."""
    try:
        folder = site.open(op["app_id"])
    except OpError:
        return {"removed": False}
    with folder:
        owner = folder.owner()[0]
        if owner is None or owner["nonce"] != op["nonce"] or "submitted" in folder.names():
            return {"removed": False}
        try:
            dismantle(site, folder)
        except OpError as error:
            if error.kind != "reserved":
                raise
            return {"removed": False}
        return {"removed": True}


# -- its files and its job -----------------------------------------------------------------------------------


def create(site: Site, op: Json) -> Json:
    """Write all files and submit a held job, or the outcome `skipped` for a need that has not succeeded."""
    with site.open(op["app_id"]) as folder:
        _own(folder, op.get("nonce"))
        names = folder.names()
        if "created" in names:
            return {"job": folder.text("job")}
        for name, text in op["files"].items():
            folder.write(checked(name), text, 0o700 if name == "script.sh" else 0o600)
        for name, text in op.get("binary", {}).items():
            folder.write(checked(name), base64.b64decode(text))
        if op.get("secret"):
            folder.write("secrets", json.dumps(op["secret"]))
        needs = op.get("needs") or []
        waits, skip = _judge(site, folder, needs)
        if skip is not None:
            return skip
        job = _submit(site, folder, op["argv"], waits, "submitting" in names)
        _own(folder, op.get("nonce"), lambda: site.slurm.cancel([job]))
        names_of = {each["app_id"]: each.get("job") or each["app_id"] for each in needs}
        waits_for = {app_id: names_of[app_id] for app_id in waits}
        created = {"at": time.time(), "needs": list(names_of), "waits": waits_for}
        folder.write("created", json.dumps(created))
        return {"job": job}


def _own(folder: Folder, nonce: Optional[str], undo: Callable[[], Any] = lambda: None) -> None:
    """Raise OpError reserved, after `undo`, unless the client of this nonce may still start the app."""
    owner = folder.owner()[0]
    started = folder.json("started")
    is_mine = nonce is None or (owner is not None and owner["nonce"] == nonce)
    if started is not None or not is_mine or not folder.is_in_place():
        undo()
        raise reserved(folder, state_of(folder), owner if started is None else None)


def _judge(site: Site, folder: Folder, needs: Sequence[Json]) -> Tuple[Dict[str, str], Optional[Json]]:
    """App id → job of the needs that have not ended, or the answer for a need that has not succeeded."""
    waits = {}
    for need in needs:
        state, job = need_of(site, need["app_id"])
        if state not in ("", "succeeded"):
            return {}, _skip(folder, need, state)
        if not state:
            waits[need["app_id"]] = job
    return waits, None


def _skip(folder: Folder, need: Json, state: str) -> Json:
    job = need.get("job") or need["app_id"]
    message = f"{job} failed" if state == "failed" else f"{job} was {state}"
    record_unstarted(folder, "skipped", message)
    return {"skipped": need["app_id"], "message": message}


def _submit(site: Site, folder: Folder, argv: Sequence[str], waits: Dict[str, str], again: bool) -> str:
    """The app's held job: of an earlier, interrupted call, or a new one.

    Raises OpError state when the earlier one is gone.
    """
    if not argv or os.path.basename(argv[0]) != "sbatch" or not all(each[:1] == "-" for each in argv[1:]):
        raise OpError("state", f"want options of sbatch, got {list(argv)}")
    generation = folder.text("id") or ""
    folder.write("submitting", json.dumps({"at": time.time()}))
    job = _adopt(site, folder) if again else None
    if job is None:
        if folder.text("job") is not None:
            raise gone(folder)
        folder.link_to("script.sh", script_of(generation))
        script = os.path.join(folder.path, script_of(generation))
        options = ["--hold", "--parsable", "--job-name=" + folder.app_id]
        options += ["--output=" + os.path.join(folder.path, "slurm.out"), "--open-mode=append"]
        behind = _known(site, waits)
        if behind:
            options += ["--dependency=afterok:" + ":".join(behind), "--kill-on-invalid-dep=yes"]
        job = site.slurm.submit(list(argv) + options + [script], folder.path)
    try:
        if folder.link("job", job):
            return job
    except FileNotFoundError:  # the directory was removed in the meantime
        site.slurm.cancel([job])
        raise
    winner = folder.text("job") or job
    if winner != job:
        site.slurm.cancel([job])
    return winner


def _known(site: Site, waits: Dict[str, str]) -> List[str]:
    """The jobs of these apps that Slurm knows. `_skip_now` judges the others before the start.

    Slurm would drop a dependency on a forgotten job, and would wait for another one that has its id by now.
    """
    known = {(row.app_id, row.job) for row in site.slurm.rows()} if waits else set()
    return [job for app_id, job in waits.items() if (app_id, job) in known]


def _adopt(site: Site, folder: Folder) -> Optional[str]:
    """The job that an interrupted call submitted; further ones are cancelled."""
    jobs = sorted((row.job for row in site.rows_of(folder) if not row.is_over), key=int)
    known = folder.text("job")
    keep = known if known in jobs else jobs[0] if jobs else None
    site.slurm.cancel([job for job in jobs if job != keep])
    return keep


def start(site: Site, op: Json) -> Json:
    """Release the job. Done twice, it changes nothing."""
    with site.open(op["app_id"]) as folder:
        names, at = folder.names(), time.time()  # before the release: see `held_again`
        if "outcome" not in names and "submitted" not in names:
            started = folder.json("started")
            if started is None or is_removed(started):
                _own(folder, op.get("nonce"))
                if "created" not in names:
                    raise OpError("state", f"{folder.app_id} has not been created")
                ended = _release(site, folder)
                if ended is not None:
                    return ended
            try:
                folder.write("submitted", json.dumps({"at": at}))
            except OSError as error:
                if error.errno not in FULL:
                    raise
                return _accepted(folder)  # the queue shows that it was released
        for name in folder.names():
            if name == "owner" or name.startswith("owner."):
                folder.unlink(name)
        return _accepted(folder)


def _accepted(folder: Folder) -> Json:
    state, created = state_of(folder), folder.json("created") or {}
    if state in ("created", "queued"):
        state = "waiting" if created.get("waits") else "queued"
    return {"state": state}


def _release(site: Site, folder: Folder) -> Optional[Json]:
    """Release the held job; the answer when a need has not succeeded. Raises OpError refused, state."""
    skip = _skip_now(site, folder)
    if skip is not None:
        return skip
    row = site.live_job(folder)
    code, _, err = site.slurm.run(["scontrol", "release", row.job]) if row and row.held else (0, "", "")
    started = folder.json("started")
    if (row and not code) or (started is not None and "job" in started):
        return None  # or it was released before
    if row is None or FORGOTTEN.search(err):
        raise gone(folder)
    raise OpError("refused", refusal(err))


def _skip_now(site: Site, folder: Folder) -> Optional[Json]:
    """The answer for an app whose need has not succeeded, or has been forgotten by Slurm: the dependency on
    such a job is dropped, so that ours would start."""
    waits = (folder.json("created") or {}).get("waits") or {}
    known = {(row.app_id, row.job) for row in site.slurm.rows() if not row.is_over} if waits else set()
    for app_id, name in waits.items():
        state, need_job = need_of(site, app_id)
        if not state and (app_id, need_job) not in known:
            state = need_of(site, app_id)[0] or "lost"
        if state not in ("", "succeeded"):
            cancel_jobs(site, folder)
            return dict(_skip(folder, {"app_id": app_id, "job": name}, state), state="skipped")
    return None
