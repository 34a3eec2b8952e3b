"""The turns of apps whose watcher is on the engine, for clients.

The tables are in a volume that all watchers of an engine have. So any running watcher answers for all of
them; where none runs, no such app is in line.
"""

from __future__ import annotations

from launcher.errors import SchedulerError
from launcher.schedulers.docker import has_no_socket
from launcher.schedulers.staged import EngineTurns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from launcher.schedulers.docker.client.view import EngineView
    from launcher.turns.machine import EngineTables, Machine


class DockerTurns(EngineTurns):
    """The turns at one engine. `view` connects to it, which loads the client of its API."""

    def __init__(self, view: Callable[[], EngineView]) -> None:
        self._view = view

    def machine(self) -> Machine | None:
        from launcher.turns.machine import Machine

        try:
            size = self._view().size()
        except SchedulerError:  # no engine, as the first request to it says
            return None
        return None if size is None else Machine(*size)

    def tables(self) -> EngineTables | None:
        if has_no_socket():  # no process there holds apps
            return None
        answer = self._answer("tables", {"op": "turns"})
        if answer is None:
            return None
        from launcher.turns.machine import tables_of_report

        return tables_of_report(self._view().host, answer)

    def start_now(self, app_ids: Collection[str]) -> set[str]:
        answer = self._answer("started", {"op": "now", "apps": sorted(app_ids)})
        return set() if answer is None else set(answer["started"])

    def _answer(self, wanted: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The first answer of a running watcher that has the field `wanted`; None without one."""
        from launcher.schedulers.docker.client.engine import writable
        from launcher.schedulers.docker.labels import PART, WATCHER_PART

        engine = writable(self._view())
        for each in engine.containers(f"{PART}={WATCHER_PART}"):
            if each.live:
                from launcher.schedulers.docker.watching.container import tell

                answer = tell(engine, each.name, message)
                if answer is not None and wanted in answer:
                    return answer
        return None
