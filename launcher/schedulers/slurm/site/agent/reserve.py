"""Take an app id, or give it back."""

import errno
import json
import os
import time
from typing import Optional, Sequence

from launcher.schedulers.slurm.site.agent.app import is_removed, reserved, state_of
from launcher.schedulers.slurm.site.agent.folder import Folder, Json, OpError, checked, token
from launcher.schedulers.slurm.site.agent.removal import dismantle, remove_tree
from launcher.schedulers.slurm.site.agent.site import Site
from launcher.schedulers.slurm.site.agent.slurm import TRIES


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
                if not folder.is_at(path):
                    continue  # files that another client was removing looked like those of a dead owner
                if found is not None:
                    return {"resumed": found}
                dismantle(site, folder)
            except FileNotFoundError:
                if folder.is_at(path):
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
