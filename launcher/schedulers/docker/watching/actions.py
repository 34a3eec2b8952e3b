"""Stop the containers of an app, for any client that cancels the app; stop and start them, for its watcher.

Any number of clients and the watcher may stop an app at once: each step starts from the current state, and
repeating a step changes nothing. The steps: record the intent, stop the containers, mark their names with the
reason.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from launcher.holding.events import cancelled, stopping
from launcher.paths import actor
from launcher.schedulers.docker import apps, record
from launcher.schedulers.docker.apps import inspect_app
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import (
    Conflict,
    ConnectionBroke,
    EngineError,
    EngineRefused,
    NotFound,
    is_half_started,
    may_pass,
)
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import run_parallel
from launcher.schedulers.docker.facts import ENGINE_STOPPED, restarted_since, unended
from launcher.schedulers.docker.journal import HeldApp, Journal
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.names import MARKS, NETWORK, NETWORK_LABELS, STOPPED, mark_of, own_name, where
from launcher.schedulers.docker.record import Recorder
from launcher.schedulers.docker.status import DockerAppView, has_retries
from launcher.schedulers.docker.watching.client import wait_for_exit
from launcher.schedulers.docker.watching.ends import give_up, record_end, remove_app
from launcher.specs.attempt import WAITING_STATES

NEVER_BEGAN = "it never began to run"
_ROUNDS = 20  # a watcher in the middle of a restart reads the intent after its next start
_MARGIN_S = 30.0
_LATE_S = 0.5

# -- any client --------------------------------------------------------------------------------------------


def cancel(engine: Engine, app_id: str, grace_s: float | None = None, *, interrupt: bool = False) -> None:
    """Stop the app; returns when none of its containers runs and its watcher has gone.

    An app that has ended keeps its end; containers that a user has started since stop. An unstarted one goes.

    Args:
        interrupt: the caller was attached to the app; it is recorded as interrupted.
    """
    request = {"by": actor(), "interrupt": interrupt, "grace_s": grace_s}
    intended = False
    for _ in range(_ROUNDS):
        seen, found = inspect_app(engine, app_id)
        app_dir = _folder_of_watcher(app_id, found)
        if seen is None or (seen.final and not seen.live):
            if seen is None or not found or not _cancel_paused(engine, seen, Labels(found[0].labels)):
                break
            continue
        if seen.final:
            halt(engine, app_dir, [each for each in found if each.live], grace_s)
            break
        if seen.state in WAITING_STATES:
            if not give_up(engine, app_id, "cancelled", cancelled(request)):
                # The app is being started, which may take many tries, or its watcher records its end.
                intended = intended or record.append(app_dir, "cancel", **request)
                wait_for_exit(app_dir, _LATE_S)
            continue
        if not seen.started:
            remove_app(engine, app_id, force=False)
            continue
        if not intended:
            record.append(app_dir, "cancel", **request)
            _tell_watcher_on_engine(engine, app_id, found, request)
            intended = True
        if seen.live or not seen.ended:
            why = _decide(app_dir, request, is_done=seen.done)
            stop(engine, app_dir, unended((record.journal(app_dir) or Journal()).app, found), why, grace_s)
        if wait_for_exit(app_dir, _MARGIN_S) and not seen.live:
            record_end(engine, app_id)
            break
    wait_for_exit(app_dir, _MARGIN_S)


def _tell_watcher_on_engine(
    engine: Engine, app_id: str, containers: Sequence[Container], request: Mapping[str, Any]
) -> None:
    if containers and (watcher := Labels(containers[0].labels).watcher):
        from launcher.schedulers.docker.watching.container import tell

        tell(engine, watcher, {"op": "cancel", "app_id": app_id, "request": request})


def _folder_of_watcher(app_id: str, containers: Sequence[Container]) -> str:
    """The folder of the app's record: in another state folder of this machine while a watcher holds it there.

    A watcher attributes every stop that is not in its own record to another program.
    """
    own = record.folder(app_id)
    if not containers or record.exists(own):
        return own
    there = record.locked_elsewhere(app_id, Labels(containers[0].labels).owner)
    return there if there and os.access(record.journal_path(there), os.W_OK) else own


def _decide(app_dir: str, request: Mapping[str, Any], *, is_done: bool) -> str:
    """Record the stop that follows from a cancellation, unless one is on record; returns its reason."""
    journal = record.journal(app_dir)
    if journal is not None and journal.app.stop is not None:
        return str(journal.app.stop["why"])
    by, grace_s = request["by"], request["grace_s"]
    if is_done:  # the work was done before: only services are left
        decision = stopping("end", "succeeded", "", code=0)
    else:
        decision = stopping("cancel", "cancelled", cancelled(request), by=by, grace_s=grace_s)
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
    _mark(engine, [each for each in app.containers if each.id in waiting], "cancel")
    if there := record.locked_elsewhere(app.app_id, app.paused_by):
        wait_for_exit(there, _MARGIN_S)
    return True


def stop(
    engine: Engine, app_dir: str, containers: Sequence[Container], why: str, grace_s: float | None = None
) -> None:
    """Stop these containers for good, and mark their names with the reason.

    A container that ends by itself before the stop gets no mark: its own exit counts.
    """
    spared = halt(engine, app_dir, [each for each in containers if each.was_started], grace_s)
    _mark(engine, [each for each in containers if each.id not in spared], why)


def halt(
    engine: Engine, app_dir: str, containers: Sequence[Container], grace_s: float | None = None
) -> set[str]:
    """Stop started containers; returns the ids of containers that had ended by themselves, or are gone.

    The request is recorded first, so that launcher counts as the cause of the end of a container.

    Args:
        grace_s: None for the app's own.
    """
    if not containers:
        return set()
    allowed_s = Labels(containers[0].labels).grace_s if grace_s is None else grace_s
    is_recorded = record.exists(app_dir)
    if is_recorded:
        runs = {each.id: each.started_at if each.live else None for each in containers}
        record.append(app_dir, "halt", of=runs)

    def stop_one(container: Container) -> bool:
        """Stop a container; False when it had ended, or is gone."""
        try:
            return engine.stop(container.id, allowed_s)
        except (NotFound, Conflict):  # Conflict: the container is being removed
            return False

    stopped = run_parallel(stop_one, containers)
    spared = {each.id for each, by_us in zip(containers, stopped, strict=True) if each.live and not by_us}
    if is_recorded and spared:
        record.append(app_dir, "spared", of=sorted(spared))
    return spared


def _mark(engine: Engine, containers: Sequence[Container], why: str) -> None:
    """Mark the names of containers. The first mark stays; a failed rename is no failure."""

    def mark_one(container: Container) -> None:
        if not mark_of(container):
            with suppress(EngineRefused):  # gone, or another process has marked it first
                engine.rename(container.id, own_name(container) + MARKS.get(why, STOPPED))

    run_parallel(mark_one, containers)


# -- the watcher -------------------------------------------------------------------------------------------


class Actions:
    """The requests of one watcher to the engine.

    Each method returns whether it has made a request: then the containers are to be read again. A request
    that the engine accepts without effect is not repeated.
    """

    def __init__(self, engine: Engine, app_dir: str, recorder: Recorder) -> None:
        self._engine = engine
        self._app_dir = app_dir
        self._recorder = recorder
        self._unanswered: dict[str, float | None] = {}  # as `_started`: starts that the engine did not answer
        self.forget()

    def forget(self) -> None:
        """Forget the requests made: the engine was away, or refused one, so each may be repeated once."""
        self._stopped: list[tuple[str, str, float | None]] = []
        self._started: dict[str, float | None] = {}

    def stop(self, app: HeldApp, containers: Sequence[Container]) -> bool:
        """Stop all of an ending app, or the replicas that start again or were not ready in time."""
        if app.stop is not None:
            todo = unended(app, containers)
        else:
            names = {(each.role.name, each.k) for each in app.to_stop if each.is_active}
            todo = [each for each in containers if each.live and where(each) in names]
        asked, self._stopped = self._stopped, [(each.id, each.state, each.started_at) for each in todo]
        if not todo or self._stopped == asked:
            return False
        if app.stop is not None:
            stop(self._engine, self._app_dir, todo, app.stop["why"], app.grace_s)
        else:
            halt(self._engine, self._app_dir, todo)
        return True

    def start(self, app: HeldApp, containers: Sequence[Container], engine_started_at: float | None) -> bool:
        """Start the due replicas. The record says which of them could not be started."""
        there = {where(each): each for each in containers}
        due = [(each.role.name, each.k) for each in app.take_to_start(len(app.to_start))]
        todo = [there[each] for each in due if each in there and there[each].state != "removing"]
        journal = record.journal(self._app_dir)  # a client may have asked for a stop since the app was read
        if not todo or (journal is not None and (journal.app.cancel or journal.app.stop) is not None):
            return False
        # A watcher of version 0.1 recorded a restart before it stopped the earlier runs.
        halt(self._engine, self._app_dir, [each for each in todo if each.live])
        start = partial(self._start_one, engine_started_at=engine_started_at)
        for container, why in zip(todo, run_parallel(start, todo), strict=True):
            if why:
                role, k = where(container)
                how = {"lost": why} if why == ENGINE_STOPPED else {"why": why}
                run = {"role": role, "k": k, "id": container.id, "start": container.started_at}
                self._recorder.append({"e": "exit", **run, "code": None, **how})
        return True

    def _start_one(self, container: Container, engine_started_at: float | None) -> str:
        """The reason why a container could not be started; "" when it was, or is gone."""
        is_unanswered = self._unanswered.get(container.id, -1.0) == container.started_at
        if is_unanswered and restarted_since(container, engine_started_at):
            return ENGINE_STOPPED  # it may have run, see `facts.py`
        if self._started.get(container.id, -1.0) == container.started_at:
            return NEVER_BEGAN
        order = {role: rules for role, _, rules in Labels(container.labels).order}
        if order and not container.was_started:
            now = self._engine.inspect(container.id)
            if now is not None and now.was_started:
                return ""  # another process has started it meanwhile: it must not run twice
            role, k = where(container)
            if container.network == "host" and not k:
                from launcher.schedulers.docker.watching.probes import taken_port

                if why := taken_port(self._engine, "host", order.get(role, {}).get("ready")):
                    return why
        try:
            self._engine.start_on(NETWORK, NETWORK_LABELS, container.id)
        except EngineError as error:
            if isinstance(error, NotFound) and self._engine.inspect(container.id) is None:
                return ""
            if isinstance(error, ConnectionBroke):
                self._unanswered[container.id] = container.started_at
            if may_pass(error):
                raise
            self._engine.answer_anew()  # a stopping engine refuses for reasons of its own
            return ENGINE_STOPPED if is_half_started(error) else error.cause
        self._started[container.id] = container.started_at
        return ""
