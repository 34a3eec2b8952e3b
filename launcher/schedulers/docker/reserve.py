"""Reserve an app id: with the lock of its record here, and a container of that name that is never started.

The engine gives a name to one container only, which decides between machines. The lock decides between
clients with one state folder, and names its holder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from launcher.errors import ReservedError, SchedulerError
from launcher.schedulers.docker import apps, record, rows, tombstones
from launcher.schedulers.docker.apps import DockerApp, list_containers
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import Conflict, EngineError, ImageNotFound, NameTaken
from launcher.schedulers.docker.client.streams import Report
from launcher.schedulers.docker.client.view import run_parallel
from launcher.schedulers.docker.containers import is_foreign, name_taken
from launcher.schedulers.docker.images import pull
from launcher.schedulers.docker.labels import RESERVATION_LABELS
from launcher.schedulers.docker.names import scratch_volume, waiting_container
from launcher.schedulers.docker.record import RecordLock
from launcher.specs.attempt import UNSTARTED_STATES, Attempt

_TRIES = 5
_PATIENCE_S = 10.0


class ReservedId:
    """An app id that this process holds.

    Attributes:
        marker: id of the container with the app id as its name; "" when an app is resumed.
        resumed: the app, when a dead owner had started a part of it.
    """

    def __init__(self, lock: RecordLock, marker: str = "", resumed: DockerApp | None = None) -> None:
        self.lock = lock
        self.marker = marker
        self.resumed = resumed


def reserve(
    engine: Engine,
    attempt: Attempt,
    labels: Mapping[str, str],
    *,
    take_over: bool = False,
    report: Report | None = None,
    fresh: set[str] | None = None,
) -> ReservedId:
    """Reserve the attempt's app id. Raises ReservedError, StateError, EngineError, with nothing left behind.

    Args:
        fresh: gets the name of an image that is pulled here; see `pull.ensure_images`.
    """
    app_dir = record.folder(attempt.app_id)
    lock = _claim(engine, attempt.app_id, app_dir, take_over)
    is_new = record.read_attempt(app_dir) is None
    try:
        return _take(engine, attempt, labels, lock, take_over, lambda: _image(engine, attempt, report, fresh))
    except BaseException:
        if is_new:
            record.remove(app_dir)
            rows.remove(attempt.app_id)
        lock.release()
        raise


def _claim(engine: Engine, app_id: str, app_dir: str, take_over: bool) -> RecordLock:
    """Take the lock. Waits for the watcher of a killed client: it removes what the client created."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return record.claim(app_dir)
        except record.HeldError as error:
            found = apps.find(engine, app_id, lock_held=True, take_over=take_over)
            state = found.view.state if found else "reserved"
            is_undone = found is None or not (found.owner or found.view.started)
            if not is_undone or time.monotonic() > deadline:
                raise ReservedError(app_id, state, str(error.holder or "")) from error


def _take(
    engine: Engine,
    attempt: Attempt,
    labels: Mapping[str, str],
    lock: RecordLock,
    take_over: bool,
    choose_image: Callable[[], str],
) -> ReservedId:
    image = choose_image()
    for left in reversed(range(_TRIES)):
        found = apps.find(engine, attempt.app_id, lock_held=True, take_over=take_over)
        if found is not None and (resumed := _clear(engine, found, attempt, lock, take_over)):
            return ReservedId(lock, resumed=resumed)
        record.clear(lock.app_dir)
        record.write_attempt(lock.app_dir, apps.facts(engine, labels))
        rows.add(labels)
        body = {"Image": image, "Cmd": ["true"], "Labels": {**labels, **RESERVATION_LABELS}}
        try:
            marker = engine.create(attempt.app_id, body)
        except NameTaken as error:
            if is_foreign(engine, attempt.app_id):
                doing = f"cannot reserve {attempt.app_id}"
                raise name_taken(engine, attempt.app_id, attempt.app_id, doing) from error
            continue  # by a client on another machine, or with another state folder, just now
        except EngineError as error:
            if left and isinstance(error, ImageNotFound):
                image = choose_image()  # another client has removed the image in the meantime
                continue
            raise SchedulerError(f"cannot reserve {attempt.app_id}: {error}", hint=error.hint) from error
        try:
            free = _is_free(engine, attempt, marker)
        except BaseException:
            engine.remove(marker)
            raise
        if free:
            return ReservedId(lock, marker=marker)
        engine.remove(marker)
    raise ReservedError(attempt.app_id, "reserved")


def _is_free(engine: Engine, attempt: Attempt, marker: str) -> bool:
    """Whether the app id is free, checked again after taking the name: before that, another client may have
    held the name, created all of the attempt and released the name; or its reservation was renamed.

    Raises ReservedError when that attempt, or a later one of the job, has already ended.
    """
    for stone in tombstones.read_all(engine, attempt.key).values():
        if stone.number >= attempt.number:
            raise ReservedError(stone.app_id, stone.outcome.state)
    return all(each.id == marker for each in list_containers(engine, attempt.app_id))


def _clear(
    engine: Engine, found: DockerApp, attempt: Attempt, lock: RecordLock, take_over: bool
) -> DockerApp | None:
    """Remove what a dead owner created and never started. Returns the app when its start is to be completed.

    Raises ReservedError when its owner is alive, or when the app was started otherwise, however it ended.
    """
    view = found.view
    if found.owner:
        raise ReservedError(attempt.app_id, view.state, found.owner)
    if view.state == "running" and view.unstarted and found.labels.digest == attempt.digest:
        return found
    if view.state not in UNSTARTED_STATES:
        raise ReservedError(attempt.app_id, view.state)
    waiting = waiting_container(found.containers)
    if (
        waiting is not None
        and tombstones.decide(engine, waiting, tombstones.RESUME, take_over=take_over) != tombstones.RESUME
    ):
        raise ReservedError(attempt.app_id, view.state)  # another client gives it up at this moment
    if waiting is not None:
        # First: a record of waiting without that container reads as a cancellation.
        record.clear(lock.app_dir)
    try:
        # Not the scratch volume: it may be another client's by now, and `create` replaces it.
        run_parallel(lambda each: engine.remove(each.id), found.containers)
    except Conflict as error:  # started just now
        raise ReservedError(attempt.app_id, "running") from error
    if waiting is not None:
        tombstones.forget(engine, attempt.app_id)
    return None


def release(engine: Engine, reserved: ReservedId) -> None:
    """Release an app id; an app that was to be resumed stays as it is."""
    if reserved.marker:
        engine.remove_volume(scratch_volume(os.path.basename(reserved.lock.app_dir)))
        engine.remove(reserved.marker)
        if reserved.lock.is_valid:
            record.remove(reserved.lock.app_dir)
        rows.remove(os.path.basename(reserved.lock.app_dir))
    reserved.lock.release()


def _image(engine: Engine, attempt: Attempt, report: Report | None, fresh: set[str] | None) -> str:
    """An image for a container that never runs: the first role's, which is needed anyway."""
    roles, cfg = attempt.document["roles"], attempt.document.get("cfg", {})
    name = roles[0].get("image", "")
    if name and engine.image(name) is not None:
        return str(name)
    policy = str(cfg.get("image_pull", pull.MISSING))
    if not name or policy == pull.NEVER:
        if not (name := pull.any_of(engine) or name):
            raise SchedulerError("the engine has no image to reserve an app id with")
        return str(name)
    pull.ensure_image(engine, name, pull.MISSING, report, fresh)
    return str(name)
