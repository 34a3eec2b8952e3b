"""The facts of one app: its files, and its rows of the queue."""

import os
import re
from typing import Any, Callable, Dict, Iterator, List, Optional

from launcher.schedulers.slurm.site.agent.app import is_removed, need_of
from launcher.schedulers.slurm.site.agent.folder import Folder, Json, OpError
from launcher.schedulers.slurm.site.agent.rows import Row
from launcher.schedulers.slurm.site.agent.site import Site


def add_facts(
    apps: Dict[str, Json],
    errors: Dict[str, str],
    app_id: str,
    read: Callable[..., Optional[Json]],
    *args: Any,
) -> None:
    try:
        facts = read(*args)
    except OpError as error:
        if error.kind != "unknown-app":
            errors[app_id] = str(error)
    else:
        if facts is not None:
            apps[app_id] = facts


def read_app(
    site: Site, app_id: str, replicas: Any = False, rows: Optional[List[Row]] = None
) -> Optional[Json]:
    """The facts of one app; None for one whose removal has begun. rows: squeue's of this app, if asked."""
    with site.open(app_id) as folder:
        names = folder.names()
        found: Dict[str, Any] = {
            name: folder.json(name) if name in names else None
            for name in ("created", "submitted", "started", "cancel", "outcome")
        }
        started = found["started"]
        if started is not None and is_removed(started):
            return None
        attempt = folder.json("attempt.json")
        if attempt is None:
            raise OpError("state", f"{folder.path} has no attempt.json")
        job = (started or {}).get("job") or ("job" in names and (folder.text("job") or "").strip()) or None
        generation = folder.text("id") or ""
        mine = [row for row in rows or () if row.of(folder, generation)]
        live = [row for row in mine if not row.is_over and (job is None or row.job == job)]
        over = [row for row in mine if row.is_over and row.job == job]
        facts: Json = {
            "attempt": attempt,
            "folder": folder.path,
            "owner": None if found["submitted"] else folder.owner()[0],
            "created": (found["created"] or {}).get("at"),
            "job": job or (live[0].job if live else None),
            "submitted": (found["submitted"] or {}).get("at"),
            "started": started,
            "cancel": found["cancel"],
            "outcome": found["outcome"],
            "queue": [_queue_row(row) for row in live],
            "ended": _end(over[0]) if over and not live else None,
            "vanished": False,
            "needs": {},
        }
        if facts["submitted"] is None:  # the client may have been killed after it had released the job
            free = [row.submitted_at for row in live if not row.held]
            facts["submitted"] = free[0] if free else (started or {}).get("at")
        if facts["outcome"] is None:
            for need in (found["created"] or {}).get("needs", ()):
                facts["needs"][need] = _need_state(site, need)
        if replicas:
            kept = (found["outcome"] or {}).get("replicas")
            facts["replicas"] = kept or (list(_replicas(folder.path)) if "replicas" in names else [])
        return facts


def _need_state(site: Site, app_id: str) -> str:
    try:
        return need_of(site, app_id)[0]
    except OpError:
        return ""


def _queue_row(row: Row) -> Json:
    times = {"submitted_at": row.submitted_at, "start_at": row.start_at}
    dependency = "" if row.dependency == "(null)" else row.dependency
    return dict(times, job=row.job, state=row.state, reason=row.reason, held=row.held, dependency=dependency)


def _end(row: Row) -> Json:
    """How a job ended that Slurm remembers; its exit code is another question to Slurm."""
    times = {"start": row.start_at, "end": row.end_at}
    return dict(times, state=row.state, exit="", reason=row.reason, nodes=row.nodes)


def _replicas(path: str) -> Iterator[Json]:
    """The replica files of an app, in the order of their roles' folders and numbers."""
    root = os.path.join(path, "replicas")
    for role in sorted(os.listdir(root)):
        with Folder(os.path.join(root, role)) as folder:
            names = [each for each in folder.names() if re.match(r"\d+\.json\Z", each)]
            for name in sorted(names, key=lambda each: int(each.split(".")[0])):
                found = folder.json(name)
                if found is not None:
                    yield found
