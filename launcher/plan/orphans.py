"""Find the live attempts that no job file declares any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from launcher.plan.model import Orphan
from launcher.plan.reasons import Reason
from launcher.plan.step import Guard, Step, submitter
from launcher.specs.attempt import WAITING_STATES, Attempt
from launcher.specs.launch import JobKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look for orphans: attempts of one origin and target whose recorded path is below a directory.

    `directory` is relative to the repository's root, with forward slashes; "" is the root.
    """

    origin: str
    target: str
    directory: str = ""

    def holds(self, attempt: Attempt) -> bool:
        below = self.directory in ("", ".") or attempt.path.startswith(self.directory.rstrip("/") + "/")
        return below and attempt.origin == self.origin and attempt.key.target == self.target


def find_orphans(
    live: Sequence[Attempt], declared: Collection[JobKey], scopes: Collection[Scope]
) -> list[Attempt]:
    """The live attempts within the scopes whose job is not among the declared ones."""
    return [
        attempt
        for attempt in live
        if attempt.key not in declared and any(scope.holds(attempt) for scope in scopes)
    ]


def report(attempt: Attempt) -> Orphan:
    return Orphan(key=attempt.key, path=attempt.path, guard=Guard.of(attempt))


def destroy(attempt: Attempt) -> Step:
    """Stop an orphan. One step per attempt: a job may have two when its file went during a replace."""
    return stop(attempt, Reason("orphan", detail=f"{attempt.path} declares it no more"))


def supersede(attempt: Attempt, by: int) -> Step:
    """Stop an attempt that is live although attempt `by` of its job came after it."""
    return stop(attempt, Reason("superseded", detail=f"attempt {attempt.number} is live beside attempt {by}"))


def stop(attempt: Attempt, reason: Reason) -> Step:
    """Stop an attempt; one that waits for others is withdrawn."""
    waits = attempt.state in WAITING_STATES
    guard = Guard.of(attempt)
    return Step(
        key=attempt.key,
        kind="destroy",
        reasons=(reason,),
        stops=() if waits else (guard,),
        withdraws=(guard,) if waits else (),
        guard=guard,
        waits_for=submitter(attempt),
        latest=attempt,
    )
