"""Read the journal lines of version 0.1 as the events of today. Pure.

The old lines had other kinds, and times in seconds, where today's lines have integers, nanoseconds::

    {"e": "wait", "for": ["prepare"]}                   waiting
    {"e": "go"}                                         starting
    {"e": "stop", "why": "peer", "of": [ID…], …}        stopping, then halt
    {"e": "restart", "role": "r", "policy": "ROLE", "was": {ID: START}, "again": [["r", 0]]}
    {"e": "exit", "role": "r", "k": 0, "started_at": START, "ended_at": T, "restarts": 0, …}
    {"e": "hand", "id": ID, "started_at": START}        `hand` of the exit that follows
    {"e": "end", "state": "failed", "message": …, "code": 3, "drift": "", "at": T}

There was no line for a start: a `spawn` is put before the first line that names a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.holding.phrases import cause
from launcher.schedulers.logs import Where

Event = dict[str, Any]

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
        """The start of a run that no earlier line named."""
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
            yield restart_of_engine(*where, number + 1)
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
        """The number of the replica that caused a restart: the first of these that has failed."""
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
        name = f"{failed[0]}/{failed[1]}"
        if end.get("hand"):
            return {"state": "cancelled", "message": f"{name} was stopped by hand", "code": None}
        how = {field: end[field] for field in ("oom", "said") if field in end}
        return {
            "state": "failed",
            "message": f"{name} {cause(code, late=self._unready.get(failed, ''), **how)}",
            "code": code,
        }

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


def restart_of_engine(role: str, k: int, number: int) -> Event:
    """The event of a restart that the engine made by its own policy."""
    return {"e": "restart", "scope": "replica", "role": role, "k": k, "n": number, "by": "engine"}
