"""Find and remove the objects of Docker apps that have ended, and the objects that apps share.

An engine may be shared by several users and machines. Only objects that no client can be using are removed:
none while an app is being submitted, and no shared object that is younger than an hour.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from launcher.errors import SchedulerError
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.docker import apps, outputs, record, tombstones, watchers
from launcher.schedulers.docker.apps import DockerApp
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import Conflict
from launcher.schedulers.docker.client.objects import Container, Labelled
from launcher.schedulers.docker.client.view import EngineView, run_parallel
from launcher.schedulers.docker.images import is_workspace_name
from launcher.schedulers.docker.labels import (
    APP_ID,
    PART,
    PREFIX,
    RESERVATION_PART,
    TURNS_PART,
    WATCHER,
    WATCHER_PART,
    WORKSPACE_LABEL,
    Labels,
)
from launcher.schedulers.docker.record import RecordLock
from launcher.specs.attempt import WAITING_STATES
from launcher.state.records import AppRecord

NETWORK_LABEL = PREFIX + "network"
FRESH_S = 3600.0
_PATIENCE_S = 5.0  # time for the exit of a watcher that has recorded the end
_AGAIN_S = 0.05


def finished(engine: EngineView) -> list[AppRecord]:
    """The ended apps of this engine that no process works on or waits for, the newest first.

    Apps of other state folders come from the engine's list, without the time of their end: reading it would
    take a request for each app, and callers have it from the ledger.
    """
    there = apps.find_all(engine)
    waiting = [app for app in there if app.view.state in WAITING_STATES]
    awaited = {need.app_id for app in waiting for need in app.labels.waits_for}
    listed = [app for app in there if app.view.ended and app.app_id not in awaited]
    records = []
    for app in listed:
        # Inspecting adds nothing to a complete record, or nothing that is needed here.
        is_known = not app.view.live and (app.journal is None or (app.view.final and app.view.ended_at))
        seen = app if is_known else apps.inspect(engine, app)
        if is_over(seen):
            found = seen.to_record()
            found.ended_at = found.ended_at or found.created_at
            found.own = seen.journal is not None
            records.append(found)
    return records


def is_over(app: DockerApp) -> bool:
    """Whether the app has ended for good: no container runs."""
    return app.view.ended and not app.view.live


def remove(engine: Engine, app_id: str) -> None:
    """Remove containers, scratch volume and record of an app that has ended.

    Raises SchedulerError when it has not ended, or when another process works on it.
    """
    if not is_id(app_id):
        return
    app = _ended(engine, app_id)
    app_dir = record.folder(app_id)
    lock = _claim(app_dir) if record.exists(app_dir) else None
    try:
        _remove_containers(engine, app)
        run_parallel(lambda volume: engine.remove_volume(volume.name), engine.volumes(f"{APP_ID}={app_id}"))
        if lock is not None:
            record.remove(app_dir)
        record.remove_row(app_id)
    finally:
        if lock is not None:
            lock.release()


def why_logs_stay(engine: EngineView, app_id: str) -> str:
    """See `StagedScheduler.remove_logs`. Raises SchedulerError for an app that has not ended."""
    app = _ended(engine, app_id) if is_id(app_id) else None
    is_recorded = app is None or (app.journal is not None and app.journal.outcome is not None)
    return "" if is_recorded else "only their containers know how they ended: their records are elsewhere"


def remove_logs(engine: Engine, app_id: str) -> None:
    """Remove the containers of an app that has ended, which have its logs."""
    app = _ended(engine, app_id)
    if app is not None:
        lock = _claim(app.app_dir)
        try:
            record.append(app.app_dir, "logs-removed")  # first: gc removes a record without containers
            _remove_containers(engine, app)
        finally:
            lock.release()


def _ended(engine: EngineView, app_id: str) -> DockerApp | None:
    """The app; None for an unknown one. Raises SchedulerError when it has not ended."""
    app = apps.find(engine, app_id)
    if app is not None and not is_over(app):
        raise SchedulerError(f"{app_id} has not ended: {app.view.state}", hint=f"launcher cancel {app_id}")
    return app


def _remove_containers(engine: Engine, app: DockerApp | None) -> None:
    if app is not None and app.containers:
        # Clients with other state folders know its end from its containers alone.
        tombstones.write(engine, app.containers[0].labels, app.view)
        run_parallel(lambda container: engine.remove(container.id), app.containers)
        if app.labels.is_job:
            tombstones.remove_replaced(engine, app.labels.key)


def _claim(app_dir: str) -> RecordLock:
    """Take the lock of a record, once a watcher that has recorded the end has exited."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return record.claim(app_dir)
        except record.HeldError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_S)


