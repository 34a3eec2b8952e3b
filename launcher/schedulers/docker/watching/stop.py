"""Stop an app, from any process: record the intent, stop the containers, mark their names with the reason.

Any number of clients and the watcher may do this at once: each step starts from the current state, and
repeating one changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from launcher.actor import actor
from launcher.schedulers.docker import apps, record
from launcher.schedulers.docker.apps import inspect_app, list_containers
from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import Conflict, EngineError, EngineUnreachable, NotFound
from launcher.schedulers.docker.client.parallel import run_parallel
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.labels import APP_ID, OWNER, Labels
from launcher.schedulers.docker.replicas import (
    MARKS,
    STOPPED,
    is_replica,
    is_reservation,
    is_waiting,
    mark_of,
    own_name,
    waits_for_restart,
)
from launcher.schedulers.docker.status import DockerAppView, has_retries
from launcher.schedulers.docker.watching.client import wait_for_exit
from launcher.schedulers.docker.watching.decide import cancel_message
from launcher.schedulers.docker.watching.give_up import give_up
from launcher.schedulers.docker.watching.write_end import write_end
from launcher.schedulers.order import STOPPED_AT_END
from launcher.specs.attempt import WAITING_STATES

_ROUNDS = 20  # a watcher in the middle of a restart reads the intent after its next start
_MARGIN_S = 30.0
_LATE_S = 0.5


def cancel(engine: Engine, app_id: str, grace_s: float | None = None, *, interrupt: bool = False) -> None:
    """Stop the app; returns when none of its containers runs and its watcher has gone.

    An app that has ended stays as it ended. An app that was never started is removed.

    Args:
        interrupt: the caller was attached to the app; it is recorded as interrupted.
    """
    app_dir = record.folder(app_id)
    intended = False
    for _ in range(_ROUNDS):
        seen, found = inspect_app(engine, app_id)
        if seen is None or (seen.final and not seen.live):
            if seen is None or not found or not _cancel_paused(engine, seen, Labels(found[0].labels)):
                break
            continue
        if seen.state in WAITING_STATES:
            if not give_up(engine, app_id, "cancelled", cancel_message(actor(), interrupt=interrupt)):
                wait_for_exit(app_dir, _LATE_S)  # it is being started, or its watcher records its end
            continue
        if not seen.started:
            remove_app(engine, app_id, force=False)
            continue
        if not intended:
            record.append(app_dir, "cancel", by=actor(), grace_s=grace_s, interrupt=interrupt)
            intended = True
        if seen.live or not seen.ended:
            grace = Labels(found[0].labels).grace_s if grace_s is None else grace_s
            why, message = "cancel", cancel_message(actor(), interrupt=interrupt)
            if seen.done:  # its work was done before: only its services are left
                why, message = "end", STOPPED_AT_END
            stop(engine, app_dir, found, why, message, grace)
        if wait_for_exit(app_dir, _MARGIN_S) and not seen.live:
            record_end(engine, app_id)
            break
    wait_for_exit(app_dir, _MARGIN_S)


def _cancel_paused(engine: Engine, seen: DockerAppView, labels: Labels) -> bool:
    """Cancel an app that a watcher of another state folder is to restart.

    The marks are the request: that watcher sees them, and records the end. False for any other app.
    """
    app = apps.find(engine, labels.app_id) if has_retries(seen, labels.retries) else None
    if app is None or app.paused_by is None:
        return False
    waiting = {each.id for each in app.view.replicas if each.waits}
    run_parallel(
        lambda each: _mark(engine, each, MARKS["cancel"]), [c for c in app.containers if c.id in waiting]
    )
    owner = app.paused_by
    if record.is_locked_elsewhere(app.app_id, owner):
        wait_for_exit(record.folder_below(owner.home, app.app_id), _MARGIN_S)
    return True


def stop(
    engine: Engine,
    app_dir: str,
    containers: Sequence[Container],
    why: str,
    message: str,
    grace_s: float,
) -> None:
    """Stop the unended ones of these containers for good, and mark their names with the reason.

    A container that ends by itself before it can be stopped gets no mark: its own exit counts.

    Args:
        containers: inspected, so that those which wait to be restarted are known.
    """
    recorded = record.exists(app_dir)
    journal = record.journal(app_dir) or Journal()
    waiting = {each.id for each in containers if waits_for_restart(each, journal)}
    if why == "start":  # what could not be started again has failed
        now = time.time()
        waiting = {each for each in waiting if journal.last_restart[each].due_at > now}
    wanted = waiting.union(each.id for each in containers if not each.ended)
    todo = [each for each in containers if each.id in wanted and is_replica(each)]
    if recorded:
        record.append(app_dir, "stop", why=why, of=[each.id for each in todo], message=message)
    started = [each for each in todo if each.was_started]
    stopped = run_parallel(lambda each: stop_one(engine, each.id, grace_s), started)
    spared = {each.id for each, by_us in zip(started, stopped, strict=True) if not by_us} - waiting
    if recorded and spared:
        record.append(app_dir, "spared", of=sorted(spared))
    mark = MARKS.get(why, STOPPED)
    run_parallel(lambda each: _mark(engine, each, mark), [each for each in todo if each.id not in spared])


def stop_one(engine: Engine, container: str, grace_s: float) -> bool:
    """Stop one container; False when it had ended, or is gone."""
    try:
        return engine.stop(container, grace_s)
    except NotFound:
        return False
    except Conflict:  # it is being removed
        return False


def _mark(engine: Engine, container: Container, mark: str) -> None:
    """The first mark stays; a name that cannot be changed is no reason to fail."""
    if mark_of(container):
        return
    try:
        engine.rename(container.id, own_name(container) + mark)
    except EngineUnreachable:
        raise
    except EngineError:  # gone, or another process has marked it first
        return


def record_end(engine: Engine, app_id: str) -> None:
    """Record how an app without a watcher ended, if it has."""
    found = apps.find(engine, app_id)
    if found is None or record.is_locked_elsewhere(app_id, found.labels.owner):
        return
    if found.view.ended and not found.view.live and not found.view.final:
        write_end(engine, found.app_dir, found.view, found.containers[0].labels if found.containers else {})


def remove_app(engine: Engine, app_id: str, *, force: bool) -> bool:
    """Remove all of an app: containers, volumes, its record. False when a container of it runs.

    Args:
        force: remove containers that were started meanwhile, too.
    """
    if not remove_objects(engine, app_id, force=force):
        return False
    record.remove(record.folder(app_id))
    return True


def remove_objects(engine: Engine, app_id: str, *, force: bool) -> bool:
    """As `remove_app`, without the record. The reservation goes last: until then no client recreates the app,
    or takes it for one that waits.

    Objects that a client with another state folder has made under the same id stay.
    """
    recorded = record.read_attempt(record.folder(app_id)) or {}
    owner = (recorded.get("labels") or {}).get(OWNER)

    def is_own(labels: Mapping[str, str]) -> bool:
        return owner is None or labels.get(OWNER) == owner

    found = [each for each in list_containers(engine, app_id) if is_own(each.labels)]
    replicas = [each for each in found if is_replica(each)]
    if not force and any(each.was_started for each in replicas):
        return False
    try:
        _remove(engine, replicas, force=force)
        for volume in engine.volumes(f"{APP_ID}={app_id}"):
            if is_own(volume.labels):
                engine.remove_volume(volume.name)
        _remove(engine, [each for each in found if is_waiting(each)], force=force)
        _remove(engine, [each for each in found if is_reservation(each)], force=force)
    except Conflict:  # started just now
        return False
    return True


def _remove(engine: Engine, containers: Iterable[Container], *, force: bool) -> None:
    run_parallel(lambda each: engine.remove(each.id, force=force), containers)
