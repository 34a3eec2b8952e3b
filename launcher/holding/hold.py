"""Hold an app from its start to its end: the loop. Python >= 3.6.

A driver knows the processes, the containers or the steps; it decides nothing.
"""

from launcher.holding.app import App
from launcher.holding.events import ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Optional, Protocol

    from launcher.holding.replica import Replica

    class Record(Protocol):
        """The record of an app."""

        def append(self, event: "dict[str, Any]") -> object:
            """Add an event, with the time `t` in ns unless it has one. It may wait for space on the disk."""

        def is_written(self) -> bool:
            """Whether every event is on the disk; tries again to write those that are not."""

    class Driver(Protocol):
        """The processes of an app."""

        def now(self) -> float:
            """Return the present time in epoch seconds."""

        def stop(self, replicas: "Sequence[tuple[Replica, Optional[float]]]") -> None:
            """Stop these replicas, each with its grace period in seconds, None for the app's own."""

        def start(self, replicas: "Sequence[Replica]") -> None:
            """Start these replicas. `wait` reports each as `spawn`, or as `exit` with `why`."""

        def quiet(self) -> None:
            """End every process that is left of the app. `wait` reports `quiet` once no process is left."""

        def wait(self, deadline: "Optional[float]") -> "Iterable[dict[str, Any]]":
            """Return the next facts, at `deadline` (epoch seconds) at the latest; there may be none."""


STARTS = 8

AGAIN_S = 1.0
"""How long to wait for space on the disk before the next try."""


def hold(app: App, record: "Record", driver: "Driver", starts: int = STARTS) -> None:
    """Hold an app until its end is recorded; start at most `starts` replicas before each `wait`."""
    is_sweeping = False
    while True:
        decide(app, record, driver.now())
        to_stop, app.to_stop = app.to_stop, {}
        if to_stop:
            driver.stop(list(to_stop.items()))
        is_written = record.is_written()
        if app.has_ended and is_written:
            return
        to_start = app.take_to_start(starts) if is_written else []
        if to_start:
            driver.start(to_start)
        if app.wants_quiet and not is_sweeping:
            is_sweeping = True
            driver.quiet()
        for fact in driver.wait(app.deadline() if is_written else driver.now() + AGAIN_S):
            is_sweeping = is_sweeping and fact["e"] != "quiet"
            record.append(fact)
            app.take(fact)


def decide(app: App, record: "Record", now: float) -> None:
    """Record and take every decision that follows from the events so far."""
    decision = app.decide(now)
    while decision is not None:
        record.append(decision)
        app.take(decision)
        decision = app.decide(now)


def implied_end(events: "Iterable[dict[str, Any]]") -> "Optional[dict[str, Any]]":
    """The end, or final stop, that the record of an app implies once its holder has died; None for none."""
    app = App()
    for event in events:
        app.take(event)
    app.take({"e": "quiet"})
    while app.stop is None:
        decision = app.decide(app.last_at)
        if decision is None or decision["e"] == "ended":
            return decision
        app.take(decision)
    return ended(app.stop["state"], app.stop["message"], app.stop["code"])
