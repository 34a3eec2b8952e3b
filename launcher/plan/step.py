"""The step of a plan for one job, its reasons, its estimate, and the attempt that decided it. Values only."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from launcher.dataclass import dataclass, field
from launcher.plan import diff
from launcher.plan.diff import Change, show_at, show_both
from launcher.specs.attempt import WAITING_STATES, Attempt, StoodOn
from launcher.specs.launch import JobKey, Launch, attempt_id
from launcher.specs.secret import HIDDEN
from launcher.text import listing, natural, some_of

if TYPE_CHECKING:
    from launcher.specs.binding import BoundLaunch

_CHANGED: Final = 3
_OTHERS: Final = 8
"""The most needs that the text of a reason names: of those that have changed alike, and of others."""
OTHER_NEEDS: Final = ("now also needs", "no longer needs")
"""How the details of `needs_changed` begin for needs that only the file has, or only the attempt."""
ActionKind = Literal["keep", "create", "replace", "rerun", "resume", "destroy", "hold"]
Blocked = Literal["protected", "on_change_hold", "over_capacity", "refused"]
LACKING: Final[tuple[Blocked, ...]] = ("over_capacity", "refused")
"""The holds of jobs that could never start: a plan with one of them is not applied."""
GuardState = Literal[
    "none", "unfinished", "submitting", "waiting", "queued", "running", "succeeded", "failed", "cancelled",
    "skipped", "lost",
]  # fmt: skip
MARKS: Final[dict[ActionKind, str]] = {
    "keep": "=",
    "create": "+",
    "replace": "-/+",
    "rerun": "r",
    "resume": ">",
    "destroy": "-",
    "hold": "!",
}
STARTING: Final[frozenset[str]] = frozenset({"create", "replace", "rerun", "resume"})
EFFECTIVE: Final[frozenset[str]] = STARTING | {"destroy"}
"""The kinds that start or stop something. A plan without such a step is empty."""

UNITS: Final[Mapping[str, str]] = {"gpu_hours": "GPU-hours", "core_hours": "core-hours"}
"""Field of an estimate and of a budget → its unit."""


class Spread(NamedTuple):
    """A median, and the bounds within which about four of five attempts end."""

    median: float
    low: float
    high: float

    def times(self, factor: float) -> Spread:
        return Spread(*(factor * each for each in self))

    def rounded(self) -> Spread:
        """Return the range with the digits that saved plans keep."""
        return Spread(*(round(each, 6) for each in self))


class Estimate(NamedTuple):
    """The duration, core-hours and GPU-hours of an attempt, estimated by its job's last successes.

    Attributes:
        attempts: the number of successes used, at least two. same_document: all of them ran this document.
        duration_s: the time from its start to its end, without waiting and time in line.
        core_hours: cores that its roles ask for, times the duration, and the CPU time of roles that ask for
            none; None where that is not on record.
        gpu_hours: GPUs that it asks for, times the duration; None where it asks for none.
    """

    attempts: int
    same_document: bool
    duration_s: Spread
    core_hours: Spread | None = None
    gpu_hours: Spread | None = None

    def to_json(self) -> dict[str, Any]:
        given = {"attempts": self.attempts, "same_document": self.same_document}
        return {**given, **ranges_json(self._asdict())}


def to_estimate(found: Mapping[str, Any]) -> Estimate:
    """Make an estimate from the result of `Estimate.to_json`."""
    ranges = {name: Spread(**part) for name, part in found.items() if isinstance(part, dict)}
    return Estimate(found["attempts"], found["same_document"], **ranges)


def ranges_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part.rounded()._asdict() for name, part in fields.items() if isinstance(part, Spread)}


def in_hours(value: float) -> str:
    """`0.32`, `4.5`, `16`, `1,200`: two digits, or whole hours."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The state of an attempt when the plan was made. Without an attempt: number 0, edition 0, state "none".

    `state` is the attempt's. An attempt that has not started completely is "submitting" while its owner
    lives, and "unfinished" when its owner died before any replica ran.
    """

    attempt: int = 0
    state: GuardState = "none"
    app_id: str = ""
    scheduler: str = ""
    digest: str = ""
    edition: int = 0

    @classmethod
    def of(cls, attempt: Attempt | None) -> Guard:
        if attempt is None:
            return cls()
        return cls(
            attempt=attempt.number,
            state=guard_state(attempt),
            app_id=attempt.app_id,
            scheduler=attempt.scheduler,
            digest=attempt.digest,
            edition=attempt.edition,
        )

    def __str__(self) -> str:
        return f"attempt {self.attempt} ({self.state})" if self.attempt else "no attempt"


def guard_state(attempt: Attempt) -> GuardState:
    if attempt.state == "reserved" or attempt.state == "created":
        return "submitting" if attempt.owner else "unfinished"
    if attempt.state == "running" and attempt.unstarted and attempt.owner:
        return "submitting"
    return attempt.state


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The step of a plan for one job. Of the fields from `latest` on, only `estimate` is saved.

    Attributes:
        reasons: the deciding one first; never empty.
        changes: the differences from the compared document; only where spec_changed is a reason.
        launch: the job to start; None for a job that no file declares. In a decoded plan its `root` is ""
            until `located` has bound it to a repository.
        document, digest: the normal form of `launch`; {} and "" without one.
        number, edition: of the attempt to make or to resume; 0 for none.
        needs: the exact attempts that it will use, sorted by job, those that this plan starts included.
        after: the jobs among `needs` whose attempts have not succeeded yet: the attempt waits for them.
        withdraws: waiting attempts to withdraw first; nothing of them has run. Outside the plan digest.
        stops: the live attempts that have to be stopped: by replace before the new one starts, by destroy.
        leftovers: unfinished submissions to remove first; the reservation removes one of that `number`.
        guard: the latest attempt that this step was decided on.
        consented: the job itself says `on_change: replace`, so that replacing it needs no further approval.
        blocked: which policy or lack turned a step with effects into this hold; None for every other step.
        waits_for: the client that is submitting this job; wait for it, then plan again. "" for none.
        edited: the files of the checkout, by path, that differ from those that the deciding attempt ran.
        place: the position among the jobs of the files, which is the order of their turns.
        notes: notes for the user, such as on fields that the scheduler cannot enforce.
        latest: the attempt that decided: that of `guard`, or the one before a leftover of another document.
        bound: `launch` bound to this machine and dry-run; None when another job's dry run answers for it.
        approval, pull_request: the approval of the start (`launcher.plan.approved`).
        attribution: the commit that its effects are from (`attributed`); "" when the plan was not compared.
        estimate: its duration and hours, by the job's last successes; None when there are too few.
    """

    key: JobKey
    kind: ActionKind
    reasons: tuple[Reason, ...]
    changes: tuple[Change, ...] = ()
    launch: Launch | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    number: int = 0
    edition: int = 0
    needs: tuple[StoodOn, ...] = ()
    after: tuple[str, ...] = ()
    withdraws: tuple[Guard, ...] = ()
    stops: tuple[Guard, ...] = ()
    leftovers: tuple[Guard, ...] = ()
    guard: Guard = Guard()
    consented: bool = False
    blocked: Blocked | None = None
    waits_for: str = ""
    edited: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    place: int = field(default=0, compare=False)
    latest: Attempt | None = field(default=None, compare=False, repr=False)
    bound: BoundLaunch | None = field(default=None, compare=False, repr=False)
    approval: str = field(default="", compare=False)
    pull_request: str = field(default="", compare=False)
    attribution: str = field(default="", compare=False)
    estimate: Estimate | None = field(default=None, compare=False)

    @property
    def mark(self) -> str:
        return MARKS[self.kind]

    @property
    def starts(self) -> bool:
        return self.kind in STARTING

    @property
    def has_effects(self) -> bool:
        return self.kind in EFFECTIVE

    @property
    def is_edited(self) -> bool:
        """Whether the job is kept although its files differ from those that its latest success ran."""
        return self.kind == "keep" and any(reason.code == "files_edited" for reason in self.reasons)

    @property
    def is_quiet(self) -> bool:
        """Whether the job is kept without remarks. Plans count such a job and print no line about it."""
        return self.is_settled and not self.notes and not self.is_edited

    @property
    def is_settled(self) -> bool:
        """Whether the job is kept, its attempt is as launcher left it, and no client is submitting it."""
        drifted = any(reason.code == "drift" for reason in self.reasons)
        return self.kind == "keep" and not self.waits_for and not drifted

    @property
    def destructive(self) -> bool:
        """Whether the step stops a live attempt."""
        return self.has_effects and bool(self.stops)

    @property
    def drifted(self) -> tuple[Attempt, ...]:
        """The ended attempt that decided, where another program has changed something of it."""
        is_changed = self.latest is not None and self.latest.drift and not self.latest.is_live
        return (self.latest,) if self.latest is not None and is_changed else ()

    @property
    def app_id(self) -> str:
        """The app id of the attempt to make; "" for none."""
        return attempt_id(self.key, self.number) if self.starts else ""

    def why(self, changed: str = "") -> str:
        """Return the reasons in one line; `changed` replaces the first difference from the attempt before."""
        needs = {need.job for need in self.launch.needs} if self.launch is not None else set()
        reasons = [
            changed if changed and reason.code == "spec_changed" and self.changes else str(reason)
            for reason in in_brief(self.reasons, needs)
        ]
        return "; ".join([*reasons, *filter(None, [self.attribution])])

    @property
    def why_in_brief(self) -> str:
        """Return the reasons in one line, with the names of changed fields and without their values."""
        if not self.changes:
            return self.why()
        paths = dict.fromkeys(diff.field(change.path) for change in self.changes)
        return self.why(f"changed: {listing([*paths], 3)}")

    def __str__(self) -> str:
        """The step's line, its changes, stops and notes indented below it. Ends with a line end."""
        several = len(self.changes) > 1  # a single change is on the step's line, as the deciding reason
        lines = [f"{self.mark:<3} {self.key}: {self.why(f'{len(self.changes)} changes' if several else '')}"]
        if several:
            lines += [f"      {change}" for change in self.changes]
        if self.after:
            lines.append(f"      after {', '.join(self.after)}")
        if self.has_effects:
            lines += [f"      stops {stop.app_id} ({stop.state})" for stop in self.stops]
            lines += [f"      withdraws {waiting.app_id} ({waiting.state})" for waiting in self.withdraws]
            lines += [f"      note: {note}" for note in self.notes]
        return "".join(f"{line}\n" for line in lines)


