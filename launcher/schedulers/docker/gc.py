"""What is left of Docker apps that have ended, and what apps shared: finding it and removing it.

An engine may be shared by several users and machines. Only what nobody can be using goes: nothing while an
app is being submitted, and nothing shared that is younger than an hour.
"""

from __future__ import annotations

import time
from contextlib import suppress

from launcher.errors import SchedulerError
from launcher.schedulers.docker.client.errors import Conflict
from launcher.schedulers.docker.client.together import together
from launcher.schedulers.docker.images.stock import WORKSPACE_LABEL, is_workspace_name
from launcher.schedulers.docker.labels import APP_ID, PART, PREFIX, RESERVATION_PART
from launcher.schedulers.docker.records import record
from launcher.schedulers.docker.state import apps
from launcher.schedulers.staged import Finished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from launcher.schedulers.docker.client.engine import Engine
    from launcher.schedulers.docker.client.objects import Labelled
    from launcher.schedulers.docker.client.view import EngineView
    from launcher.schedulers.docker.records.record import Lock
    from launcher.schedulers.docker.state.apps import App

NETWORK_LABEL = PREFIX + "network"
FRESH_S = 3600.0
_PATIENCE_S = 5.0  # of a watcher that has recorded the end and is not gone yet
_AGAIN_S = 0.05


def finished(engine: EngineView, scheduler: str) -> list[Finished]:
    """The apps of this engine that have ended and that nobody works on, the newest first."""
    return [_finished(app, scheduler) for app in _ended(engine)]


def _ended(engine: EngineView) -> list[App]:
    listed = [app for app in apps.find_all(engine) if app.view.ended]
    known = [app if app.view.settled and app.view.ended_at else apps.inspect(engine, app) for app in listed]
    return [app for app in known if is_over(app)]


def is_over(app: App) -> bool:
    """Whether it has ended for good: nothing of it runs, and no watcher has anything left to do."""
    waits = not app.view.settled and record.is_locked(app.app_dir)
    return app.view.ended and not app.view.live and not waits


def _finished(app: App, scheduler: str) -> Finished:
    labels, view = app.labels, app.view
    ended_at = view.ended_at or labels.created_at
    return Finished(scheduler, labels.session, app.app_id, labels.name, ended_at, own=app.journal is not None)


def remove(engine: Engine, app_id: str) -> None:
    """Remove containers, scratch volume and record of an app that has ended.

    Raises SchedulerError when it has not, or when somebody works on it.
    """
    if not apps.is_id(app_id):
        return
    app = apps.find(engine, app_id)
    if app is not None and not is_over(app):
        raise SchedulerError(f"{app_id} has not ended: {app.view.state}", hint=f"launcher cancel {app_id}")
    app_dir = record.folder(app_id)
    lock = _claim(app_dir) if record.exists(app_dir) else None
    try:
        together(lambda container: engine.remove(container.id), app.containers if app else ())
        together(lambda volume: engine.remove_volume(volume.name), engine.volumes(f"{APP_ID}={app_id}"))
        if lock is not None:
            record.remove(app_dir)
    finally:
        if lock is not None:
            lock.release()


def _claim(app_dir: str) -> Lock:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return record.claim(app_dir)
        except record.HeldError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_S)


def sweep(engine: Engine, *, now: float | None = None) -> list[str]:
    """Remove scratch volumes without an app, our network and workspace images that nobody uses; in words."""
    record.sweep()
    containers = engine.containers()
    ours = [each for each in containers if APP_ID in each.labels]
    if any(each.labels.get(PART) == RESERVATION_PART for each in ours):
        return []
    old = (time.time() if now is None else now) - FRESH_S
    gone = _volumes(engine, {each.labels[APP_ID] for each in ours} | set(record.app_ids()), old)
    if all(each.ended for each in ours) and not _is_anybody_at_work():
        gone += _networks(engine, old)
    return gone + _images(engine, {each.image_id for each in containers}, old)


def _is_anybody_at_work() -> bool:
    """Between two starts of an app nothing of it runs; its containers name the network that they had."""
    return any(record.is_locked(record.folder(app_id)) for app_id in record.app_ids())


def _volumes(engine: Engine, apps_there: set[str], old: float) -> list[str]:
    gone = []
    for volume in _older(engine.volumes(APP_ID), old):
        if volume.labels[APP_ID] not in apps_there:
            with suppress(Conflict):
                engine.remove_volume(volume.name)
                gone.append(f"volume {volume.name}")
    return gone


def _networks(engine: Engine, old: float) -> list[str]:
    gone = []
    for network in _older(engine.networks(NETWORK_LABEL), old):
        with suppress(Conflict):  # somebody has put a container of their own into it
            engine.remove_network(network.id)
            gone.append(f"network {network.name}")
    return gone


def _images(engine: Engine, used: set[str], old: float) -> list[str]:
    gone = []
    for image in _older(engine.images(WORKSPACE_LABEL), old):
        names = [name for name in image.tags if is_workspace_name(name)]
        if image.id in used or (image.tags and not names):
            continue
        with suppress(Conflict):  # another image was built on it
            for name in names or (image.id,):
                engine.remove_image(name)
            gone.append(f"image {names[0] if names else image.name}")
    return gone


def _older(things: Iterable[Labelled], moment: float) -> list[Labelled]:
    return [each for each in things if each.created_at is not None and each.created_at <= moment]
