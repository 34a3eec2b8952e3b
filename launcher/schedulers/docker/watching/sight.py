"""What a watcher sees of its app: the containers as they are, and the ends that are to be written down."""

from __future__ import annotations

from dataclasses import asdict

from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.records import record
from launcher.schedulers.docker.records.journal import Exit, Journal
from launcher.schedulers.docker.state.replicas import is_reservation, roster, where
from launcher.schedulers.docker.state.restarts import not_restarted
from launcher.schedulers.docker.watching import stop
from launcher.schedulers.docker.watching.news import News


class Sight:
    """The containers of one app; of each that nothing has happened to, what was seen before."""

    def __init__(self, engine: Engine, app_dir: str, app_id: str, news: News) -> None:
        self.roster: list[tuple[str, int]] = []
        self._engine = engine
        self._app_dir = app_dir
        self._app_id = app_id
        self._news = news
        self._known: dict[str, Container] = {}

    def forget(self) -> None:
        """Look at all of them anew."""
        self._known.clear()

    def look(self) -> list[Container]:
        """The containers of replicas, each inspected."""
        listed = [each for each in stop.own(self._engine, self._app_id) if not is_reservation(each)]
        if listed and not self.roster:
            self.roster = roster(Labels(listed[0].labels))
        while self._news.changed:
            self._known.pop(self._news.changed.pop(), None)
        # The list lags behind the events of a moment ago, inspect does not.
        ask = [each.id for each in listed if each.id not in self._known]
        self._known.update((each.id, each) for each in self._engine.inspect_all(ask))
        return [self._known.get(each.id, each) for each in listed]

    def note(self, found: list[Container], told: Journal) -> bool:
        """Write down what ended, in case it is removed before the rest has, and whose doing that was.

        True when the journal has grown.
        """
        grown = [self._note_end(each, told) for each in found if _has_ended(each, told)]
        return any(grown)

    def _note_end(self, ended: Container, told: Journal) -> bool:
        grown, news = False, self._news
        if ended.id not in told.told:
            news.hear_out(ended)
        if ended.id in news.by_hand and not told.stopped_by_hand(ended.id, ended.started_at):
            grown = record.append(self._app_dir, "hand", id=ended.id, started_at=ended.started_at)
        news.by_hand.discard(ended.id)
        role, k = where(ended)
        seen = exit_of(ended, oom=ended.oom or ended.id in news.oom)
        if told.exits.get((role, k)) != seen:
            grown = record.append(self._app_dir, "exit", role=role, k=k, **asdict(seen)) or grown
        return grown


def _has_ended(container: Container, told: Journal) -> bool:
    return container.ended and container.inspected and not not_restarted(container, told)


def exit_of(container: Container, *, oom: bool) -> Exit:
    return Exit(
        code=container.exit_code or 0,
        oom=oom,
        started_at=container.started_at,
        ended_at=container.ended_at,
        restarts=container.restarts,
    )