def in_brief(reasons: Sequence[Reason], needs: Container[str] = ()) -> Iterator[Reason]:
    """Yield the reasons, and one for all needs of which the same is said: `a and 58 more will run`."""
    groups: dict[tuple[ReasonCode, str, str] | int, list[str]] = {}
    for at, reason in enumerate(reasons):
        before, name, after = _around_need(reason, needs)
        groups.setdefault((reason.code, before, after) if name else at, []).append(name)
    for key, names in groups.items():
        if isinstance(key, int):
            yield reasons[key]
            continue
        code, before, after = key
        if after and len(names) > 1:
            names = sorted(names, key=natural)
            after = after.replace("is ", "are ", 1).replace("has ", "have ", 1)
        shown = some_of(names, _CHANGED if after else _OTHERS)
        yield Reason(code, detail=" ".join(filter(None, (before, shown, after))))


def _around_need(reason: Reason, needs: Container[str]) -> tuple[str, str, str]:
    """Divide the detail of a reason about one need at its name; the name is "" for any other reason."""
    if reason.code == "needs_failed":
        return "", reason.detail, ""
    first, _, after = reason.detail.partition(" ")
    before, _, last = reason.detail.rpartition(" ")
    if reason.code != "needs_changed" or first not in needs:
        return before, last if before in OTHER_NEEDS else "", ""
    return "", first, after


