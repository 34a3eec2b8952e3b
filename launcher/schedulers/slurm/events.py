"""Restarts and runs of an app, from the events in its folder. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from launcher.schedulers.last_line import exited
from launcher.schedulers.restarts import Restart

Event = Mapping[str, Any]


def restarts(events: Iterable[Event], document: Mapping[str, Any]) -> list[Restart]:
    """The restarts, in the order in which they were decided.

    Args:
        events: by time.
        document: of the app: it has the number of restarts that each role may have.
    """
    most = {role["name"]: int(role.get("max_retries", 0)) for role in document.get("roles") or ()}
    causes: dict[tuple[str, int], str] = {}
    found = []
    for event in events:
        where = (event.get("role", ""), event.get("k", 0))
        if event["e"] == "exit":
            causes[where] = _cause(event)
        elif event["e"] == "restart":
            found.append(
                Restart(
                    role=where[0],
                    k=where[1],
                    scope=event["scope"],
                    number=event["n"],
                    most=most.get(where[0], 0),
                    delay_s=event.get("delay_s") or 0.0,
                    cause=causes.get(where, "failed"),
                    at=event["t"] / 1e9,
                )
            )
    return found


def _cause(event: Event) -> str:
    if event.get("late"):
        return f"was {event['late']}"
    if event.get("lost"):
        return f"was lost: {event['lost']}"
    signal = event.get("signal")
    return f"was killed by signal {signal}" if signal else exited(event.get("code"), event.get("said", ""))


def run_starts(
    events: Iterable[Event], replicas: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], list[tuple[int, float]]]:
    """(number of the restart, epoch seconds) of the runs of each replica; see `Scheduler.run_starts`."""
    found: dict[tuple[str, int], list[tuple[int, float]]] = {where: [] for where in replicas}
    for event in events:
        where = (event.get("role", ""), event.get("k", 0))
        if event["e"] == "spawn" and where in found:
            found[where].append((int(event.get("restart") or 0), event["t"] / 1e9))
    return found
