"""The steps of an app before its start: it waits for other jobs and for its turn. Python >= 3.6.

Most apps start at once: a holder loads this module only for the apps that wait.
"""

from launcher.holding.events import skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import Any, Optional, Protocol

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

        def ends_of_needs(self) -> "dict[str, str]":
            """Return each needed job with the state in which it has ended; "" before."""

        def give_up(self, why: str) -> None:
            """End the app as skipped."""

        def has_share(self) -> bool:
            """Whether the app has its share of this machine. If not, resume `Way` once that may change."""

        def compare(self) -> bool:
            """Compare the input files with those of the plan, and send the changed files, "" for none.

            Returns False, without a comparison, for an app that has no input files or has not waited.
            """

        def decide(self) -> "Optional[bool]":
            """Decide that the app starts, unless another process has decided that it ends.

            Returns whether the app starts; None where that cannot be recorded now: resume to try again.
            """


def way_to_start(jobs: "Sequence[str]", holder: "Holder") -> "Way":
    """Wait for the jobs, then for the app's turn, then for the comparison of input files; then decide."""
    if jobs:
        if not holder.accept("waiting", **{"for": jobs}):
            return False
        holder.follow_needs()
    left = set(jobs)
    while left:
        job, state = yield
        if state != "succeeded":
            holder.give_up(skipped({**holder.ends_of_needs(), job: state}.items()))
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
