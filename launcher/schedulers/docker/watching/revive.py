"""Start a watch of an app that needs one and has none, as any command does that looks at the app."""

from __future__ import annotations

import os

from launcher.schedulers.docker import record, watchers
from launcher.schedulers.docker.apps import inspect_app
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.labels import APP_ID, Labels
from launcher.schedulers.docker.record import HeldError
from launcher.schedulers.docker.watching.client import WatcherClient, place_again


def ensure_watched(engine: Engine, app_id: str, *, take_over: bool = False) -> bool:
    """Start a watch of an app that needs one and has none; returns whether this call has started one.

    It does so only on the machine that started the app, unless `take_over`: a live watcher shows only there.
    """
    if record.is_locked(record.folder(app_id)):
        return False
    seen, found = inspect_app(engine, app_id)
    if found and seen is not None and Labels(found[0].labels).watcher:
        return _ensure_on_engine(engine, found[0], is_needed=seen.needs_watcher)
    if seen is None or not seen.needs_watcher or not _is_ours(found[0], app_id, take_over=take_over):
        return False
    try:
        lock = record.claim(record.folder(app_id))
    except HeldError:
        return False
    try:
        seen, found = inspect_app(engine, app_id)  # the last holder of the lock may have finished
        if seen is None or not seen.needs_watcher:
            return False
        if record.journal(lock.app_dir) is None:
            record.append(lock.app_dir, "adopted")
        place = place_again(engine, found[0]) if found else None
        watcher = WatcherClient.spawn(lock, app_id, resumed=True, place=place, engine=engine)
        watcher.confirm()
        watcher.close()
        return True
    finally:
        lock.release()


def _is_ours(container: Container, app_id: str, *, take_over: bool) -> bool:
    owner = Labels(container.labels).owner
    if owner is None or record.exists(record.folder(app_id)):
        return True
    if not owner.is_here:
        return take_over or owner.host == os.uname().nodename  # the machine was rebooted since
    return not owner.home or not record.is_locked(record.folder_below(owner.home, app_id))


def _ensure_on_engine(engine: Engine, container: Container, *, is_needed: bool) -> bool:
    """Start the watcher of this container's app again, or make another one where it is gone.

    Args:
        is_needed: the app needs a watcher, by its containers alone.
    """
    labels = Labels(container.labels)
    found = engine.inspect(labels.watcher)
    if found is not None and watchers.has_record(engine, labels):
        return not found.live and watchers.start(engine, found)
    if is_needed:
        hand_over(engine, container)
    return is_needed


def hand_over(engine: Engine, container: Container) -> None:
    """Hand a running app over to its watcher on the engine. `container`: one of the app."""
    from launcher.schedulers.docker.watching.container import EngineWatcher

    lock = record.claim(record.folder(container.labels[APP_ID]))
    try:
        made = EngineWatcher(engine, lock, container.labels, resumed=True)
        made.confirm()
        made.close()
    finally:
        record.remove(lock.app_dir)
        lock.release()
