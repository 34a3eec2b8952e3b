"""Settling what has ended: each end is told once, and what the dead left is removed."""

from __future__ import annotations

from launcher.schedulers.docker import tombstones
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.records import record, rows
from launcher.schedulers.docker.state import apps
from launcher.schedulers.docker.state.apps import App
from launcher.schedulers.docker.watching import stop
from launcher.schedulers.docker.watching.client import ensure_watched
from launcher.specs.attempt import Attempt


def reap(engine: Engine) -> list[Attempt]:
    """The attempts of jobs whose end was not told before, of the apps that have a record here."""
    rows.match_records()
    if not (ids := set(record.app_ids())):
        return []
    record.sweep()
    found = apps.find_all(engine)
    return [attempt for app in found if app.app_id in ids and (attempt := _settle(engine, app)) is not None]


def _settle(engine: Engine, app: App) -> Attempt | None:
    if app.is_reaped:
        if not app.containers:
            _forget(app)
        return None
    if app.view.needs_watcher:
        ensure_watched(engine, app.app_id)
    if app.view.ended:
        looked = apps.find(engine, app.app_id, before=app)
        if looked is None or not looked.view.ended:
            return None
        attempt = apps.attempt_of(looked)
        if attempt is not None and attempt.is_live:
            return None  # its watcher is about to record how it ended
        if not looked.view.settled:
            told = record.read_attempt(app.app_dir) or {}
            tombstones.write(engine, told.get("labels") or looked.containers[0].labels, looked.view)
        rows.end(app.app_id, looked.view, durable=attempt is not None)
        return attempt if record.append(app.app_dir, "reaped") else None
    if app.view.state in ("reserved", "created") and not app.owner and not app.labels.is_job:
        # An attempt of a job is resumed or removed by the next apply; nobody comes back for this one.
        stop.take_back(engine, app.app_id, force=False)
    return None


def _forget(app: App) -> None:
    """Remove the record of an app whose end is known and whose containers were removed."""
    try:
        lock = record.claim(app.app_dir)
    except record.HeldError:
        return
    record.remove(app.app_dir)
    rows.remove(app.app_id)
    lock.release()
