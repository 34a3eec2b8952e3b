"""The observed attempts: the ledger and the engines in one view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from launcher.dataclass import dataclass, field, replace
from launcher.specs.attempt import ENDED_STATES, UNSTARTED_STATES, Attempt, StoodOn
from launcher.specs.inputs import InputFiles
from launcher.specs.launch import JobKey

_SEEN_TO_END = ENDED_STATES - {"lost"}
_NEVER_RAN = UNSTARTED_STATES | {"skipped"}
OUTPUT_GONE = "its output folder is gone"


def missing_output(engine: str) -> str:
    """Why an output folder cannot be read. `engine`: the address of another engine that has it, if any."""
    return f"its output folder is at the engine {engine}" if engine else OUTPUT_GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The observed attempts. `merge` makes a snapshot of the ledger and the engines.

    Attributes:
        latest, succeeded: the latest attempt, and the latest success, per job.
        ran: the latest attempt per job that has run anything: none that was skipped, is submitted or waits.
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
        """Whether the edition of a need on record can be compared with those in this state folder.

        It cannot when another state folder has made the attempt on a shared engine, and the need ran on an
        engine of that folder alone: there, numbers and editions count other attempts. An older version has
        not recorded the folder; such an attempt counts as made by this folder.
        """
        foreign = attempt.home not in ("", self.home) and attempt.scheduler in self.shared
        return not foreign or need.scheduler in self.shared

    def without_outputs(self, lost: Mapping[str, str]) -> Snapshot:
        """The snapshot with these `lost_outputs`."""

        def marked(attempts: Mapping[JobKey, Attempt]) -> dict[JobKey, Attempt]:
            made = dict(attempts)
            for key, each in attempts.items():
                if each.app_id in lost:
                    words = filter(None, (each.drift, missing_output(lost[each.app_id])))
                    made[key] = replace(each, drift="; ".join(words))
            return made

        latest, ran, succeeded = map(marked, (self.latest, self.ran, self.succeeded))
        return replace(self, latest=latest, ran=ran, succeeded=succeeded, lost_outputs=lost)


def merge(
    *,
    ledger: Iterable[Attempt],
    engines: Iterable[Attempt],
    fingerprints: Mapping[str, str],
    counts: Mapping[tuple[JobKey, str], int] | None = None,
    home: str = "",
    shared: Collection[str] = (),
) -> Snapshot:
    """Join the attempts of the ledger and of the engines into one snapshot.

    `fingerprints` names the schedulers whose engines were asked; for the others the ledger is authoritative.
    `counts` holds the ledger's number of attempts per (job, digest). Attempts that are not in the ledger yet
    (their apply was killed before it wrote the row) are added to it.
    """
    recorded = {(attempt.scheduler, attempt.app_id): attempt for attempt in ledger}
    held = {(attempt.scheduler, attempt.app_id): attempt for attempt in engines}
    attempts = [
        attempt
        for app in {**recorded, **held}
        if (attempt := _believed(recorded.get(app), held.get(app), app[0] in fingerprints))
    ]
    latest = _latest(attempts)
    unrecorded = (
        (attempt.key, attempt.digest)
        for attempt in latest.values()
        if (attempt.scheduler, attempt.app_id) not in recorded and attempt.state not in _NEVER_RAN
    )
    return Snapshot(
        latest=latest,
        ran=_latest(attempt for attempt in attempts if attempt.state not in _NEVER_RAN),
        succeeded=_latest(attempt for attempt in attempts if attempt.state == "succeeded"),
        live=tuple(sorted((a for a in attempts if a.is_live), key=lambda a: (a.key, a.number))),
        counts=Counter(counts or {}) + Counter(unrecorded),
        fingerprints=dict(fingerprints),
        home=home,
        shared=frozenset(shared),
    )


def _believed(ledger: Attempt | None, engine: Attempt | None, asked: bool) -> Attempt | None:
    """The engine decides about live attempts, the ledger about ended ones. None: the attempt never ran.

    The end of a lost attempt was not observed, so the engine decides about it too.
    """
    if engine is not None and (engine.is_live or ledger is None or ledger.state not in _SEEN_TO_END):
        return engine
    if engine is not None and ledger is not None:
        return replace(ledger, drift=engine.drift)
    if ledger is None or not ledger.is_live or not asked:
        return ledger
    if ledger.state in _NEVER_RAN:
        return None  # removed before any replica started
    return replace(ledger, state="lost", owner="", message="nothing of it is left")


def _latest(attempts: Iterable[Attempt]) -> dict[JobKey, Attempt]:
    latest: dict[JobKey, Attempt] = {}
    for attempt in attempts:
        if attempt.key not in latest or attempt.number > latest[attempt.key].number:
            latest[attempt.key] = attempt
    return latest
