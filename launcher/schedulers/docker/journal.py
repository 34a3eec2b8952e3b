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

and fields: `by: engine` of a `restart` that the engine made, and `by: hand` of one that a user made, with the
`use` of the run before it; `hand` of the `spawn` of a replica whose role waits; `removed` of the `exit` of a
replica whose container is gone; `drift` of `ended`. Only watchers know the `use` of a run.

Version 0.1 had other kinds, and times in seconds, where today's lines have integers, nanoseconds::

    {"e": "wait", "for": ["prepare"]}                   waiting
    {"e": "go"}                                         starting
    {"e": "stop", "why": "peer", "of": [ID…], …}        stopping, then halt
    {"e": "restart", "role": "r", "policy": "ROLE", "was": {ID: START}, "again": [["r", 0]]}
    {"e": "exit", "role": "r", "k": 0, "started_at": START, "ended_at": T, "restarts": 0, …}
    {"e": "hand", "id": ID, "started_at": START}        `hand` of the exit that follows
    {"e": "end", "state": "failed", "message": …, "code": 3, "drift": "", "at": T}

They had no line for a start: a `spawn` is put before the first line that names a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from launcher.holding import journal as lines
from launcher.holding.app import App
from launcher.holding.replica import ENDED, Replica, Role
from launcher.schedulers.logs import Where
from launcher.specs.attempt import AttemptState

Event = dict[str, Any]

_OF_RUNS = frozenset(("starting", "started", "spawn", "ready", "late", "exit", "ended"))


class Outcome(NamedTuple):
    """The recorded end of an attempt, from its journal or from the engine; see `DockerAppView`."""

    state: AttemptState
    message: str = ""
    exit_code: int | None = None
    drift: str = ""
    inputs_changed: str = ""
    ended_at: float | None = None

    def to_event(self) -> Event:
        """The event `ended`."""
        how = {"message": self.message, "code": self.exit_code, "drift": self.drift}
        at = round((self.ended_at or 0) * 1e9)
        return {"e": "ended", "state": self.state, **how, "inputs": self.inputs_changed, "t": at}


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
        """Whether the journal begins with the declaration of the app."""
        return bool(self.events) and self.events[0]["e"] == "created"

    @cached_property
    def outcome(self) -> Outcome | None:
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
        """Whether an earlier record was lost, so that this record lacks the restarts before."""
        return self._has("adopted")

    @property
    def held(self) -> tuple[AttemptState, str] | None:
        """State and message of an attempt that its watcher holds before its start; None for any other one."""
        app = self.app
        return (app.state, app.message) if app.state in ("waiting", "queued") else None

    @property
    def is_before_start(self) -> bool:
        """Whether the journal has no event of a start, a run or an end."""
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
        self.outcome: Outcome | None = None
        self.stop_requested: set[str] = set()
        self.killed: dict[str, float] = {}
        self.of_engine: dict[tuple[str, int], int] = {}
        self.removed: set[tuple[str, int]] = set()
        self.nameless_ends: set[tuple[str, int]] = set()
        self.num_missing = 0
        self._halted: dict[str, float | None] = {}
        self._contested: set[str] = set()  # ids in several stops: any may have ended them
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
        """Whether this replica is to be started again after this run, and no later stop forbids that."""
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


def _outcome(event: Event) -> Outcome:
    drift, inputs_changed = event.get("drift", ""), event.get("inputs", "")
    at = event.get("t", 0) / 1e9 or None
    return Outcome(event["state"], event.get("message", ""), event.get("code"), drift, inputs_changed, at)


def fold(data: bytes) -> Journal:
    """Parse the lines of a journal. Torn lines are skipped."""
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


# -- version 0.1 -------------------------------------------------------------------------------------------

_SCOPES = {"REPLICA": "replica", "ROLE": "role", "APPLICATION": "app"}
_STATES = {"cancel": "cancelled", "parent": "cancelled", "end": "succeeded", "lost": "lost"}
_SAME = frozenset(("met", "queued", "cancel", "spared", "kill", "inputs", "adopted", "reaped"))
_NO_RUN = -1.0  # before the start of any run


def is_old(line: Mapping[str, Any]) -> bool:
    """Whether version 0.1 wrote this line."""
    return isinstance(line.get("t"), float)


