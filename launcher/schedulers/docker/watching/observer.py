"""Observe an app for its watcher: the current state of its containers, and which of them have ended."""

from __future__ import annotations

from dataclasses import asdict

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.records import record
from launcher.schedulers.docker.records.journal import Journal, RecordedExit
from launcher.schedulers.docker.state.app_containers import list_containers
from launcher.schedulers.docker.state.replicas import expected_replicas, is_reservation, where
from launcher.schedulers.docker.state.restarts import not_restarted
from launcher.schedulers.docker.watching.event_queue import EventQueue


class AppObserver:
    """The containers of one app: those with an event since the last inspect are inspected again."""

    def __init__(self, engine: Engine, app_dir: str, app_id: str, events: EventQueue) -> None:
        self.expected_replicas: list[tuple[str, int]] = []
        self._engine = engine
        self._app_dir = app_dir
        self._app_id = app_id
        self._events = events
        self._inspected: dict[str, Container] = {}

    def invalidate(self) -> None:
        """Inspect every container again next time."""
        self._inspected.clear()

    def containers(self) -> list[Container]:
        """The containers of replicas, each inspected."""
        listed = [each for each in list_containers(self._engine, self._app_id) if not is_reservation(each)]
        if listed and not self.expected_replicas:
            self.expected_replicas = expected_replicas(Labels(listed[0].labels))
        while self._events.changed:
            self._inspected.pop(self._events.changed.pop(), None)
        # The list lags behind the events of a moment ago, inspect does not.
        ask = [each.id for each in listed if each.id not in self._inspected]
        self._inspected.update((each.id, each) for each in self._engine.inspect_all(ask))
        return [self._inspected.get(each.id, each) for each in listed]

    def record_exits(self, found: list[Container], journal: Journal) -> bool:
        """Write to the journal which containers ended and why, in case they are removed before the app ends.

        True when the journal has grown.
        """
        grown = [self._record_exit(each, journal) for each in found if _has_ended(each, journal)]
        return any(grown)

    def _record_exit(self, ended: Container, journal: Journal) -> bool:
        grown, events = False, self._events
        if ended.id not in journal.stop_requested:
            events.wait_for_cause(ended)
        is_external = ended.id in events.stopped_externally
        if is_external and not journal.was_stopped_externally(ended.id, ended.started_at):
            grown = record.append(self._app_dir, "hand", id=ended.id, started_at=ended.started_at)
        events.stopped_externally.discard(ended.id)
        role, k = where(ended)
        seen = exit_of(ended, oom=ended.oom or ended.id in events.oom)
        if journal.exits.get((role, k)) != seen:
            grown = record.append(self._app_dir, "exit", role=role, k=k, **asdict(seen)) or grown
        return grown


def _has_ended(container: Container, journal: Journal) -> bool:
    return container.ended and container.inspected and not not_restarted(container, journal)


def exit_of(container: Container, *, oom: bool) -> RecordedExit:
    return RecordedExit(
        code=container.exit_code or 0,
        oom=oom,
        started_at=container.started_at,
        ended_at=container.ended_at,
        restarts=container.restarts,
    )
