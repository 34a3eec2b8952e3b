"""The turns of apps whose watcher is on the engine, for clients: read their tables, start apps in line.

The tables lie in a volume that all watchers of an engine have. So any running watcher answers for all of
them; where none runs, no such app is in line.
"""

from __future__ import annotations

from collections.abc import Collection

from launcher.errors import SchedulerError
from launcher.schedulers.docker.client.engine import Engine, writable
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import PART, WATCHER_PART
from launcher.schedulers.docker.watching.container import tell
from launcher.schedulers.staged import EngineTurns
from launcher.turns.engine_tables import EngineTables, reported
from launcher.turns.machine import Machine


class DockerTurns(EngineTurns):
    """The turns of apps whose watcher is on the engine.

    Args:
        view: the engine.
    """

    def __init__(self, view: EngineView) -> None:
        self._view = view

    def machine(self) -> Machine | None:
        try:
            return Machine(*self._view.size())
        except SchedulerError:  # no engine, as the first request to it says
            return None

    def tables(self) -> EngineTables | None:
        engine = writable(self._view)
        for name in _running(engine):
            answer = tell(engine, name, {"op": "turns"})
            if answer is not None and "tables" in answer:
                return reported(engine.host, answer)
        return None

    def start_now(self, app_ids: Collection[str]) -> set[str]:
        engine = writable(self._view)
        for name in _running(engine):
            answer = tell(engine, name, {"op": "now", "apps": sorted(app_ids)})
            if answer is not None and "started" in answer:
                return set(answer["started"])
        return set()


def _running(engine: Engine) -> list[str]:
    return [each.name for each in engine.containers(f"{PART}={WATCHER_PART}") if each.live]
