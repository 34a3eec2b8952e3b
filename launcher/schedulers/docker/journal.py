"""The journal of a Docker app: the acts and findings of its holders, a line for each event. Pure.

The first line declares the app, as `launcher.holding.events.created` makes it; journals of version 0.1, and
of apps whose record was lost, have no such line. The kinds are those of `launcher.holding`. An event of one
run of a replica has its container, and the start of the run by the engine's clock: `{"e": "spawn",
"role": "r", "k": 0, "id": ID, "start": START}`. Docker adds these kinds::

    {"e": "halt", "of": {ID: START}}        these runs are being stopped; START may be null: the last run
    {"e": "spared", "of": [ID…]}            containers of a `halt` that had ended by themselves before
    {"e": "hand", "id": ID, "start": START} another program stopped this run of the container
    {"e": "kill", "id": ID, "at": T}        another program, or the engine as it stops, signals it
    {"e": "reaped"}                         the ledger has the outcome
    {"e": "logs-removed"}                   `gc --logs` removes the containers; the record stays without them

and fields: `by: engine` of a `restart` that the engine made, with the `use` of the run before it; `removed`
of the `exit` of a replica whose container is gone; `drift` of `ended`. Only watchers know the `use` of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from launcher.dataclass import dataclass
from launcher.holding import journal as lines
from launcher.holding.app import App
from launcher.holding.replica import ENDED
from launcher.schedulers.docker.old_journal import OldJournal, is_old
from launcher.specs.attempt import AttemptState

Event = dict[str, Any]

_OF_RUNS = frozenset(("starting", "started", "spawn", "ready", "late", "exit", "ended"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOutcome:
    """The recorded end of an attempt, from its journal or from the engine."""

    state: AttemptState
    message: str = ""
    code: int | None = None
    drift: str = ""
    inputs_changed: str = ""
    at: float | None = None


class Journal:
    """The events of a journal, in order, not yet judged."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events = list(events)

    def fold(self) -> HeldApp:
        """The app after all events. Damaged events are left out."""
        app = HeldApp()
        for event in self.events:
            try:
                app.take(event)
            except (ValueError, KeyError, TypeError, AttributeError, IndexError):
                continue
        return app

    @cached_property
    def app(self) -> HeldApp:
        """The app as the journal alone shows it. It must take no further event."""
        return self.fold()

    @property
    def is_declared(self) -> bool:
        """Whether it begins with the declaration of the app."""
        return bool(self.events) and self.events[0]["e"] == "created"

    @property
    def started_at(self) -> float | None:
        return self.app.started_at

    @cached_property
    def outcome(self) -> RecordedOutcome | None:
        """The first recorded end; None where there is none."""
        ends = (each for each in self.events if each["e"] == "ended" and "state" in each)
        return next(map(_outcome, ends), None)

    @property
    def end_recorded(self) -> bool:
        """Whether the ledger has the outcome."""
        return self._has("reaped")

    @property
    def logs_removed(self) -> bool:
        """Whether `gc --logs` has removed the containers, and the record is to stay without them."""
        return self._has("logs-removed")

    @property
    def adopted(self) -> bool:
        """Whether an earlier record was lost: this one lacks the restarts before."""
        return self._has("adopted")

    @property
    def held(self) -> tuple[AttemptState, str] | None:
        """State and message of an attempt that its watcher holds before its start; None for any other one."""
        app = self.app
        return (app.state, app.message) if app.state in ("waiting", "queued") else None

    @property
    def is_before_start(self) -> bool:
        """Whether it has no event of a start, a run or an end."""
        return not any(event["e"] in _OF_RUNS for event in self.events)

    def _has(self, kind: str) -> bool:
        return any(event["e"] == kind for event in self.events)


