"""Fold the events of an app into spans of time: its phases, and the runs of its replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.dataclass import dataclass, replace
from launcher.holding.replica import PENDING, Replica
from launcher.holding.state import AppState
from launcher.state.records import AppRecord

_PHASES = {"waiting": "needs", "queued": "line", "running": "run"}
"""State of an app → kind of its span; the span before the first state is `before`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of an app, or of a replica.

    Attributes:
        kind: before (its submission), needs (waits for other jobs), line (waits for its share), run, stop, or
            for replicas also order (waits for other roles), pause (before a restart).
        start, end: epoch seconds; `end` is None for a span that has not ended.
        state: state of a run that has ended: succeeded, failed, cancelled or lost.
        text: further facts, such as how a run ended.
    """

    kind: str
    start: float
    end: float | None
    state: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """`phases` of an app, and role and number of each replica → its spans; {} where no events are known."""

    phases: tuple[Phase, ...]
    replicas: Mapping[tuple[str, int], tuple[Phase, ...]]


def of_record(app: AppRecord) -> Timeline:
    """Return the phases that a record tells: before its start, and from the start to the end."""
    if app.created_at is None:
        return Timeline(phases=(), replicas={})
    if app.is_held:
        held = Phase(kind=_PHASES[app.state], start=app.created_at, end=None, text=app.message)
        return Timeline(phases=(held,), replicas={})
    start = app.started_at or (app.created_at if app.is_live else app.ended_at or app.created_at)
    before = Phase(kind="needs" if app.state == "skipped" else "before", start=app.created_at, end=start)
    state = "" if app.is_live else app.state
    run = Phase(kind="run", start=start, end=app.ended_at, state=state, text=app.message)
    return Timeline(phases=(before, run) if app.started_at or app.is_live else (before,), replicas={})


def of_events(events: Iterable[Mapping[str, Any]], app: AppRecord) -> Timeline:
    """Return the spans from an app's events, up to the end of its record; `of_record` without events.

    Events of a later version, and torn ones, are left out.
    """
    fold = _Fold(app)
    for event in events:
        try:
            fold.take(dict(event))
        except (LookupError, TypeError, ValueError, AttributeError):
            continue
    return fold.timeline() if fold.phases else of_record(app)


class _Fold:
    """The spans so far. The latest span of each replica and phase may be open: its end is None."""

    def __init__(self, app: AppRecord) -> None:
        self._record = app
        self._app = AppState()
        self._submitted = app.created_at
        self.phases: list[Phase] = []
        self._runs: dict[tuple[str, int], list[Phase]] = {}

    def take(self, event: dict[str, Any]) -> None:
        at = event["t"] / 1e9
        self._app.take(event)
        if event["e"] in ("spawn", "exit") and "role" in event:
            self._replica(self._app.replica(event), event["e"], at)
        elif event["e"] == "restart":
            self._pause(event, at)
        elif event["e"] == "stopping":
            for replica in self._app.to_stop:
                self._begin(replica, Phase(kind="stop", start=at, end=None, text=self._app.stop_reason))
        elif event["e"] in ("starting", "started"):
            for replica in self._app.replicas:
                if replica.state == PENDING and replica.role.depends_on:
                    text = self._app.shown(replica)[1]
                    self._begin(replica, Phase(kind="order", start=at, end=None, text=text))
        is_stop = self._app.stop is not None and not self._app.has_ended
        kind = "stop" if is_stop else _PHASES.get(self._app.state, "before")
        if self._app.has_ended:
            self._close(self.phases, at)
        elif not self.phases or self.phases[-1].kind != kind:
            if not self.phases:
                at = min(at, self._submitted or at)
            self._close(self.phases, at)
            self.phases.append(Phase(kind=kind, start=at, end=None, text=self._app.message))

    def _replica(self, replica: Replica, what: str, at: float) -> None:
        if what == "spawn":
            text = f"restart {replica.restarts}" if replica.restarts else ""
            self._begin(replica, Phase(kind="run", start=at, end=None, text=text))
            return
        state, message = replica.shown_end
        text = replica.cause if state == "failed" else message
        self._close(self._spans(replica), at, state, text)

    def _pause(self, event: Mapping[str, Any], at: float) -> None:
        """Show the time until the next run as a pause of all replicas that this event restarts."""
        by = self._app.replica(dict(event))
        of_scope = {"app": self._app.replicas, "role": by.role.replicas}.get(event["scope"], [by])
        for replica in of_scope:
            self._begin(replica, Phase(kind="pause", start=at, end=None, text=f"before restart {event['n']}"))

    def _spans(self, replica: Replica) -> list[Phase]:
        return self._runs.setdefault((replica.role.name, replica.k), [])

    def _begin(self, replica: Replica, span: Phase) -> None:
        spans = self._spans(replica)
        self._close(spans, span.start)
        spans.append(span)

    @staticmethod
    def _close(spans: list[Phase], at: float, state: str = "", text: str = "") -> None:
        if spans and spans[-1].end is None:
            last = spans.pop()
            words = ", ".join(filter(None, (last.text, text)))
            spans.append(replace(last, end=at, state=state, text=words))

    def timeline(self) -> Timeline:
        """Return all spans; open spans end with the app, if it has ended."""
        record = self._record
        if not record.is_live:
            end = record.ended_at or self._app.last_at
            for spans in (self.phases, *self._runs.values()):
                self._close(spans, end, "" if spans is self.phases else "lost")
            at = max((n for n, each in enumerate(self.phases) if each.kind == "run"), default=-1)
            last = self.phases[at]
            self.phases[at] = replace(last, state=record.state, text=record.message)
        return Timeline(phases=tuple(self.phases), replicas={k: tuple(v) for k, v in self._runs.items()})
