"""Hold an app: the way to its start, and the loop that follows it to its end. Python >= 3.6.

A driver knows the processes, the containers or the steps; it decides nothing.
"""

from launcher.holding.app import App
from launcher.holding.events import ended, skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
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
            """Epoch seconds."""

        def stop(self, replicas: "Sequence[tuple[Replica, Optional[float]]]") -> None:
            """Stop these replicas, each with its grace period in seconds, None for the app's own."""

        def start(self, replicas: "Sequence[Replica]") -> None:
            """Start these replicas. `wait` reports each as `spawn`, or as `exit` with `why`."""

        def quiet(self) -> None:
            """End every process that is left of the app. `wait` reports `quiet` once none is."""

        def wait(self, deadline: "Optional[float]") -> "Iterable[dict[str, Any]]":
            """The next facts, at the latest at `deadline` (epoch seconds): perhaps none."""

    Way = Generator[None, Any, bool]
    """Yields while the app waits, and is sent what has happened meanwhile. It returns whether the app is to
    start; if not, it has ended."""

    class Holder(Protocol):
        """The process that holds an app before its start."""

        def accept(self, kind: str, **fields: Any) -> bool:
            """Record that the app waits: its client waits for that record. False where the app has ended."""

        def note(self, kind: str, **fields: Any) -> None:
            """Record an event."""

        def follow_needs(self) -> None:
            """Send each needed job with its state once it has ended: `removed` where no record is left."""

        def give_up(self, why: str) -> None:
            """End the app as skipped."""

        def has_share(self) -> bool:
            """Whether the app has its share of this machine. If not, resume the way once that may change."""

        def compare(self) -> bool:
            """Compare the input files with those of the plan, and send the changed files, "" for none.

            Returns False, without a comparison, for an app that has no input files or has not waited.
            """

        def decide(self) -> "Optional[bool]":
            """Decide that the app starts, unless another process has decided that it ends.

            Returns whether the app starts; None where that cannot be recorded now: resume to try again.
            """


STARTS = 8

AGAIN_S = 1.0
"""How long to wait for space on the disk before the next try."""


def hold(app: App, record: "Record", driver: "Driver", starts: int = STARTS) -> None:
    """Hold an app until its end is recorded, with at most `starts` new replicas between looks for facts."""
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


def way_to_start(jobs: "Sequence[str]", holder: "Holder") -> "Way":
    """Wait for these jobs, then in line, then for the comparison of the input files; then decide."""
    if jobs:
        if not holder.accept("waiting", **{"for": jobs}):
            return False
        holder.follow_needs()
    left = set(jobs)
    while left:
        job, state = yield
        if state != "succeeded":
            holder.give_up(skipped(job, state))
            return False
        left.discard(job)
        holder.note("met", job=job)
    is_queued = False
    while not holder.has_share():
        if not (is_queued or holder.accept("queued")):
            return False
        is_queued = True
        yield
    if holder.compare():
        changed = yield
        if changed:
            holder.note("inputs", changed=changed)
    decided = holder.decide()
    while decided is None:
        yield
        decided = holder.decide()
    return decided