class HeldApp(App):
    """An app at an engine: the state machine, and the facts that it ignores.

    Attributes:
        outcome: the outcome of the first `ended`; None while there is none.
        stop_requested: ids of all containers that launcher ever asked to stop.
        killed: id → when another program last signalled the container, epoch seconds of the engine.
        of_engine: (role, replica) → how often the engine has restarted it.
        removed: the replicas that have ended because their containers were removed.
        nameless_ends: the replicas whose last end names no container, as version 0.1 recorded it: only their
            containers show whether they were stopped.
        num_missing: how many replicas have neither a container nor an end on record.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state: AttemptState
        self.outcome: RecordedOutcome | None = None
        self.stop_requested: set[str] = set()
        self.killed: dict[str, float] = {}
        self.of_engine: dict[tuple[str, int], int] = {}
        self.removed: set[tuple[str, int]] = set()
        self.nameless_ends: set[tuple[str, int]] = set()
        self.num_missing = 0
        self._halted: dict[str, float | None] = {}
        self._contested: set[str] = set()  # ids in several stop requests: any of these may have ended them
        self._hands: dict[str, float | None] = {}

    def take(self, event: Event) -> None:
        """Take the next event. Only the first `starting` and the first `ended` count."""
        late = (event.get("e") == "starting" and self.started_at) or (
            event.get("e") == "ended" and self.outcome
        )
        if not late:
            super().take(event)

    def is_halted(self, container: str, start: float | None) -> bool:
        """Whether launcher stopped this run of the container; its last run if `start` is None.

        The start that the engine reports of one run may move back a little when the run ends.
        """
        if container not in self._halted:
            return False
        halted = self._halted[container]
        return halted is None or start is None or start <= halted

    def waits(self, role: str, k: int, container: str, start: float | None) -> bool:
        """Whether a restart is to start this replica after this run, and no later stop forbids it."""
        found = self.roles[role].replicas[k : k + 1] if role in self.roles else []
        is_due = any(each.restarts and each.state != ENDED for each in found)
        is_last = all(start is None or each.run[1] is None or start <= each.run[1] for each in found)
        return is_due and is_last and self._halted.get(container, 0.0) is not None

    def was_stopped_by_hand(self, container: str, start: float | None) -> bool:
        """Whether another program stopped this run of the container."""
        run = self._hands.get(container)
        return container in self._hands and (run is None or start in (None, run))

    def was_killed(self, container: str, start: float | None) -> bool:
        """Whether another program signalled the last run of the container, which began at `start`."""
        return container in self.killed and self.killed[container] >= (start or 0.0)

    def _on_exit(self, event: Event, at: float) -> None:
        super()._on_exit(event, at)
        where = event["role"], event["k"]
        (self.removed.add if event.get("removed") else self.removed.discard)(where)
        (self.nameless_ends.discard if event.get("id") else self.nameless_ends.add)(where)

    def _on_restart(self, event: Event, at: float) -> None:
        super()._on_restart(event, at)
        if event.get("by") == "engine":
            where = event["role"], event["k"]
            self.of_engine[where] = self.of_engine.get(where, 0) + 1
            if event.get("use"):
                self.replica(event).count_use(event["use"], at)

    def _on_ended(self, event: Event, at: float) -> None:
        super()._on_ended(event, at)
        self.outcome = _outcome(event)

    def _on_halt(self, event: Event, at: float) -> None:
        for container, start in event["of"].items():
            if container in self._halted and start in (None, self._halted[container]):
                self._contested.add(container)
            self._halted[container] = start
        self.stop_requested.update(event["of"])

    def _on_spared(self, event: Event, at: float) -> None:
        for container in set(event["of"]) - self._contested:
            self._halted.pop(container, None)

    def _on_hand(self, event: Event, at: float) -> None:
        self._hands[event["id"]] = event.get("start")

    def _on_kill(self, event: Event, at: float) -> None:
        self.killed[event["id"]] = float(event["at"])


def _outcome(event: Event) -> RecordedOutcome:
    return RecordedOutcome(
        state=event["state"],
        message=event.get("message", ""),
        code=event.get("code"),
        drift=event.get("drift", ""),
        inputs_changed=event.get("inputs", ""),
        at=event.get("t", 0) / 1e9 or None,
    )


def fold(data: bytes) -> Journal:
    """The journal of these lines. Torn lines are skipped."""
    return Journal(translated(lines.read_events(data), OldJournal()))


def translated(events: list[Event], old: OldJournal) -> list[Event]:
    """The events, with events of version 0.1 translated; `old` knows the earlier events."""
    if not any(map(is_old, events)):
        return events
    found: list[Event] = []
    for event in events:
        try:
            found += old.events(event) if is_old(event) else [event]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found
