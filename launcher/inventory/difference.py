"""The differences between two attempts of a job, or between an attempt and its job file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from launcher.plan.diff import Change, diff
from launcher.specs import canonical

if TYPE_CHECKING:
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import Launch


class Difference(NamedTuple):
    """The differences from one side to the other.

    Attributes:
        old, new: the names of the two sides.
        changes: the differences of the documents.
        facts: (name, old value, new value) of differences outside of the documents.
    """

    old: str
    new: str
    changes: tuple[Change, ...]
    facts: tuple[tuple[str, str, str], ...]


def between_attempts(old: Attempt, new: Attempt) -> Difference:
    """Return the differences of two attempts: their documents, inputs, needs and origins."""
    facts = [
        ("needs", _needs(old), _needs(new)),
        ("inputs", old.inputs, new.inputs),
        ("rerun_on", old.trigger_digest, new.trigger_digest),
        ("path", old.path, new.path),
        ("commit", old.commit, new.commit),
        ("pull request", old.pull_request, new.pull_request),
        ("applied by", old.actor, new.actor),
        ("state", old.state, new.state),
    ]
    files = sorted({*old.seen, *new.seen})
    facts += [(f"file {name}", old.seen.get(name, ""), new.seen.get(name, "")) for name in files]
    changes = diff(canonical.renormalise(old.document), canonical.renormalise(new.document))
    return Difference(_name(old), _name(new), changes, _differing(facts))


def from_file(old: Attempt, launch: Launch) -> Difference:
    """The differences from an attempt to the job as its file declares it now."""
    needed = " ".join(sorted(need.job for need in launch.needs))
    facts = [
        ("inputs", old.inputs, launch.inputs_digest),
        ("rerun_on", old.trigger_digest, launch.trigger_digest),
        ("needs", " ".join(sorted(need.job for need in old.needs)), needed),
        ("path", old.path, launch.file),
    ]
    changes = diff(canonical.renormalise(old.document), canonical.document(launch))
    return Difference(_name(old), launch.file, changes, _differing(facts))


def _differing(facts: list[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    return tuple(fact for fact in facts if fact[1] != fact[2])


def _needs(attempt: Attempt) -> str:
    return " ".join(f"{need.job}@{need.number}" for need in attempt.needs)


def _name(attempt: Attempt) -> str:
    return f"{attempt.key.job}@{attempt.number}"


def became(number: int | None, state: str) -> str:
    """`attempt 3 failed`, `attempt 3 was cancelled`, `attempt 3 is running`."""
    passive = {"lost", "cancelled", "skipped"}
    verb = "was " if state in passive else "" if state in ("succeeded", "failed") else "is "
    return f"attempt {number} {verb}{state}"