class _SharedObject(NamedTuple):
    """A volume, network or image that apps share.

    Attributes:
        kind: volume, network, image, or container of a watcher.
        names: the names to remove it by; an image may have several.
        why: the reason to keep it; "" when no app needs it.
    """

    kind: str
    name: str
    names: Sequence[str]
    why: str


def sweep(engine: Engine, *, now: float | None = None) -> list[str]:
    """Remove scratch volumes without an app, unused networks and images; returns the removed objects.

    A watcher that was killed is started: it removes itself when its apps have ended.
    """
    record.sweep()
    outputs.remove_copiers(engine)
    watchers.start_all(engine)
    remove = {"volume": engine.remove_volume, "network": engine.remove_network, "image": engine.remove_image}
    remove["container"] = engine.remove
    gone = []
    for each in _shared(engine, now):
        if each.why:
            continue
        with suppress(Conflict):  # another program's container, or another image, needs it
            for name in each.names:
                remove[each.kind](name)
            gone.append(f"{each.kind} {each.name}")
    return gone


def leftovers(engine: EngineView, *, now: float | None = None) -> list[tuple[str, str]]:
    """The objects that `sweep` leaves, and why; objects with the same kind and reason are counted."""
    alike: dict[tuple[str, str], list[str]] = {}
    for each in _shared(engine, now):
        why = each.why or "something that is not launcher's uses it"
        alike.setdefault((each.kind, why), []).append(each.name)
    return [
        (f"{kind} {names[0]}" if len(names) == 1 else f"{len(names)} {kind}s", why)
        for (kind, why), names in alike.items()
    ]


def _of_dead_watchers(
    engine: EngineView, containers: Sequence[Container]
) -> Iterator[tuple[str, str, Labelled | Container]]:
    """Yield kind, id and object of the containers and volumes of watchers on the engine that do not run."""
    own = [each for each in containers if each.labels.get(PART) == WATCHER_PART]
    for each in own:
        if not (each.live or watchers.has_come_up(engine, each)):
            yield "container", each.id, each
    for volume in engine.volumes(f"{PART}={WATCHER_PART}"):
        if volume.labels[WATCHER] not in {each.name for each in own}:
            yield "volume", volume.name, volume


def _shared(engine: EngineView, now: float | None) -> list[_SharedObject]:
    """All objects that apps share at this engine, without the volumes of existing apps."""
    containers = engine.containers()
    ours = [each for each in containers if APP_ID in each.labels]
    being_made = any(each.labels.get(PART) == RESERVATION_PART for each in ours)
    # A locked app may be between two starts, without containers that show its network.
    is_any_locked = any(record.is_locked(record.folder(app_id)) for app_id in record.app_ids())
    in_use = is_any_locked or not all(each.ended for each in ours)
    old = (time.time() if now is None else now) - FRESH_S
    known = {each.labels[APP_ID] for each in ours} | set(record.app_ids())

    def why(thing: Labelled | Container, used: str = "") -> str:
        if being_made:
            return "an app is being submitted, which may need it"
        is_old = thing.created_at is not None and thing.created_at <= old
        return used or ("" if is_old else "made less than an hour ago: an app that is being made may need it")

    found = []
    for volume in engine.volumes(APP_ID):
        if volume.labels[APP_ID] not in known:
            found.append(_SharedObject("volume", volume.name, [volume.name], why(volume)))
    for kind, id, thing in _of_dead_watchers(engine, containers):
        found.append(_SharedObject(kind, thing.name, [id], why(thing)))
    if not any(each.labels.get(PART) == WATCHER_PART for each in containers):
        for volume in engine.volumes(f"{PART}={TURNS_PART}"):
            found.append(_SharedObject("volume", volume.name, [volume.name], ""))
    for network in engine.networks(NETWORK_LABEL):
        used = "apps that have not ended use it" if in_use else ""
        found.append(_SharedObject("network", network.name, [network.id], why(network, used)))
    used_images = {each.image_id for each in containers}
    waited_for = {name for each in ours for name in Labels(each.labels).images}
    for image in engine.images(WORKSPACE_LABEL):
        names = [name for name in image.tags if is_workspace_name(name)]
        if names or not image.tags:  # else a user has based this image on one of launcher's
            used = "containers were made from it" if image.id in used_images else ""
            if not waited_for.isdisjoint(image.tags):
                used = "an app that waits for others needs it"
            names = names or [image.id]
            found.append(_SharedObject("image", names[0], names, why(image, used)))
    return found