def submitter(attempt: Attempt) -> str:
    """Return the client that is submitting the attempt; "" for none."""
    return attempt.owner if guard_state(attempt) == "submitting" else ""


def is_abandoned(attempt: Attempt) -> bool:
    """Return whether the attempt waits, for others or in line, and its holder has died."""
    return attempt.state in WAITING_STATES and not attempt.owner


def is_unfinished(attempt: Attempt) -> bool:
    """Return whether the attempt is an unfinished submission whose owner has died."""
    return guard_state(attempt) == "unfinished"


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Return the steps, each behind the steps of the jobs that it needs."""
    from graphlib import TopologicalSorter

    of_job = {step.key: index for index, step in enumerate(steps) if step.launch is not None}
    before = {
        index: [of_job[key] for key in keys_after(step) if key in of_job] for index, step in enumerate(steps)
    }
    return [steps[index] for index in TopologicalSorter(before).static_order()]


def keys_after(step: Step) -> list[JobKey]:
    """Return the keys of the jobs that the step waits for."""
    return [JobKey(step.key.project, step.key.target, job) for job in step.after]


# -- reasons -------------------------------------------------------------------------------------------------


ReasonCode = Literal[
    "no_attempt", "spec_changed", "last_failed", "last_cancelled", "last_lost", "requested", "policy",
    "inputs_changed", "trigger_fired", "files_edited", "needs_changed", "needs_failed", "max_attempts",
    "drift", "interrupted", "in_progress", "superseded", "orphan", "disabled", "protected", "over_capacity",
    "record_unreadable", "refused", "unapproved", "already_running", "already_succeeded", "origin_conflict",
    "duplicate_job", "unknown_need", "needs_cycle", "attempt_changed", "already_applied", "expired",
    "not_yet_valid", "other_engine", "image_changed", "other_origin",
]  # fmt: skip
REASONS: Final[dict[ReasonCode, str]] = {
    # Why a job gets the action that the plan shows.
    "no_attempt": "no attempt of this job is on record",
    "spec_changed": "the document is not the one of the latest attempt",
    "last_failed": "the latest attempt failed",
    "last_cancelled": "the latest attempt was cancelled",
    "last_lost": "the latest attempt was lost: it started, and nothing of it or of its outcome is left",
    "requested": "asked for on the command line",
    "policy": "a policy in the job's `lifecycle` decides",
    "inputs_changed": "files that the job's `inputs` names are not those that its latest attempt ran with, "
    "or files of its workspace changed while that waited",
    "trigger_fired": "a trigger in the job's `rerun_on` fired",
    "files_edited": "files of the checkout that the job runs are not what its latest attempt ran",
    "needs_changed": "a job that it needs was added, removed or changed since, or will run",
    "needs_failed": "a job that it needs has not succeeded",
    "max_attempts": "the automatic re-runs of this document are used up",
    "drift": "something of the latest attempt was removed or stopped by hand, such as its output folder",
    "interrupted": "an earlier apply was interrupted while it submitted this attempt",
    "in_progress": "another apply is submitting this job at the moment",
    "superseded": "an older attempt is live beside a newer one",
    "orphan": "no job file declares this job any more",
    "disabled": "the job file says `enabled: false`",
    "protected": "the job file says `protect: true`, and its live attempt would have to be stopped",
    "over_capacity": "the job asks for more GPUs than there are, or for more cores than a replica can have",
    "record_unreadable": "the record of an attempt cannot be read",
    "refused": "the scheduler was asked with --check, and does not take the request",
    "unapproved": "no approval holds what the job would start or stop",
    "already_running": "an attempt of this document is running",
    "already_succeeded": "the latest attempt of this document succeeded",
    # Why a plan cannot be made.
    "origin_conflict": "the job belongs to another repository",
    "duplicate_job": "two launches claim one job",
    "unknown_need": "a job needs one that no file declares and that never ran",
    "needs_cycle": "jobs need each other in a circle",
    # Why a saved plan is refused.
    "attempt_changed": "the latest attempt is not the one that the plan was made for",
    "already_applied": "nothing is left for this plan to do",
    "expired": "the plan is too old",
    "not_yet_valid": "the plan was made at a time that this machine's clock has not reached",
    "other_engine": "the plan was made for another engine",
    "image_changed": "the name of an image means another image than in the plan",
    "other_origin": "the plan was made for another repository",
}
_NAMED: Final = frozenset({"needs_changed", "needs_failed"})
"""Codes whose text the phrase includes, because the detail is about another job."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for an action, or for refusing a saved plan.

    Attributes:
        code: what kind of reason; `REASONS` says what each means.
        path: the field that decides, such as `roles.trainer.args[3]` or `lifecycle.on_failed`; "" for none.
        old, new: its values, JSON-able; None where there is none.
        detail: further facts, as a phrase for users.
    """

    code: ReasonCode
    path: str = ""
    old: Any = None
    new: Any = None
    detail: str = ""

    def __str__(self) -> str:
        """Return one phrase: the path with its values and the detail, else the text of the code."""
        if self.code in _NAMED and self.detail:
            return f"{self.code} ({self.detail})"
        path = self.path and diff.field(self.path)
        change = " ".join(filter(None, (path, _values(self.path, self.old, self.new))))
        return " ".join(filter(None, (change, self.detail))) or REASONS[self.code]


def _values(path: str, old: Any, new: Any) -> str:
    """Return `old → new`; `= new` when no value was before, `(was old)` when none follows."""
    if HIDDEN in (old, new) and all(value in (HIDDEN, None) for value in (old, new)):
        return HIDDEN
    if new is None:
        return "" if old is None else f"(was {show_at(path, old)})"
    return f"= {show_at(path, new)}" if old is None else " → ".join(show_both(path, old, new))
