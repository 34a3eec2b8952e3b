"""Stop an app, from any process: record the intent, stop the containers, mark their names with the reason.

Any number of clients and the watcher may do this at once: each step starts from the current state, and
repeating one changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.actor import actor
from launcher.holding.events import stopping
from launcher.holding.phrases import cancelled
from launcher.schedulers.docker import apps, record
from launcher.schedulers.docker.apps import inspect_app
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import Conflict, EngineError, EngineUnreachable, NotFound
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import run_parallel
from launcher.schedulers.docker.facts import unended
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.replicas import MARKS, STOPPED, mark_of, own_name
from launcher.schedulers.docker.status import DockerAppView, has_retries
from launcher.schedulers.docker.watching.client import wait_for_exit
from launcher.schedulers.docker.watching.ends import give_up, record_end, remove_app
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
    request = {"by": actor(), "interrupt": interrupt, "grace_s": grace_s}
    intended = False
    for _ in range(_ROUNDS):
        seen, found = inspect_app(engine, app_id)
        if seen is None or (seen.final and not seen.live):
            if seen is None or not found or not _cancel_paused(engine, seen, Labels(found[0].labels)):
                break
            continue
        if seen.state in WAITING_STATES:
            if not give_up(engine, app_id, "cancelled", cancelled(request)):
                wait_for_exit(app_dir, _LATE_S)  # it is being started, or its watcher records its end
            continue
        if not seen.started:
            remove_app(engine, app_id, force=False)
            continue
        if not intended:
            record.append(app_dir, "cancel", **request)
            intended = True
        if seen.live or not seen.ended:
            grace = Labels(found[0].labels).grace_s if grace_s is None else grace_s
            why = _decide(app_dir, request, is_done=seen.done)
            journal = record.journal(app_dir) or Journal()
            stop(engine, app_dir, unended(journal, found), why, grace)
        if wait_for_exit(app_dir, _MARGIN_S) and not seen.live:
            record_end(engine, app_id)
            break
    wait_for_exit(app_dir, _MARGIN_S)


def _decide(app_dir: str, request: Mapping[str, Any], *, is_done: bool) -> str:
    """Record the stop that follows from a cancellation, unless one is on record; returns its reason."""
    journal = record.journal(app_dir)
    if journal is not None and journal.stop is not None:
        return str(journal.stop["why"])
    if is_done:  # its work was done before: only its services are left
        decision = stopping("end", "succeeded", "", code=0)
    else:
        decision = stopping(
            "cancel", "cancelled", cancelled(request), by=request["by"], grace_s=request["grace_s"]
        )
    record.append(app_dir, **decision)
    return str(decision["why"])


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


def stop(engine: Engine, app_dir: str, containers: Sequence[Container], why: str, grace_s: float) -> None:
    """Stop these containers for good, and mark their names with the reason.

    A container that ends by itself before it can be stopped gets no mark: its own exit counts.
    """
    spared = halt(engine, app_dir, [each for each in containers if each.was_started], grace_s)
    mark, stopped = MARKS.get(why, STOPPED), [each for each in containers if each.id not in spared]
    run_parallel(lambda each: _mark(engine, each, mark), stopped)


def halt(engine: Engine, app_dir: str, containers: Sequence[Container], grace_s: float) -> set[str]:
    """Stop containers that were started; returns the ids of those that had ended by themselves, or are gone.

    The record has the request first, so that the end of a container counts as launcher's doing.
    """
    if not containers:
        return set()
    is_recorded = record.exists(app_dir)
    if is_recorded:
        runs = {each.id: each.started_at if each.live else None for each in containers}
        record.append(app_dir, "halt", of=runs)
    stopped = run_parallel(lambda each: stop_one(engine, each.id, grace_s), containers)
    spared = {each.id for each, by_us in zip(containers, stopped, strict=True) if each.live and not by_us}
    if is_recorded and spared:
        record.append(app_dir, "spared", of=sorted(spared))
    return spared


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
