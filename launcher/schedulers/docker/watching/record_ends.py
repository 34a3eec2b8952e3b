"""Record the ends of apps, each once, and remove what clients that were killed have left."""

from __future__ import annotations

from launcher.schedulers.docker import apps, record, rows, tombstones
from launcher.schedulers.docker.apps import DockerApp
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.watching import stop
from launcher.schedulers.docker.watching.client import ensure_watched
from launcher.specs.attempt import Attempt


def record_ends(engine: Engine) -> list[Attempt]:
    """Record the ends of apps that have a record here. Returns the attempts whose end is new."""
    rows.match_records()
    if not (ids := set(record.app_ids())):
        return []
    record.sweep()
    found = apps.find_all(engine)
    return [
        attempt for app in found if app.app_id in ids and (attempt := _record_end(engine, app)) is not None
    ]


def _record_end(engine: Engine, app: DockerApp) -> Attempt | None:
    if app.has_recorded_end:
        if not app.containers:
            _remove_record(app)
        return None
    if app.view.needs_watcher:
        ensure_watched(engine, app.app_id)
    if app.view.ended:
        current = apps.find(engine, app.app_id, previous=app)
        if current is None or not current.view.ended:
            return None
        attempt = apps.attempt_of(current)
        if attempt is not None and attempt.is_live:
            return None  # its watcher is about to record how it ended
        if not current.view.final:
            recorded = record.read_attempt(app.app_dir) or {}
            tombstones.write(engine, recorded.get("labels") or current.containers[0].labels, current.view)
        rows.end(current.to_record(), durable=attempt is not None)
        return attempt if record.append(app.app_dir, "reaped") else None
    if app.view.state in ("reserved", "created") and not app.owner and not app.labels.is_job:
        # An attempt of a job is resumed or removed by the next apply; no client resumes this app.
        stop.remove_app(engine, app.app_id, force=False)
    return None


def _remove_record(app: DockerApp) -> None:
    """Remove the record of an app whose end is known and whose containers were removed."""
    try:
        lock = record.claim(app.app_dir)
    except record.HeldError:
        return
    record.remove(app.app_dir)
    rows.remove(app.app_id)
    lock.release()
