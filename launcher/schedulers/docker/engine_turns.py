"""The turns of apps whose watcher is on the engine, for clients: read their tables, start apps in line.

The tables lie in a volume that all watchers of an engine have. So any running watcher answers for all of
them; where none runs, no such app is in line.
"""

from __future__ import annotations

from collections.abc import Collection

from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.labels import PART, WATCHER_PART
from launcher.schedulers.docker.watching.container import tell
from launcher.turns.engine_tables import EngineTables, reported


def read(engine: Engine) -> EngineTables | None:
    """The tables of an engine; None where no watcher runs there."""
    for name in _running(engine):
        answer = tell(engine, name, {"op": "turns"})
        if answer is not None and "tables" in answer:
            return reported(engine.host, answer)
    return None


def start_now(engine: Engine, app_ids: Collection[str]) -> set[str]:
    """Make apps in line take their shares at once; returns those that were in line."""
    for name in _running(engine):
        answer = tell(engine, name, {"op": "now", "apps": sorted(app_ids)})
        if answer is not None and "started" in answer:
            return set(answer["started"])
    return set()


def _running(engine: Engine) -> list[str]:
    return [each.name for each in engine.containers(f"{PART}={WATCHER_PART}") if each.live]
