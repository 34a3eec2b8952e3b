"""The state of an app as far as its directory tells, and the end of one of which nothing has run."""

import json
import time
from typing import Any, Optional, Tuple

from launcher.schedulers.slurm.site.agent.folder import Folder, Json, OpError
from launcher.schedulers.slurm.site.agent.site import Site


def reserved(folder: Folder, state: str, owner: Optional[Json], **detail: Any) -> OpError:
    message = f"{folder.app_id} is {state}"
    return OpError("reserved", message, state=state, owner=owner, **detail)


def gone(folder: Folder) -> OpError:
    """The error of an app whose job has left Slurm before it was released."""
    job = (folder.text("job") or "").strip()
    message = f"job {job} of {folder.app_id} has gone: it was cancelled, or Slurm's controller lost it"
    return OpError("state", message)


def is_removed(started: Json) -> bool:
    """Whether it is the link of an owner that removes the app."""
    return not started.keys() & {"job", "cancelled", "withdrawn"}


def state_of(folder: Folder) -> str:
    """The state of an app as far as its directory tells."""
    outcome, started = folder.json("outcome"), folder.json("started")
    if outcome is not None:
        return str(outcome.get("state"))
    if started is not None and not is_removed(started):
        return "running" if "job" in started else "cancelled" if "cancelled" in started else "skipped"
    names = folder.names()
    return "queued" if "submitted" in names else "created" if "created" in names else "reserved"


def need_of(site: Site, app_id: str) -> Tuple[str, str]:
    """The state of an app that another one needs, "" while it has no end; and its job."""
    try:
        with site.open(app_id) as folder:
            outcome, started = folder.json("outcome"), folder.json("started")
            if outcome is not None:
                return str(outcome["state"]), ""
            if started is not None and "job" not in started:
                return "cancelled" if "cancelled" in started else "skipped", ""
            job = (started or {}).get("job") or folder.text("job")
            if job is None:
                raise OpError("state", f"{app_id} has no job yet")
            return "", str(job)
    except OpError as error:
        if error.kind != "unknown-app":
            raise
        return "removed", ""


def record_unstarted(folder: Folder, state: str, message: str) -> bool:
    """Link the outcome of an app of which nothing has run."""
    now: Json = {
        "started_at": None,
        "ended_at": time.time(),
        "exit_code": None,
        "restarts": 0,
        "replicas": [],
    }
    won = folder.link("outcome", json.dumps(dict(now, state=state, message=message)))
    folder.unlink("secrets")
    return won
