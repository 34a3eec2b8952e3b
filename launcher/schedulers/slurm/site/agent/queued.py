"""Answer in short for apps that a client knows to be queued, if they are: a plan may ask for thousands."""

import os
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from launcher.schedulers.slurm.site.agent.folder import NAME, Json, identity
from launcher.schedulers.slurm.site.agent.rows import Row
from launcher.schedulers.slurm.site.agent.site import Site

Rows = Dict[str, List[Row]]
"""App id → its rows of squeue."""
DECIDED = frozenset({"started", "cancel", "outcome"})
"""The files that an app lacks until its replicas start, or a client decides otherwise."""
MOST_BYTES = 1024
"""Of the file `submitted`."""


def rows_by_app(site: Site) -> Rows:
    """Ask Slurm for the jobs of all apps. Raises OpError."""
    by_app: Rows = {}
    for row in site.slurm.rows():
        by_app.setdefault(row.app_id, []).append(row)
    return by_app


def queued_apps(site: Site, rows: Rows, known: Mapping[str, float]) -> List[Json]:
    """Those of the known apps that wait in the queue for nothing but their turn, by the state of their rows.

    A list of groups: `row` as in the facts of an app, and `jobs`, a JSON object app id → job.

    Args:
        known: app id → creation time of its attempt, epoch seconds: another attempt may have the same id.
    """
    groups: Dict[Tuple[Any, ...], Json] = {}
    for app_id, created_at in known.items():
        for row in filter(_waits, rows.get(app_id, ())):
            if _is_alone(row, rows[app_id]) and _is_undecided(site, row, created_at):
                group = groups.get(row[2:-1])  # all but its owner, its job and the command, which names both
                if group is None:
                    group = groups[row[2:-1]] = {"row": queue_row(row), "jobs": {}}
                group["jobs"][app_id] = row.job
    return list(groups.values())


def _waits(row: Row) -> bool:
    return row.state == "PENDING" and not row.held and not dependency_of(row)


def _is_alone(row: Row, rows: Sequence[Row]) -> bool:
    """Whether no other job runs the same script: apps of other folders may have the same id."""
    return len(rows) == 1 or [each.owner for each in rows].count(row.owner) == 1


def _is_undecided(site: Site, row: Row, created_at: float) -> bool:
    """Whether the row is that of this attempt, and no client or job has decided about it.

    Thousands of apps are looked at, so this takes as few calls of the system as possible.
    """
    app_id, generation = row.owner
    if not NAME.match(app_id):
        return False
    path = f"{site.apps}/{app_id}"
    try:
        names = os.listdir(path)
        if "submitted" not in names or not DECIDED.isdisjoint(names):
            return False
        fd = os.open(path + "/submitted", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, MOST_BYTES).endswith(identity(generation, created_at).encode())
        finally:
            os.close(fd)
    except OSError:
        return False


def queue_row(row: Row) -> Json:
    times = {"submitted_at": row.submitted_at, "start_at": row.start_at}
    state = {"state": row.state, "reason": row.reason, "held": row.held, "dependency": dependency_of(row)}
    return dict(times, job=row.job, **state)


def dependency_of(row: Row) -> str:
    return "" if row.dependency == "(null)" else row.dependency