class OldJournal:
    """Translates the lines of one journal, one after the other."""

    def __init__(self) -> None:
        self._runs: dict[Where, tuple[str | None, float | None]] = {}
        self._where: dict[str, Where] = {}
        self._ends: dict[Where, Event] = {}
        self._unready: dict[Where, str] = {}
        self._hands: dict[str, float | None] = {}
        self._of_engine: dict[Where, int] = {}
        self._counts: dict[tuple[object, ...], int] = {}

    def events(self, line: Mapping[str, Any]) -> list[Event]:
        """The events of a line. A damaged line raises ValueError, KeyError or TypeError."""
        kind, at = line["e"], round(line["t"] * 1e9)
        if kind in _SAME:
            return [{**line, "t": at}]
        read = _READ.get(kind)
        return [{"t": at, **each} for each in read(self, line)] if read is not None else []

    def _wait(self, line: Mapping[str, Any]) -> Iterator[Event]:
        yield {"e": "waiting", "for": line["for"]}

    def _go(self, line: Mapping[str, Any]) -> Iterator[Event]:
        yield {"e": "starting"}

    def _run(self, where: Where, container: str | None, start: float | None) -> Iterator[Event]:
        """Yield the `spawn` of a run that no earlier line named."""
        if container is not None:
            self._where[container] = where
        if where in self._runs and start in (None, self._runs[where][1]):
            return
        self._runs[where] = container, start
        self._ends.pop(where, None)
        self._unready.pop(where, None)
        spawn = {"e": "spawn", "role": where[0], "k": where[1], "id": container, "start": start}
        yield spawn if start is None else {**spawn, "t": round(start * 1e9)}

    def _probe(self, line: Mapping[str, Any]) -> Iterator[Event]:
        where = line["role"], line["k"]
        yield from self._run(where, line["id"], line.get("started_at"))
        if line["e"] == "late":
            self._unready[where] = line["why"]
        yield {"e": line["e"], "role": where[0], "k": where[1], "why": line.get("why", "")}

    def _exit(self, line: Mapping[str, Any]) -> Iterator[Event]:
        where, start = (line["role"], line["k"]), line.get("started_at")
        by_engine = line.get("restarts", 0) - self._counts.get(("REPLICA", *where), 0)
        for number in range(self._of_engine.get(where, 0), by_engine):
            yield restart_by("engine", *where, number + 1)
        self._of_engine[where] = by_engine
        yield from self._run(where, None, start)
        event: Event = {"e": "exit", "role": where[0], "k": where[1], "code": line["code"]}
        event |= {name: line[name] for name in ("oom", "said", "lost") if line.get(name)}
        if line.get("lost"):
            event["code"] = None
        if any(run in (None, start) for run in self._hands.values()):
            event["hand"] = True
        self._hands.clear()
        if line.get("ended_at") is not None:
            event["t"] = round(line["ended_at"] * 1e9)
        if self._ends.pop(where, None) != event:
            yield event
        self._ends[where] = event

    def _hand(self, line: Mapping[str, Any]) -> Iterator[Event]:
        self._hands[line["id"]] = line.get("started_at")
        yield {"e": "hand", "id": line["id"], "start": line.get("started_at")}

    def _restart(self, line: Mapping[str, Any]) -> Iterator[Event]:
        role, policy = line["role"], line["policy"]
        again = [(name, k) for name, k in line["again"]]
        for where, (container, start) in zip(again, line["was"].items(), strict=False):
            if start is not None:
                yield from self._run(where, container, start)
        k = self._cause_of(role, again)
        counter = {"REPLICA": (policy, role, k), "ROLE": (policy, role)}.get(policy, (policy,))
        self._counts[counter] = number = self._counts.get(counter, 0) + 1
        for where in again:
            self._ends.pop(where, None)
            self._unready.pop(where, None)
        event: Event = {"e": "restart", "scope": _SCOPES[policy], "role": role, "k": k, "n": number}
        event["again"] = line["again"]
        yield {**event, "delay_s": line["delay_s"]} if line.get("delay_s") else event

    def _cause_of(self, role: str, again: list[Where]) -> int:
        """The number of the replica that caused a restart: the first failed one of those to run again."""
        failed = [where for where in self._failed() if where[0] == role and where in again]
        return next((k for name, k in (*failed, *again) if name == role), 0)

    def _failed(self) -> list[Where]:
        """The replicas that have failed, in the order of their ends."""
        found = [where for where, end in self._ends.items() if end["code"] or where in self._unready]
        return sorted(found, key=lambda where: self._ends[where].get("t", 0))

    def _stop(self, line: Mapping[str, Any]) -> Iterator[Event]:
        if line["why"] == "restart":
            runs = {each: self._runs[self._where[each]][1] for each in line["of"] if each in self._where}
            yield {"e": "halt", "of": {each: runs.get(each, _NO_RUN) for each in line["of"]}}
            return
        yield {"e": "stopping", "why": line["why"], "by": "", **self._outcome(line)}
        yield {"e": "halt", "of": dict.fromkeys(line["of"])}

    def _outcome(self, line: Mapping[str, Any]) -> Event:
        """State, message and code to which a final stop leads."""
        why, message = line["why"], line.get("message", "")
        if why in _STATES:
            return {
                "state": _STATES[why],
                "message": message or ("" if why == "end" else _STATES[why]),
                "code": None,
            }
        if why == "timeout":
            return {"state": "failed", "message": message or "timed out", "code": None}
        failed = next(iter(self._failed()), None)
        end = self._ends[failed] if failed is not None else None
        code = end["code"] if end is not None else None
        if why == "start" or message:
            return {"state": "failed", "message": message, "code": code}
        if end is None or failed is None:
            return {"state": "failed", "message": "", "code": None}
        replica = Replica(Role(failed[0], 0), failed[1])
        replica.end({**end, "late": self._unready.get(failed, "")}, 0.0, "")
        if replica.by_hand:
            return {"state": "cancelled", "message": f"{replica.name} was stopped by hand", "code": None}
        return {"state": "failed", "message": f"{replica.name} {replica.cause}", "code": code}

    def _end(self, line: Mapping[str, Any]) -> Iterator[Event]:
        event = {
            "e": "ended",
            "state": line["state"],
            "message": line.get("message", ""),
            "code": line.get("code"),
        }
        event["drift"] = line.get("drift", "")
        yield {**event, "t": round(line["at"] * 1e9)} if line.get("at") else event


_READ = {
    "wait": OldJournal._wait,
    "go": OldJournal._go,
    "ready": OldJournal._probe,
    "late": OldJournal._probe,
    "exit": OldJournal._exit,
    "hand": OldJournal._hand,
    "restart": OldJournal._restart,
    "stop": OldJournal._stop,
    "end": OldJournal._end,
}


def restart_by(by: str, role: str, k: int, number: int) -> Event:
    """The event of a restart that the `engine` made by its own policy, or a user by `hand`."""
    return {"e": "restart", "scope": "replica", "role": role, "k": k, "n": number, "by": by}
