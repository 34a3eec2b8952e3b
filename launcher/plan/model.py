"""The plan: one step per job, its flags, digest, hours and exit code. Values only; `str(plan)` is stable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from launcher.dataclass import dataclass, field, replace
from launcher.plan.step import (
    MARKS,
    UNITS,
    ActionKind,
    Guard,
    ReasonCode,
    Spread,
    Step,
    in_hours,
    ranges_json,
)
from launcher.specs.launch import JobKey, Launch
from launcher.specs.notify import Destination

if TYPE_CHECKING:
    from launcher.plan.effects import Effect, Refusal

_MOST_NAMED: Final = 3
_COUNT_WORDS: Final[dict[ActionKind, str]] = {
    "create": "to create",
    "replace": "to replace",
    "rerun": "to re-run",
    "resume": "to resume",
    "destroy": "to destroy",
    "keep": "unchanged",
    "hold": "held",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A live attempt whose job is in no file any more. The plan does not stop it."""

    key: JobKey
    path: str
    guard: Guard

    def __str__(self) -> str:
        return f"{self.key}: {self.guard} of {self.path}, which no longer declares it; --prune destroys it"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    """The reason why a job cannot be planned. A plan with problems must not be applied."""

    key: JobKey
    code: ReasonCode
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message} (hint: {self.hint})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The flags that a plan was made with."""

    select: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()
    retry_failed: bool = False
    prune: bool = False
    take_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that an apply would do, and why. Steps are sorted by job key, numbers by their values.

    Attributes:
        engines: scheduler → fingerprint of the engine, for the schedulers that the steps touch.
        images: scheduler → name of an image of the jobs that start → its id, where the engine has it.
        plan_id, created_at, expires_at: given by `stamped`; "" and 0 (seconds since the epoch) before.
        commits: origin → git commit of its job files, with `-dirty` when the tree was.
        turns: short sentences about jobs that it starts and that have to take turns on this machine.
        shared: sentences about lines of launcher.toml and of parents that change several of its jobs.
        unapproved: effects that were taken out of the plan, since no approval holds them; not saved.
    """

    steps: tuple[Step, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    problems: tuple[PlanProblem, ...] = ()
    selection: Selection = Selection()
    engines: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    turns: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    unapproved: tuple[Refusal, ...] = field(default=(), compare=False)
    plan_id: str = ""
    created_at: int = 0
    expires_at: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the plan starts and stops no attempt."""
        return not any(step.has_effects for step in self.steps)

    @property
    def unapproved_stops(self) -> list[str]:
        """The jobs whose running attempt it stops although their job file does not consent."""
        return [str(step.key) for step in self.steps if step.destructive and not step.consented]

    @property
    def is_estimated(self) -> bool:
        """Whether the cost of any job is known, so that the plan may exceed a budget."""
        return any(step.estimate is not None for step in self.steps)

    @property
    def is_in_order(self) -> bool:
        """Whether the jobs that start are also in the order of their turns."""
        places = [step.place for step in self.steps if step.starts]
        return places == sorted(places)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """All starts and stops of the plan."""
        from launcher.plan.effects import effects_of

        return effects_of(self.steps)

    @property
    def receivers(self) -> tuple[Destination, ...]:
        """The receivers that the projects name for the outcomes of the attempts that the plan starts."""
        starting = (step.launch for step in self.steps if step.starts and step.launch is not None)
        return tuple(dict.fromkeys(each for launch in starting for each in launch.notify))

    @property
    def plan_digest(self) -> str:
        """The digest of all effects, which a user approves."""
        from launcher.plan.effects import plan_digest

        return plan_digest(self.effects)

    def counts(self) -> dict[ActionKind, int]:
        """The number of steps of each kind; every kind has an entry."""
        kinds = [step.kind for step in self.steps]
        return {kind: kinds.count(kind) for kind in MARKS}

    def stamped(
        self,
        *,
        plan_id: str,
        created_at: float,
        lifetime_s: float = 24 * 3600,
        commits: Mapping[str, str] | None = None,
    ) -> Plan:
        """Return the plan with an id and an expiry time, ready to be saved."""
        start, end = int(created_at), int(created_at) + int(lifetime_s)
        known = dict(self.commits if commits is None else commits)
        return replace(self, plan_id=plan_id, created_at=start, expires_at=end, commits=known)

    def with_notes(self, notes: Mapping[JobKey, Sequence[str]]) -> Plan:
        """Return the plan with further notes on steps, by job key."""
        steps = (
            replace(step, notes=(*step.notes, *more)) if (more := notes.get(step.key)) else step
            for step in self.steps
        )
        return replace(self, steps=tuple(steps)) if notes else self

    def summary(self) -> str:
        """`Plan: 2 to create, 1 to replace, 7 unchanged, 1 held, 1 cannot be planned`."""
        counts = self.counts()
        edited = sum(step.is_edited for step in self.steps)
        words = {**_COUNT_WORDS, "keep": f"unchanged, {edited:,} of them edited" if edited else "unchanged"}
        parts = [f"{counts[kind]:,} {word}" for kind, word in words.items() if counts[kind]]
        if self.is_empty and not self.problems:
            parts.insert(0, "no changes")
        if self.problems:
            parts.append(f"{len({problem.key for problem in self.problems}):,} cannot be planned")
        if self.orphans:
            parts.append(f"{len(self.orphans):,} orphaned")
        return "Plan: " + ", ".join(parts)

    def __str__(self) -> str:
        """Return a line per job that is not kept, with its changes below; then the counts and the digest."""
        shown = [str(step) for step in self.steps if not step.is_quiet]
        shown += [f"?   {orphan}\n" for orphan in self.orphans]
        shown += [f"error: {problem}\n" for problem in self.problems]
        shown += [f"{each}\n" for each in self.shared]
        shown += [f"turns: {each}\n" for each in self.turns]
        shown.append(f"{self.summary()}\n")
        if not self.is_empty:
            shown.append(f"Digest: {self.plan_digest}\n")
        return "".join(shown)


def approves(approved_digest: str, plan: Plan) -> bool:
    """Return whether the plan's effects are the approved ones; fewer stops than the approved are fine."""
    from launcher.plan.effects import covers

    return covers(approved_digest, plan.plan_digest)


def attributed(plan: Plan, base: Sequence[Launch], name: str, here: str) -> Plan:
    """Return the plan with the origin of each effect: pending on the base `name` already, or from `here`.

    A start is pending when the base declares the same start; a stop, when the base does not declare its job.
    """
    from launcher.plan.effects import start_of, started_by

    starts = {start_of(launch) for launch in base}
    declared = {launch.key for launch in base if launch.enabled}
    steps = []
    for step in plan.steps:
        start = started_by(step)
        is_pending = start in starts if start is not None else step.key not in declared
        words = f"already pending on {name}" if is_pending else f"from {here}"
        steps.append(replace(step, attribution=words) if step.has_effects else step)
    return replace(plan, steps=tuple(steps))


FailOn = Literal["held", "orphan", "drift", "edited"]
FAIL_ON: Final[dict[FailOn, str]] = {
    "held": "a job is held and needs attention",
    "orphan": "a live attempt belongs to no job file any more, pruned or not",
    "drift": "something of a job's latest attempt was removed or stopped by hand",
    "edited": "files that an unchanged job runs are not what its success ran",
}


def matches(plan: Plan, fail_on: Collection[str]) -> dict[FailOn, list[JobKey]]:
    """Return the conditions of `fail_on` that the plan meets, each with its jobs."""
    if not fail_on:
        return {}
    found: dict[FailOn, list[JobKey]] = {
        "held": [step.key for step in plan.steps if step.kind == "hold"],
        "orphan": [orphan.key for orphan in plan.orphans] + _with_reason(plan.steps, "orphan"),
        "drift": _with_reason(plan.steps, "drift"),
        "edited": [step.key for step in plan.steps if step.is_edited],
    }
    return {word: keys for word, keys in found.items() if keys and word in fail_on}


def plan_exit_code(plan: Plan, *, detailed: bool = False, fail_on: Collection[str] = ()) -> int:
    """1 with problems, 3 over a budget or when `fail_on` matches, 2 for changes when `detailed`, else 0.

    A held job is not a change.
    """
    if plan.problems:
        return 1
    if matches(plan, fail_on) or overruns(plan.steps):
        return 3
    return 2 if detailed and not plan.is_empty else 0


def _with_reason(steps: Collection[Step], code: str) -> list[JobKey]:
    return [step.key for step in steps if any(reason.code == code for reason in step.reasons)]


# -- the hours that a plan takes, and the budgets that it exceeds --------------------------------------------


class PlanTotal(NamedTuple):
    """The sum over the jobs that a plan starts.

    Attributes:
        jobs: the number of jobs with an estimate.
        unknown: the number of jobs without one.
    """

    jobs: int
    unknown: int
    core_hours: Spread | None = None
    gpu_hours: Spread | None = None

    def to_json(self) -> dict[str, Any]:
        return {"jobs": self.jobs, "unknown": self.unknown, **ranges_json(self._asdict())}


class Overrun(NamedTuple):
    """The jobs of one project and target take more than their budget.

    Attributes:
        unit: a key of `UNITS`.
        hours: the median hours of the jobs with an estimate.
        costly: the jobs that take most of the hours, with their hours.
    """

    project: str
    target: str
    unit: str
    hours: float
    budget: float
    costly: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        """`vision: about 120 GPU-hours, 20 more than its budget of 100; most of it: train (80), …`."""
        session = JobKey(self.project, self.target, "").session
        most = ", ".join(f"{job} ({in_hours(hours)})" for job, hours in self.costly)
        return (
            f"{session}: about {in_hours(self.hours)} {UNITS[self.unit]}, "
            f"{in_hours(self.hours - self.budget)} more than its budget of {in_hours(self.budget)}; "
            f"most of it: {most}"
        )

    def to_json(self) -> dict[str, Any]:
        fields = {name: value for name, value in self._asdict().items() if name != "costly"}
        return {**fields, "hours": round(self.hours, 6)}

    @property
    def remedy(self) -> str:
        where = "budget" if self.target == "default" else f"budget.{self.target}"
        return f"apply fewer jobs with --select, or raise `{self.unit}` in [{where}] of launcher.toml"


def total_of(steps: Iterable[Step]) -> PlanTotal:
    """Return the sum over the steps that start a job."""
    starting = [step.estimate for step in steps if step.starts]
    known = [each for each in starting if each is not None]
    return PlanTotal(
        len(known),
        len(starting) - len(known),
        _sum([each.core_hours for each in known]),
        _sum([each.gpu_hours for each in known]),
    )


def overruns(steps: Iterable[Step]) -> list[Overrun]:
    """Return the budgets that the sum of the medians exceeds, by project and target.

    Where files of one project and target have different budgets, the smallest counts.
    """
    scopes: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        if step.starts and step.launch is not None and step.estimate is not None:
            scopes.setdefault((step.key.project, step.key.target), []).append(step)
    found = (_overrun(scope, unit, members) for scope, members in sorted(scopes.items()) for unit in UNITS)
    return [each for each in found if each is not None]


def _overrun(scope: tuple[str, str], unit: str, steps: Sequence[Step]) -> Overrun | None:
    given = (getattr(step.launch.budget, unit) for step in steps if step.launch is not None)
    budget = min((each for each in given if each is not None), default=None)
    hours = {step.key.job: part.median for step in steps if (part := getattr(step.estimate, unit))}
    if budget is None or sum(hours.values()) <= budget:
        return None
    costly = sorted(hours.items(), key=lambda each: (-each[1], each[0]))[:_MOST_NAMED]
    return Overrun(*scope, unit, sum(hours.values()), budget, tuple(costly))


def _sum(ranges: Iterable[Spread | None]) -> Spread | None:
    """Return the sum of independent amounts, whose deviations partly cancel each other out."""
    known = [each for each in ranges if each is not None]
    if not known:
        return None
    median = sum(each.median for each in known)
    below = sum((each.median - each.low) ** 2 for each in known) ** 0.5
    above = sum((each.high - each.median) ** 2 for each in known) ** 0.5
    return Spread(median, median - below, median + above)
