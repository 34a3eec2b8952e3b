"""Wait for the start and the end of an app by the engine's events; start a watcher for an app without one."""

from __future__ import annotations

import os
import time
from threading import Timer

from launcher.schedulers.docker import apps, record, watchers
from launcher.schedulers.docker.apps import DockerApp, inspect_app
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.labels import APP_ID, Labels
from launcher.schedulers.docker.record import HeldError
from launcher.schedulers.docker.watching.client import WatcherClient, place_again, wait_for_exit
from launcher.specs.attempt import UNSTARTED_STATES, WAITING_STATES

_EXIT_S = 30.0
_LOOK_S = 1.0
_HELD_LOOK_S = 5.0  # the engine does not tell of the death of the watcher of a held app
_SOON_S = 0.1
_END_ACTIONS = frozenset({"die", "destroy", "rename"})


def wait_for_end(engine: EngineView, app_id: str, deadline: float | None) -> DockerApp | None:
    """Return the app once it and its watcher have ended, or as it is at `deadline` (monotonic).

    A held app whose watcher dies is returned as it is. It waits for an engine that goes away meanwhile: see
    `Patience`.
    """
    return Patience(engine.host, deadline).persist(lambda: _wait_for_end(engine, app_id, deadline))


def _wait_for_end(engine: EngineView, app_id: str, deadline: float | None) -> DockerApp | None:
    found = apps.find(engine, app_id)
    while found is not None and not (found.view.ended or found.is_abandoned):
        seen, left = None, _left(deadline, _LOOK_S)
        if left <= 0:
            return found
        if found.paused_by is not None and not record.locked_elsewhere(app_id, found.paused_by):
            time.sleep(left)  # no event may follow
        elif found.paused_by is not None or found.is_ending:
            _wait_for_watchers(found, left)
        else:
            seen = _listen(engine, app_id, _next_look(found, deadline))
        is_seen = seen is not None and seen.view.final and not seen.view.live
        found = seen if is_seen else apps.find(engine, app_id)
    if found is not None and found.view.ended:
        _wait_for_watchers(found, _left(deadline, _EXIT_S))
    return found


def look_for_end(engine: EngineView, app_id: str) -> DockerApp | None:
    """The app as it is now, waiting only for watchers that are about to record its end."""
    found = apps.find(engine, app_id)
    if found is not None and (found.view.ended or found.paused_by or found.is_ending):
        return wait_for_end(engine, app_id, time.monotonic() + _EXIT_S)
    return found


def wait_for_start(engine: EngineView, app_id: str) -> None:
    """Return once a held app has started or ended.

    It waits on while the watcher is dead, since a later apply may revive it, and while the engine is away,
    unless the engine is away from the beginning.
    """
    if _is_unstarted(apps.find(engine, app_id)):
        Patience(engine.host).persist(lambda: _wait_for_start(engine, app_id))


def _wait_for_start(engine: EngineView, app_id: str) -> None:
    with engine.events(f"{APP_ID}={app_id}") as events:
        found = apps.find(engine, app_id, confirm=False)  # subscribed first: nothing is missed
        while _is_unstarted(found):
            if next(events, None) is None:
                return
            found = apps.find(engine, app_id, confirm=False)
            if not _is_unstarted(found):
                found = apps.find(engine, app_id)


def _is_unstarted(found: DockerApp | None) -> bool:
    return found is not None and found.view.state in UNSTARTED_STATES and not found.is_ending


def _left(deadline: float | None, most_s: float) -> float:
    return most_s if deadline is None else max(0.0, min(most_s, deadline - time.monotonic()))


def _is_idle(found: DockerApp) -> bool:
    """Whether the app was started, but no container of it runs: one is being started, or waits for that."""
    return found.view.started and not found.view.live


def _next_look(found: DockerApp, deadline: float | None) -> float | None:
    """The monotonic time at which to look at a live app again without an event; None for never."""
    if _is_idle(found):  # a watcher that cannot start a replica again records the end, and causes no event
        return time.monotonic() + _left(deadline, _LOOK_S)
    if found.view.state in WAITING_STATES:
        return time.monotonic() + _left(deadline, _HELD_LOOK_S)
    return deadline


def _wait_for_watchers(found: DockerApp, most_s: float) -> None:
    """Wait until its watchers, here and of another state folder, have exited; at most `most_s` s for each."""
    wait_for_exit(found.app_dir, most_s)
    if there := record.locked_elsewhere(found.app_id, found.labels.owner):
        wait_for_exit(there, most_s)
    elif found.labels.watcher:  # the engine reports no end of a watch
        time.sleep(min(most_s, _SOON_S))


def _listen(engine: EngineView, app_id: str, deadline: float | None) -> DockerApp | None:
    """Read events until the containers show the end of the app, or that none runs, or until `deadline`."""
    with engine.events(f"{APP_ID}={app_id}") as events:
        alarm = None if deadline is None else Timer(max(0.0, deadline - time.monotonic()), events.close)
        if alarm is not None:
            alarm.daemon = True
            alarm.start()
        try:
            found = apps.find(engine, app_id, confirm=False)  # subscribed first: nothing is missed
            live = set(found.view.live) if found is not None else set()
            while not (found is None or found.view.ended or found.paused_by or found.is_ending):
                event = next(events, None)
                if event is None:
                    return apps.find(engine, app_id, confirm=False)
                if event.action == "start":
                    live.add(event.container_id)
                elif event.action in _END_ACTIONS:
                    live.discard(event.container_id)
                    if event.action == "die" and live:
                        continue  # an app does not end while a container runs: no read is needed
                    # Returns once the end is in the engine's lists, too.
                    engine.inspect(event.container_id)
                    found = apps.find(engine, app_id, confirm=False)
                    if found is not None and _is_idle(found):
                        return found
            return found
        finally:
            if alarm is not None:
                alarm.cancel()


# -- apps without a watcher --------------------------------------------------------------------------------


def ensure_watched(engine: Engine, app_id: str) -> bool:
    """Start a watch of an app that needs one and has none; returns whether this call has started one.

    It does so only on the machine that started the app: a live watcher shows only there.
    """
    if record.is_locked(record.folder(app_id)):
        return False
    seen, found = inspect_app(engine, app_id)
    if found and seen is not None and Labels(found[0].labels).watcher:
        return _ensure_on_engine(engine, found[0], is_needed=seen.needs_watcher)
    if seen is None or not seen.needs_watcher or not _is_ours(found[0], app_id):
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


def _is_ours(container: Container, app_id: str) -> bool:
    owner = Labels(container.labels).owner
    if owner is None or record.exists(record.folder(app_id)):
        return True
    if not owner.is_here:
        return owner.host == os.uname().nodename  # the machine was rebooted since
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
