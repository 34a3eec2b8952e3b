"""Select the replicas of an app, and read their logs as records."""

from __future__ import annotations

from launcher.errors import LauncherError
from launcher.inventory.recorded import scheduler_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from launcher.inventory.find import Selected
    from launcher.schedulers.logs import LogPart, LogRecord
    from launcher.schedulers.restarts import Restart
    from launcher.state.records import AppRecord, ReplicaRecord


def replicas_of(selected: Selected) -> list[tuple[str, int]]:
    """The selected replicas: the named ones, or all of the role, or all of the app.

    Raises LauncherError for an unknown app, role or replica.
    """
    app, role = selected.app, selected.role
    known = [(replica.role, replica.k) for replica in app.replicas or _replicas(app)]
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


def _replicas(app: AppRecord) -> Sequence[ReplicaRecord]:
    """The replicas as the scheduler knows them. Raises LauncherError for an unknown app, or removed logs."""
    scheduler = scheduler_of(app)
    seen = scheduler.record(app.app_id)
    if seen is None:
        from launcher.inventory.status import inspect

        inspect(app)  # raises an error for an unknown app
        scheduler.check_logs(app.app_id)
        raise LauncherError(
            f"the logs of {app.handle} were removed", hint="only its outcome is still recorded"
        )
    return seen.replicas


def records(
    app: AppRecord,
    replica: tuple[str, int],
    part: LogPart,
    on_restart: Callable[[Restart], None] | None = None,
) -> Iterator[LogRecord]:
    """Return the output of one replica, with times."""
    logs = scheduler_of(app).logs(app.app_id)
    logs.on_restart = on_restart
    return logs.records(replica, part)


def run_times(
    app: AppRecord, replicas: Sequence[tuple[str, int]], restart: int
) -> dict[tuple[str, int], tuple[float, float | None]]:
    """Return begin and end of a run of each replica in seconds since the epoch; None if it has not come.

    Replicas that had no such restart are left out. Raises LogsUnsupported where the times are not known.
    """
    from launcher.schedulers.restarts import run_between

    starts = scheduler_of(app).logs(app.app_id).run_starts(replicas)
    found = {where: run_between(starts[where], restart) for where in replicas}
    return {where: times for where, times in found.items() if times is not None}


def tail_of(
    app: AppRecord, document: Mapping[str, Any], count: int
) -> tuple[ReplicaRecord | None, list[str]]:
    """Return the replica that failed first (or None), and the last lines of its output, without secrets.

    Raises LauncherError for removed logs, and SecretError for an unreadable secret, whose value could not be
    masked.
    """
    from launcher.schedulers.ended_process import last_lines
    from launcher.schedulers.logs import LogPart

    if not app.replicas:
        return None, []
    failed = [each for each in app.replicas if each.state == "failed"]
    first = app.root_cause or (failed or app.replicas)[0]
    hidden = tuple(secrets_of(document))
    part = LogPart(tail=count)
    chunks = scheduler_of(app).logs(app.app_id).chunks([(first.role, first.k)], part)
    return first, last_lines(b"".join(data for _, _, data in chunks), count, hidden)


def secrets_of(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the secret values to mask in output, of the job and of this process. Raises SecretError."""
    import os
    from itertools import chain

    from launcher.secrets import resolve
    from launcher.specs.secret import SHORTEST_LITERAL, is_sensitive, reference_in

    envs = [os.environ, *(role.get("env", {}) for role in document.get("roles", ()))]
    for name, value in chain.from_iterable(env.items() for env in envs):
        if (reference := reference_in(value)) is not None:
            yield resolve(reference)
        elif is_sensitive(name) and len(value) >= SHORTEST_LITERAL:
            yield value
