"""Answer in short for apps that a client knows to be queued, if they are: a plan may ask for thousands."""

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from launcher.schedulers.slurm.site.agent.folder import NAME, Json, is_sealed
from launcher.schedulers.slurm.site.agent.rows import Row
from launcher.schedulers.slurm.site.agent.site import Site

Rows = Dict[str, List[Row]]
"""App id → its rows of squeue."""


def rows_by_app(site: Site) -> Rows:
    """Ask Slurm for the jobs of all apps. Raises OpError."""
    by_app: Rows = {}
    for row in site.slurm.rows():
        by_app.setdefault(row.app_id, []).append(row)
    return by_app


def queued_apps(site: Site, rows: Rows, known: Mapping[str, float]) -> List[Json]:
    """The known apps that wait in the queue for nothing but their turn, grouped by the state of their rows.

    Each group has a `row`, as in the facts of an app, and `jobs`, a JSON object app id → job.

    Args:
        known: app id → creation time of its attempt, epoch seconds: another attempt may have the same id.
    """
    groups: Dict[Tuple[Any, ...], Json] = {}
    ours: Dict[str, bool] = {}  # script → whether it is below this job directory
    for app_id, created_at in known.items():
        live = [row for row in rows.get(app_id, ()) if not row.is_over]
        if not _waits(live) or not NAME.match(app_id):
            continue
        (row,) = live
        if row.command not in ours:
            ours[row.command] = site.scripts(row)
        if ours[row.command] and is_sealed(f"{site.apps}/{app_id}", created_at):
            group = groups.get(row[2:-1])  # all but its owner, its job and the command, which names both
            if group is None:
                group = groups[row[2:-1]] = {"row": queue_row(row), "jobs": {}}
            group["jobs"][app_id] = row.job
    return list(groups.values())


def _waits(live: Sequence[Row]) -> bool:
    """Whether an app has one job, which waits for its turn."""
    return len(live) == 1 and live[0].state == "PENDING" and not live[0].held and not live[0].dependency


def queue_row(row: Row) -> Json:
    times = {"submitted_at": row.submitted_at, "start_at": row.start_at}
    state = {"state": row.state, "reason": row.reason, "held": row.held, "dependency": row.dependency}
    return dict(times, job=row.job, **state)
