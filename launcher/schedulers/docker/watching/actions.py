"""Carry out for a watcher what the machine asks: stop containers, and start them."""

from __future__ import annotations

from collections.abc import Sequence

from launcher.schedulers.docker import network, record
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, NotFound, is_half_started, may_pass
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import run_parallel
from launcher.schedulers.docker.facts import unended
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.record import Recorder
from launcher.schedulers.docker.replicas import where
from launcher.schedulers.docker.unasked import ENGINE_STOPPED
from launcher.schedulers.docker.watching import stop

NEVER_BEGAN = "it never began to run"

Run = tuple[str, str, float | None]


class Actions:
    """The requests of one watcher to the engine.

    Each method returns whether it has asked the engine for something: then the containers are to be read
    again. A request that the engine accepts without effect is not repeated.
    """

    def __init__(self, engine: Engine, app_dir: str, recorder: Recorder) -> None:
        self._engine = engine
        self._app_dir = app_dir
        self._recorder = recorder
        self._stopped: list[Run] = []
        self._started: dict[str, float | None] = {}

    def forget(self) -> None:
        """The engine was away, or has refused something: each request may be repeated once."""
        self._stopped = []
        self._started.clear()

    def stop(self, app: Journal, containers: Sequence[Container]) -> bool:
        """Stop all of an app that is to end."""
        todo = unended(app, containers) if app.stop is not None else []
        if not self._is_new(todo):
            return False
        assert app.stop is not None
        grace_s = _grace(todo) if app.grace_s is None else app.grace_s
        stop.stop(self._engine, self._app_dir, todo, app.stop["why"], grace_s)
        return True

    def halt(self, app: Journal, containers: Sequence[Container]) -> bool:
        """Stop the replicas that a restart starts again, or that were not ready in time."""
        names = {(each.role.name, each.k) for each in app.to_stop if each.is_active}
        todo = [each for each in containers if each.live and where(each) in names]
        if app.stop is not None or not self._is_new(todo):
            return False
        stop.halt(self._engine, self._app_dir, todo, _grace(todo))
        return True

    def _is_new(self, todo: Sequence[Container]) -> bool:
        asked, self._stopped = self._stopped, [(each.id, each.state, each.started_at) for each in todo]
        return bool(todo) and self._stopped != asked

    def start(self, app: Journal, containers: Sequence[Container]) -> bool:
        """Start the replicas that are due. The record says of which this was not possible."""
        there = {where(each): each for each in containers}
        due = [(each.role.name, each.k) for each in app.take_to_start(len(app.to_start))]
        todo = [there[each] for each in due if each in there and there[each].state != "removing"]
        if not todo or self._is_cancelled():
            return False
        self._halt_last_runs(todo)
        for container, why in zip(todo, run_parallel(self._start_one, todo), strict=True):
            if why:
                role, k = where(container)
                how = {"lost": why} if why == ENGINE_STOPPED else {"why": why}
                run = {"role": role, "k": k, "id": container.id, "start": container.started_at}
                self._recorder.append({"e": "exit", **run, "code": None, **how})
        return True

    def _is_cancelled(self) -> bool:
        """Whether a client has asked for a stop since the app was read."""
        journal = record.journal(self._app_dir)
        return journal is not None and (journal.cancel is not None or journal.stop is not None)

    def _halt_last_runs(self, todo: Sequence[Container]) -> None:
        """Stop the runs before: a watcher of version 0.1 recorded a restart before it stopped them."""
        if live := [each for each in todo if each.live]:
            stop.halt(self._engine, self._app_dir, live, _grace(live))

    def _start_one(self, container: Container) -> str:
        """Why it could not be started; "" when it was, or is gone, as the next read will show."""
        if self._started.get(container.id, -1.0) == container.started_at:
            return NEVER_BEGAN
        if not container.was_started and self._was_started_since(container):
            return ""
        if why := self._taken_port(container):
            return why
        try:
            network.start(self._engine, container.id)
        except EngineError as error:
            if isinstance(error, NotFound) and self._engine.inspect(container.id) is None:
                return ""
            if may_pass(error):
                raise
            self._engine.answer_anew()  # one that stops refuses for reasons of its own
            return ENGINE_STOPPED if is_half_started(error) else error.cause
        self._started[container.id] = container.started_at
        return ""

    def _was_started_since(self, container: Container) -> bool:
        """Whether a role that waited was started by another process meanwhile: it must not run twice."""
        if not Labels(container.labels).order:
            return False
        now = self._engine.inspect(container.id)
        return now is not None and now.was_started

    def _taken_port(self, container: Container) -> str:
        """See `probes.taken_port`: of replica 0, before its first start."""
        role, k = where(container)
        if container.network != "host" or k or container.was_started:
            return ""
        from launcher.schedulers.docker.watching.probes import taken_port

        rules = {name: rules for name, _, rules in Labels(container.labels).order}
        return taken_port(self._engine, container.network, rules.get(role, {}).get("ready"))


def _grace(containers: Sequence[Container]) -> float:
    return Labels(containers[0].labels).grace_s
