"""The journal of a Docker app: events that its containers do not show. Pure: lines in, a `Journal` out.

::

    {"e": "wait", "for": ["prepare"]}                   accepted: its watcher waits for these jobs
    {"e": "met", "job": "prepare"}                      one of them has succeeded
    {"e": "queued"}                                     its watcher waits in line for its turn
    {"e": "inputs", "changed": "train.py …"}            input files changed while it waited or ran
    {"e": "go"}                                         from here on its start is completed, not undone
    {"e": "cancel", "by": "me@host"}                    a client asks for a stop
    {"e": "stop", "why": "peer", "of": [ID…], …}        containers are being stopped; the first reason counts
    {"e": "spared", "of": [ID…]}                        containers that had ended by themselves before
    {"e": "restart", "role": "r", "policy": "ROLE", "was": {ID: STARTED_AT}, "again": [["r", 0]]}
                                                        with "delay_s": they start that much later
    {"e": "ready", "role": "r", "k": 0, "id": ID, "started_at": T}
                                                        a probe of this run of the container succeeded
    {"e": "late", "role": "r", "k": 0, "id": ID, "started_at": T, "why": …}
                                                        none did in time: it is stopped, and has failed
    {"e": "exit", "role": "r", "k": 0, "code": 3, …}    a container has ended; repeated after each restart
                                                        with "lost": why, when the code tells nothing
    {"e": "kill", "id": ID, "at": T}                    another program, or the engine as it stops, signals it
    {"e": "hand", "id": ID, "started_at": T}            another program stopped this run of the container
    {"e": "adopted"}                                    the record was lost: this one has no earlier restarts
    {"e": "end", "state": "failed", "message": …, "code": 3}
    {"e": "reaped"}                                     the ledger has the outcome
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.specs.attempt import AttemptState


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExit:
    """How a container ended, recorded in case the container is removed.

    Attributes:
        said: the last line of its stderr, of one that failed by itself.
        lost: why its code does not count, see `unasked.py`; "" when it does.
    """

    code: int
    oom: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    restarts: int = 0
    said: str = ""
    lost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRestart:
    """A restart, complete when each container of `was` has another start time.

    Attributes:
        due_at: they are not started before this time.
        ended_at: (role, replica) → end of the run before, of those that had ended by themselves.
    """

    role: str
    policy: str
    was: Mapping[str, float | None]
    due_at: float = 0.0
    ended_at: Mapping[tuple[str, int], float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProbe:
    """What the probes of one run of a container found.

    Attributes:
        why: why it was not ready in time; "" when it was ready.
    """

    id: str
    started_at: float | None
    why: str = ""

    def is_of(self, container: str, started_at: float | None) -> bool:
        """Whether the container was not started again since; of its last run where `started_at` is None.

        The start that the engine reports of one run may move back a little when the run ends.
        """
        runs = started_at is None or self.started_at is None or started_at <= self.started_at
        return container == self.id and runs


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStop:
    """The reason of a stop: cancel, timeout, peer, parent, lost, hand, end or start (restarts are none).

    `end`: every replica that is none of a service has succeeded.

    `start`: the engine could not start one, and `message` says which and why.
    """

    why: str
    message: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOutcome:
    state: AttemptState
    message: str = ""
    code: int | None = None
    drift: str = ""
    inputs_changed: str = ""
    at: float | None = None


@dataclass(slots=True)
class Journal:
    """The state that the lines of a journal add up to.

    Attributes:
        waits_for: the jobs that it still waits for; None before it waits, and once it is to start.
        is_queued: it waits for no job any more, and is in line for its turn.
        interrupted: the client that cancelled the app was attached to it.
        grace_s: the grace period of that cancellation, in place of the app's own.
        stop: the first reason to stop the app for good; None while there is none.
        stopped: ids of the containers that launcher stopped for good.
        stop_requested: ids of all containers that launcher ever asked to stop.
        contested: ids of those asked more than once: which request ended them is not known.
        stopped_externally: id → start of the run that another program stopped; None if it is not recorded.
        killed: id → when another program last signalled the container, epoch seconds of the engine.
        probes: (role, replica) → what the probes of its last run found, where they have ended.
        last_restart: id → the last restart that includes this container.
        inputs_changed: the input files that changed while it waited or ran, as text.
        last_at: time of the last line.
    """

    going_at: float | None = None
    waits_for: list[str] | None = None
    is_queued: bool = False
    cancelled_by: str | None = None
    interrupted: bool = False
    grace_s: float | None = None
    stop: RecordedStop | None = None
    stopped: set[str] = field(default_factory=set)
    stop_requested: set[str] = field(default_factory=set)
    contested: set[str] = field(default_factory=set)
    stopped_externally: dict[str, float | None] = field(default_factory=dict)
    killed: dict[str, float] = field(default_factory=dict)
    restarts: list[RecordedRestart] = field(default_factory=list)
    last_restart: dict[str, RecordedRestart] = field(default_factory=dict)
    exits: dict[tuple[str, int], RecordedExit] = field(default_factory=dict)
    probes: dict[tuple[str, int], RecordedProbe] = field(default_factory=dict)
    outcome: RecordedOutcome | None = None
    adopted: bool = False
    end_recorded: bool = False
    inputs_changed: str = ""
    last_at: float | None = None

    @property
    def held(self) -> tuple[AttemptState, str] | None:
        """State and message of an attempt that its watcher holds before its start; None for any other."""
        if self.waits_for is None:
            return None
        return ("queued", IN_LINE) if self.is_queued else ("waiting", waiting_for(self.waits_for))

    def was_stopped_externally(self, container: str, started_at: float | None) -> bool:
        """Whether another program stopped this run of the container; its last run if `started_at` is None."""
        run = self.stopped_externally.get(container)
        return container in self.stopped_externally and (run is None or started_at in (None, run))

    def was_killed(self, container: str, started_at: float | None) -> bool:
        """Whether another program signalled this run of the container, its last one."""
        return container in self.killed and self.killed[container] >= (started_at or 0.0)

    def exit_of(self, role: str, k: int, started_at: float | None) -> RecordedExit | None:
        """How this run of a replica has ended; None where that is not on record."""
        found = self.exits.get((role, k))
        return found if found is not None and found.started_at in (None, started_at) else None

    def lost(self, role: str, k: int, started_at: float | None) -> str:
        """Why this run of a replica is lost; "" for any other end."""
        found = self.exit_of(role, k, started_at)
        return found.lost if found is not None else ""

    def probe_of(self, role: str, k: int, container: str, started_at: float | None) -> RecordedProbe | None:
        """What the probes of this run of a replica found; None while they go on."""
        found = self.probes.get((role, k))
        return found if found is not None and found.is_of(container, started_at) else None

    def restarts_of(self, role: str, policy: str, container: str) -> int:
        """How many restarts count against the retries of a role, or of one container of it."""
        return sum(
            each.policy == policy
            and (policy == "APPLICATION" or each.role == role)
            and (policy != "REPLICA" or container in each.was)
            for each in self.restarts
        )


IN_LINE = "waits for its turn"
"""The message of a queued attempt."""


def fold(lines: bytes) -> Journal:
    """The journal of these lines. Torn lines and unknown kinds are skipped."""
    journal = Journal()
    for line in lines.splitlines():
        try:
            event = json.loads(line)
            _ACTIONS.get(event["e"], _skip)(journal, event)
            journal.last_at = float(event["t"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return journal


def waiting_for(jobs: Sequence[str]) -> str:
    """What an attempt waits for, in a phrase."""
    return f"waits for {', '.join(jobs)}" if jobs else "is about to start"


def _wait(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.waits_for = [str(job) for job in event["for"]]


def _met(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.waits_for = [job for job in journal.waits_for or () if job != event["job"]]


def _queued(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.waits_for, journal.is_queued = [], True


def _go(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.waits_for, journal.is_queued = None, False
    if journal.going_at is None:
        journal.going_at = event["t"]


def _cancel(journal: Journal, event: Mapping[str, Any]) -> None:
    if journal.cancelled_by is None:
        journal.cancelled_by = str(event.get("by", ""))
        journal.interrupted = bool(event.get("interrupt"))
        journal.grace_s = event.get("grace_s")


def _stop(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.stop_requested.update(event["of"])
    if event["why"] == "restart":
        return
    journal.contested.update(journal.stopped.intersection(event["of"]))
    journal.stopped.update(event["of"])
    if journal.stop is None:
        journal.stop = RecordedStop(why=event["why"], message=event.get("message", ""), at=event["t"])


def _spared(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.stopped.difference_update(set(event["of"]) - journal.contested)


def _restart(journal: Journal, event: Mapping[str, Any]) -> None:
    ended = {(role, k): journal.exits.pop((role, k), None) for role, k in event["again"]}
    restart = RecordedRestart(
        role=event["role"],
        policy=event["policy"],
        was=event["was"],
        due_at=event["t"] + event.get("delay_s", 0),
        ended_at={where: each.ended_at for where, each in ended.items() if each is not None},
    )
    journal.restarts.append(restart)
    journal.last_restart.update(dict.fromkeys(restart.was, restart))


def _probe(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.probes[event["role"], event["k"]] = RecordedProbe(
        id=event["id"], started_at=event.get("started_at"), why=event.get("why", "")
    )


def _exit(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.exits[event["role"], event["k"]] = RecordedExit(
        code=event["code"],
        oom=event.get("oom", False),
        started_at=event.get("started_at"),
        ended_at=event.get("ended_at"),
        restarts=event.get("restarts", 0),
        said=event.get("said", ""),
        lost=event.get("lost", ""),
    )


def _kill(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.killed[event["id"]] = float(event["at"])


def _hand(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.stopped_externally[event["id"]] = event.get("started_at")


def _end(journal: Journal, event: Mapping[str, Any]) -> None:
    if journal.outcome is None:
        journal.outcome = RecordedOutcome(
            state=event["state"],
            message=event.get("message", ""),
            code=event.get("code"),
            drift=event.get("drift", ""),
            at=event.get("at") or event["t"],
        )


def _inputs(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.inputs_changed = journal.inputs_changed or str(event["changed"])


def _adopted(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.adopted = True


def _reaped(journal: Journal, event: Mapping[str, Any]) -> None:
    journal.end_recorded = True


def _skip(journal: Journal, event: Mapping[str, Any]) -> None:
    """A kind that a later version adds."""


_ACTIONS = {
    "wait": _wait,
    "met": _met,
    "queued": _queued,
    "go": _go,
    "cancel": _cancel,
    "stop": _stop,
    "spared": _spared,
    "restart": _restart,
    "ready": _probe,
    "late": _probe,
    "exit": _exit,
    "kill": _kill,
    "hand": _hand,
    "end": _end,
    "inputs": _inputs,
    "adopted": _adopted,
    "reaped": _reaped,
}
