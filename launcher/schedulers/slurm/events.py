"""Restarts and runs of an app, from the events of its record. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from launcher.holding.state import AppState
from launcher.schedulers.restarts import Restart

Event = dict[str, Any]


def restarts(events: Iterable[Event]) -> list[Restart]:
    """The restarts, in the order in which they were decided."""
    app, found = AppState(), []
    for event in events:
        if event["e"] == "restart":
            role = app.roles[event["role"]]
            found.append(
                Restart(
                    role=role.name,
                    k=event["k"],
                    scope=event["scope"],
                    number=event["n"],
                    most=role.retries,
                    delay_s=event.get("delay_s") or 0.0,
                    cause=role.replicas[event["k"]].cause,
                    at=event["t"] / 1e9,
                )
            )
        app.take(event)
    return found


def run_starts(
    events: Iterable[Event], replicas: Sequence[tuple[str, int]]
) -> Mapping[tuple[str, int], list[tuple[int, float]]]:
    """(number of the restart, epoch seconds) of the runs of each replica; see `Scheduler.run_starts`."""
    found: dict[tuple[str, int], list[tuple[int, float]]] = {where: [] for where in replicas}
    for event in events:
        where = (event.get("role", ""), event.get("k", 0))
        if event["e"] == "spawn" and where in found:
            found[where].append((int(event.get("restart") or 0), event["t"] / 1e9))
    return found
