"""Select the replicas of an app, and read their logs as records."""

from __future__ import annotations

from launcher.errors import LauncherError
from launcher.inventory.recorded import scheduler_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from launcher.inventory.find import Selected
    from launcher.schedulers.api import OnRestart
    from launcher.schedulers.logs import LogRecord
    from launcher.state.records import AppRecord


def replicas_of(selected: Selected) -> list[tuple[str, int]]:
    """The selected replicas: the named ones, or all of the role, or all of the app.

    Raises LauncherError for an unknown app, role or replica.
    """
    app, role = selected.app, selected.role
    known = _known_replicas(app)
    if not role:
        return known
    of_role = [(name, k) for name, k in known if name == role]
    if not of_role:
        from launcher.text import did_you_mean

        roles = list(dict.fromkeys(name for name, _ in known))
        hint = did_you_mean(role, roles) or f"its roles: {', '.join(roles) or 'none'}"
        raise LauncherError(f"{app.app_id} has no role `{role}`", hint=hint)
    missing = [k for k in selected.replicas if (role, k) not in of_role]
    if missing:
        raise LauncherError(
            f"role `{role}` of {app.app_id} has no replica {missing[0]}",
            hint=f"it has {len(of_role)}, numbered from 0",
        )
    return [(role, k) for k in selected.replicas] or of_role


def _known_replicas(app: AppRecord) -> list[tuple[str, int]]:
    seen = scheduler_of(app).record(app.app_id)
    if seen is not None:
        return [(replica.role, replica.k) for replica in seen.replicas]
    from launcher.inventory.status import inspect

    inspect(app)  # raises for an unknown app
    raise LauncherError(f"the logs of {app.handle} were removed", hint="only its outcome is still recorded")


def records(
    app: AppRecord,
    replica: tuple[str, int],
    stream: str,
    since: float | None,
    until: float | None,
    *,
    follow: bool,
    on_restart: OnRestart | None = None,
) -> Iterator[LogRecord]:
    """The output of one replica with times; `since`, `until` in seconds since the epoch."""
    streams = None
    if stream != "combined":  # which is None, so that the enumeration need not be imported
        from launcher.schedulers.responses import Stream

        streams = Stream(stream)
    scheduler = scheduler_of(app)
    scheduler.on_restart = on_restart
    return scheduler.log_records(app.app_id, *replica, since, until, follow, streams)


def run_times(
    app: AppRecord, replicas: Sequence[tuple[str, int]], restart: int
) -> dict[tuple[str, int], tuple[float, float | None]]:
    """When a run of each replica began and ended (None: not yet), in seconds since the epoch.

    Replicas that had no such restart are left out. Raises LogsUnsupported where the times are not known.
    """
    from launcher.schedulers.restarts import run_between

    starts = scheduler_of(app).run_starts(app.app_id, replicas)
    found = {where: run_between(starts[where], restart) for where in replicas}
    return {where: times for where, times in found.items() if times is not None}
