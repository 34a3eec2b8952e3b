"""Record the ends of apps, each once, and remove their remains. Watchers and clients use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread

from launcher.dataclass import replace
from launcher.holding.events import INPUTS_CUT_SHORT
from launcher.schedulers.docker import apps, record, tombstones, watchers
from launcher.schedulers.docker.apps import DockerApp, list_containers
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import Conflict, EngineError
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import run_parallel
from launcher.schedulers.docker.labels import APP_ID, INPUTS, OWNER, PART, WAITING_PART, Labels
from launcher.schedulers.docker.names import is_replica, is_reservation, is_waiting, waiting_container
from launcher.schedulers.docker.status import DockerAppView
from launcher.schedulers.docker.watching.client import wait_for_exit
from launcher.schedulers.docker.watching.waiting import ensure_watched
from launcher.specs.attempt import PENDING_STATES, WAITING_STATES, Attempt, AttemptState
from launcher.specs.inputs import UNDER
from launcher.specs.launch import InputRef

_MARGIN_S = 30.0
_LOOK_S = 0.25
_IN_USE_S = 10.0  # how long a volume in use may delay the removal of an app; it stays then
_UNKNOWN = "its input files were not compared when it ended: the record that names them is lost"


# -- the end of an app -------------------------------------------------------------------------------------


def write_end(
    engine: Engine,
    app_dir: str,
    seen: DockerAppView,
    containers: Sequence[Container],
    *,
    is_late: bool = False,
) -> None:
    """Write how the app ended, at the engine and in its record; of several writers the first one counts.

    The input files of a success are compared with those of its plan, and its output folder is hashed.

    Args:
        containers: the containers of the app; their labels replace a missing record here.
        is_late: see `changed_inputs`.
    """
    own = record.recorded_labels(app_dir) or (containers[0].labels if containers else {})
    is_judged = seen.state != "succeeded" or bool(seen.inputs_changed)
    if not is_judged and (changed := changed_inputs(app_dir, own, since=seen.started_at, is_late=is_late)):
        record.append(app_dir, "inputs", changed=changed)
        seen = replace(seen, inputs_changed=changed)
    if seen.state == "succeeded" and Labels(own).output and not seen.output_digest:
        from launcher.schedulers.docker.outputs import digest_at_end  # most apps have none

        if digest := digest_at_end(engine, filter(is_replica, containers)):
            record.append(app_dir, "output", digest=digest)
            seen = replace(seen, output_digest=digest)
    seen = tombstones.write(engine, own, seen)
    record.append(
        app_dir,
        "ended",
        state=seen.state,
        message=seen.message,
        code=seen.exit_code,
        drift=seen.drift,
        t=round((seen.ended_at or 0) * 1e9),
    )


def record_end(engine: Engine, app_id: str) -> None:
    """Record how an app without a watcher ended, if it has."""
    found = apps.find(engine, app_id)
    if found is not None and found.view.ended and not found.view.live and not found.view.final:
        write_end(engine, found.app_dir, found.view, found.containers, is_late=True)


def record_ends(engine: Engine) -> list[Attempt]:
    """Record the ends of apps that have a record here. Returns the attempts whose end is new."""
    record.match_rows()
    watchers.start_all(engine)
    if not (ids := set(record.app_ids())):
        return []
    record.sweep()
    found = apps.find_all(engine)
    return [attempt for app in found if app.app_id in ids and (attempt := _end_of(engine, app)) is not None]


def _end_of(engine: Engine, app: DockerApp) -> Attempt | None:
    if app.journal is not None and app.journal.end_recorded:
        if not app.containers and not app.journal.logs_removed:
            with suppress(record.HeldError):
                record.claim(app.app_dir).discard()
        return None
    if app.labels.watcher and app.journal is None:  # a client was killed before it had removed its record
        with suppress(record.HeldError):
            record.claim(app.app_dir).discard()
        return None
    if app.view.needs_watcher:
        ensure_watched(engine, app.app_id)
    if app.view.ended:
        current = apps.find(engine, app.app_id, previous=app)
        if current is None or not current.view.ended:
            return None
        attempt = apps.attempt_of(current)
        if not current.view.final:
            labels = record.recorded_labels(app.app_dir) or current.containers[0].labels
            tombstones.write(engine, labels, current.view)
        record.end_row(current.to_record(), durable=attempt is not None)
        return attempt if record.append(app.app_dir, "reaped") else None
    if app.view.state in PENDING_STATES and not app.owner and not app.labels.is_job:
        # The next apply resumes or removes an attempt of a job; no client resumes this app.
        remove_app(engine, app.app_id, force=False)
    return None


# -- the end of a waiting attempt, which has run nothing ---------------------------------------------------


def decide_all(engine: Engine, app_ids: Collection[str], state: AttemptState, message: str) -> None:
    """Decide that the waiting ones of these attempts end in this state, before `give_up` ends the first one.

    Otherwise the end of an attempt might first end another one that needs it. A decision that fails
    is left to `give_up`.
    """
    if len(app_ids) > 1:
        decision = tombstones.ending(state, message)
        with suppress(EngineError):
            waiting = engine.containers(f"{PART}={WAITING_PART}")
            asked = (each for each in waiting if each.labels.get(APP_ID) in app_ids)
            run_parallel(lambda each: tombstones.decide(engine, each, decision), asked)


def give_up(engine: Engine, app_id: str, state: AttemptState, message: str) -> bool:
    """End a waiting attempt in this state; returns when its watcher, if on this machine, has let it go.

    False when the attempt does not wait, or is just being started.
    """
    found = apps.find(engine, app_id)
    waiting = waiting_container(found.containers) if found is not None else None
    if found is None or found.view.state not in WAITING_STATES or waiting is None:
        return False
    if not end(engine, waiting, state, message):
        return _is_given_up(engine, app_id, state, message)
    holder = Labels(waiting.labels).holder
    if holder is not None and holder.is_here:
        wait_for_exit(record.folder_below(holder.home, app_id), _MARGIN_S)
    return True


def _is_given_up(engine: Engine, app_id: str, state: AttemptState, message: str) -> bool:
    """Whether an attempt without a container has ended in this state, to which its watcher may bring it."""
    found = apps.find(engine, app_id)
    if found is not None and found.view.ended:
        return (found.view.state, found.view.message) == (state, message)
    stone = tombstones.read(engine, app_id) if found is None else None
    return stone is not None and (stone.outcome.state, stone.outcome.message) == (state, message)


def end(engine: Engine, waiting: Container, state: AttemptState, message: str) -> bool:
    """As `give_up`, for the container of an attempt. The first decided end counts."""
    decided = tombstones.decide(engine, waiting, tombstones.ending(state, message))
    if tombstones.is_end(decided):
        carry_out(engine, waiting, decided)
    return tombstones.is_end(decided)


def carry_out(engine: Engine, waiting: Container, decided: str) -> None:
    """Record the decided end, then remove the container, so that the outcome is always found."""
    state, message = tombstones.outcome(decided)
    record_unstarted(engine, waiting, state, message)  # type: ignore[arg-type]  # written by `end`
    engine.remove(waiting.id)
    tombstones.forget(engine, waiting)


def record_unstarted(engine: Engine, waiting: Container, state: AttemptState, message: str) -> None:
    """Record how a waiting attempt has ended."""
    view = DockerAppView(state=state, message=message, ended_at=time.time(), final=True)
    write_end(engine, record.folder(waiting.labels[APP_ID]), view, [waiting])


# -- input files -------------------------------------------------------------------------------------------


def changed_inputs(
    app_dir: str, labels: Mapping[str, str], *, since: float | None = None, is_late: bool = False
) -> str:
    """The input files that have changed since the plan, as text; "" for none.

    A cancellation ends a comparison that takes long.

    Args:
        since: when the app started, by the clock of its engine; None where it has yet to start.
        is_late: the app ended while no watcher followed it, so that files may have been restored since.
    """
    if not labels.get(INPUTS):
        return ""
    recorded = (record.read_attempt(app_dir) or {}).get("inputs")
    if not recorded:
        return _UNKNOWN
    from launcher.workspace.inputs import changed_since  # most apps have none, and watchers stay small

    digest, directory, root, globs = recorded
    ref, found = InputRef(digest, directory, root, tuple(globs)), SimpleQueue[str]()
    if since is not None or is_late:  # the clock of a remote engine may be behind
        created_at = Labels(labels).created_at
        since = created_at if is_late else max(since or 0.0, created_at)
    compare = partial(changed_since, ref, UNDER, since=since, is_late=is_late)
    Thread(target=lambda: found.put(compare()), daemon=True).start()
    while True:
        try:
            return found.get(timeout=_LOOK_S)
        except Empty:
            journal = record.journal(app_dir)
            if journal is not None and journal.app.cancel is not None:
                return INPUTS_CUT_SHORT


# -- removal -----------------------------------------------------------------------------------------------


def remove_app(engine: Engine, app_id: str, *, force: bool) -> bool:
    """Remove all of an app: containers, volumes, its record. False when a container of it runs.

    Args:
        force: also remove containers that were started meanwhile.
    """
    if not remove_objects(engine, app_id, force=force):
        return False
    record.remove(record.folder(app_id))
    return True


def remove_objects(engine: Engine, app_id: str, *, force: bool) -> bool:
    """As `remove_app`, but the record stays. The reservation is removed last: until then no client recreates
    the app, or takes it for a waiting one.

    Objects that a client with another state folder has made under the same id stay, and a volume that another
    program's container uses.
    """
    owner = record.recorded_labels(record.folder(app_id)).get(OWNER)

    def is_own(labels: Mapping[str, str]) -> bool:
        return owner is None or labels.get(OWNER) == owner

    def remove(kind: Callable[[Container], bool]) -> None:
        run_parallel(lambda each: engine.remove(each.id, force=force), filter(kind, found))

    deadline = time.monotonic() + _IN_USE_S
    try:
        while True:
            found = [each for each in list_containers(engine, app_id) if is_own(each.labels)]
            if not force and any(each.was_started for each in found if is_replica(each)):
                return False
            remove(is_replica)
            volumes = [each.name for each in engine.volumes(f"{APP_ID}={app_id}") if is_own(each.labels)]
            in_use = [each for each in volumes if not _is_removed(engine, each)]
            if not in_use or time.monotonic() > deadline:
                break
            time.sleep(_LOOK_S)
        remove(is_waiting)
        remove(is_reservation)
    except Conflict:  # another process has just started a container
        return False
    return True


def _is_removed(engine: Engine, volume: str) -> bool:
    """Remove a volume. False while a container uses it: one that the engine is still creating for a client
    that was killed, or one of another program."""
    try:
        engine.remove_volume(volume)
    except Conflict:
        return False
    return True
