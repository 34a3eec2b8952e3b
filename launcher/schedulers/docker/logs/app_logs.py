"""Read the logs of an app by role and replica: find the containers, and follow them until the app ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.errors import SchedulerError
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.logs import read
from launcher.schedulers.docker.logs.follow import FollowedApp
from launcher.schedulers.docker.logs.reader import LogQuery
from launcher.schedulers.docker.state import apps, other_engines
from launcher.schedulers.logs import LogRecord


def records(
    engine: EngineView, app_id: str, replica: tuple[str, int], query: LogQuery, *, follow: bool
) -> Iterator[LogRecord]:
    """See `Scheduler.log_records`."""
    (container,) = _containers(engine, app_id, [replica])
    return read.records(engine, container, query, _followed(engine, app_id) if follow else None)


def chunks(
    engine: EngineView,
    app_id: str,
    replicas: Sequence[tuple[str, int]],
    query: LogQuery,
    *,
    tail: int | None,
    follow: bool,
) -> Iterator[tuple[str, int, bytes]]:
    """See `Scheduler.log_chunks`."""
    found = _containers(engine, app_id, replicas)
    sources = [(role, k, container) for (role, k), container in zip(replicas, found, strict=True)]
    followed = _followed(engine, app_id) if follow else None
    return read.chunks(engine, sources, query, tail=tail, followed=followed)


def _containers(engine: EngineView, app_id: str, replicas: Sequence[tuple[str, int]]) -> Sequence[str]:
    found = apps.find(engine, app_id, inspected=False)
    if found is None:
        other_engines.refuse(engine, app_id)
        raise SchedulerError(f"there is no app {app_id} at {engine.host}")
    there = dict.fromkeys(found.expected_replicas, "") | {
        (each.role, each.k): each.id for each in found.view.replicas
    }
    return [read.find(there, app_id, role, k) for role, k in replicas]


def _followed(engine: EngineView, app_id: str) -> FollowedApp:
    def is_over() -> bool:
        found = apps.find(engine, app_id)
        return found is None or found.view.ended

    return FollowedApp(engine, app_id, is_over)
