"""The observed attempts: ledger and engines joined in one view."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from launcher.dataclass import dataclass, field, replace
from launcher.specs.attempt import Attempt, StoodOn
from launcher.specs.inputs import InputFiles
from launcher.specs.launch import JobKey

OUTPUT_GONE = "its output folder is gone"


def missing_output(engine: str) -> str:
    """Return why an output folder cannot be read. `engine`: address of another engine that has it, or ""."""
    return f"its output folder is at the engine {engine}" if engine else OUTPUT_GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The observed attempts. `launcher.apply.observe` makes a snapshot of the ledger and the engines.

    Attributes:
        latest, succeeded: the latest attempt, and the latest success, per job.
        ran: per job the latest attempt that has run anything; skipped, submitted and waiting ones have not.
        live: the live attempts, also of other jobs where those were asked for, by job and number.
        counts: recorded attempts per (job, digest); they bound automatic re-runs.
        inputs: the input files by their digest, where they are recorded and plans have to name them.
        fingerprints: per observed scheduler, the identity of its engine.
        home: token of this state folder; "" before the first command that changes something.
        shared: the schedulers whose engines have apps of several state folders.
        lost_outputs: app id of a success whose output folder is gone → the address of another engine that
            has it, "" for none.
    """

    latest: Mapping[JobKey, Attempt] = field(default_factory=dict)
    ran: Mapping[JobKey, Attempt] = field(default_factory=dict)
    succeeded: Mapping[JobKey, Attempt] = field(default_factory=dict)
    live: Sequence[Attempt] = ()
    counts: Mapping[tuple[JobKey, str], int] = field(default_factory=dict)
    inputs: Mapping[str, InputFiles] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    home: str = ""
    shared: Collection[str] = ()
    lost_outputs: Mapping[str, str] = field(default_factory=dict)

    def knows(self, attempt: Attempt, need: StoodOn) -> bool:
        """Whether an attempt's recorded edition of a need can be compared with editions of this state folder.

        It cannot when another state folder made the attempt on a shared engine and the need ran on an engine
        of that folder alone, since each folder numbers such attempts itself. Attempts of older versions,
        which lack the folder, count as made by this folder.
        """
        foreign = attempt.home not in ("", self.home) and attempt.scheduler in self.shared
        return not foreign or need.scheduler in self.shared

    def without_outputs(self, lost: Mapping[str, str]) -> Snapshot:
        """Return the snapshot with these `lost_outputs`."""

        def marked(attempts: Mapping[JobKey, Attempt]) -> dict[JobKey, Attempt]:
            made = dict(attempts)
            for key, each in attempts.items():
                if each.app_id in lost:
                    words = filter(None, (each.drift, missing_output(lost[each.app_id])))
                    made[key] = replace(each, drift="; ".join(words))
            return made

        latest, ran, succeeded = map(marked, (self.latest, self.ran, self.succeeded))
        return replace(self, latest=latest, ran=ran, succeeded=succeeded, lost_outputs=lost)
