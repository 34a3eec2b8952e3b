"""One job as its file declares it, and as its attempts are on record: what `decide` decides from. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.plan import grounds as grounds_
from launcher.plan.grounds import Ground, Knows
from launcher.plan.reasons import Reason
from launcher.plan.snapshot import Snapshot
from launcher.plan.step import is_abandoned, is_unfinished
from launcher.specs import canonical
from launcher.specs.attempt import WAITING_STATES, Attempt
from launcher.specs.inputs import InputFiles
from launcher.specs.launch import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """One job as its file declares it, and the flags of the command line that concern it.

    Attributes:
        grounds: what its needs offer, one for each.
        follows: it runs again when its needs have.
        lack: why this machine can never start it; None when it can.
        judges_inputs: its input files count.
        files: input files by their digest, for the words of reasons.
        edited: the files of its checkout that are not what its latest attempt ran.
    """

    launch: Launch
    document: Mapping[str, Any]
    digest: str
    rerun: bool = False
    retry_failed: bool = False
    grounds: tuple[Ground, ...] = ()
    follows: bool = True
    lack: Reason | None = None
    judges_inputs: bool = True
    files: Mapping[str, InputFiles] = field(default_factory=dict)
    edited: tuple[str, ...] = ()

    @classmethod
    def of(cls, launch: Launch, **choices: Any) -> Desired:
        """The job in normal form; `choices` are further fields."""
        document = canonical.document(launch)
        return cls(launch=launch, document=document, digest=canonical.digest(document), **choices)

    def is_of(self, attempt: Attempt) -> bool:
        """Whether the attempt ran this document; one in an older normal form is normalised again first."""
        if attempt.digest == self.digest:
            return True
        return bool(attempt.document) and self.digest == canonical.digest(
            canonical.renormalise(attempt.document)
        )

    def has_inputs_of(self, attempt: Attempt) -> bool:
        """Whether the attempt was made with the present input files, as far as these were read."""
        is_unread = bool(self.launch.inputs) and not self.launch.inputs_digest
        return not self.judges_inputs or is_unread or attempt.inputs == self.launch.inputs_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The recorded attempts of one job.

    Attributes:
        latest: its latest attempt.
        judged: the attempt that decides: `latest`, or the one that ran before it when that is a leftover.
        leftover: `latest` when it is an unfinished submission.
        live: its attempts that are running, waiting or being submitted, by number.
        attempts: the number of recorded attempts of the desired document.
        knows: whether what an attempt has on record of a need can be compared here.
    """

    latest: Attempt | None = None
    judged: Attempt | None = None
    leftover: Attempt | None = None
    live: tuple[Attempt, ...] = ()
    attempts: int = 0
    knows: Knows = Snapshot().knows

    @property
    def waiting(self) -> tuple[Attempt, ...]:
        """The live attempts that can be withdrawn: nothing of them has run."""
        return tuple(attempt for attempt in self.live if attempt.state in WAITING_STATES)

    @property
    def running(self) -> tuple[Attempt, ...]:
        """The live attempts that have to be stopped."""
        return tuple(attempt for attempt in self.live if attempt.state not in WAITING_STATES)

    @property
    def next_number(self) -> int:
        """The number of the next attempt, which takes the number of a leftover."""
        if self.leftover is not None:
            return self.leftover.number
        return self.latest.number + 1 if self.latest is not None else 1


def history_of(desired: Desired, snapshot: Snapshot, live: Sequence[Attempt]) -> History:
    """Collect the job's history; `live` holds the snapshot's live attempts of this job."""
    key = desired.launch.key
    latest = snapshot.latest.get(key)
    leftover = latest if latest is not None and _is_leftover(desired, latest) else None
    passed_over = leftover is not None or (latest is not None and latest.state == "skipped")
    return History(
        latest=latest,
        judged=snapshot.ran.get(key) if passed_over else latest,
        leftover=leftover,
        live=tuple(a for a in live if not is_unfinished(a) and a is not leftover),
        attempts=snapshot.counts.get((key, desired.digest), 0),
        knows=snapshot.knows,
    )


def _is_leftover(desired: Desired, latest: Attempt) -> bool:
    """Whether the latest attempt is a begun submission.

    So is a waiting attempt without a holder that is to go on. Any other waiting attempt keeps its number, and
    is withdrawn when it is not wanted.
    """
    return is_unfinished(latest) or (is_abandoned(latest) and goes_on(desired, latest))


def goes_on(desired: Desired, leftover: Attempt) -> bool:
    """Whether a begun submission is one of the desired job: the next apply finishes it."""
    return (
        desired.is_of(leftover)
        and desired.has_inputs_of(leftover)
        and grounds_.goes_on(leftover, desired.grounds)
    )
