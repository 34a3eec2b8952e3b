"""The plan: one step per job, its flags, digest and exit code. Values only; `str(plan)` is stable."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from launcher.dataclass import dataclass, field, replace
from launcher.plan.budget import overruns
from launcher.plan.step import MARKS, ActionKind, Guard, ReasonCode, Step
from launcher.specs.launch import JobKey
from launcher.specs.notify import Destination

if TYPE_CHECKING:
    from launcher.plan.effects import Effect, Refusal

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
    def is_estimated(self) -> bool:
        """Whether the cost of a job is known, so that the plan may exceed a budget."""
        return any(step.estimate is not None for step in self.steps)

    @property
    def is_in_order(self) -> bool:
        """Whether the jobs that start are in the order of their turns, too."""
        places = [step.place for step in self.steps if step.starts]
        return places == sorted(places)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Everything that it starts and stops."""
        from launcher.plan.effects import effects_of

        return effects_of(self.steps)

    @property
    def receivers(self) -> tuple[Destination, ...]:
        """The receivers of the outcomes of the attempts that it starts, as their projects name them."""
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
        """The plan with an id and an expiry time, ready to be saved."""
        start = int(created_at)
        known = self.commits if commits is None else commits
        return replace(
            self, plan_id=plan_id, created_at=start, expires_at=start + int(lifetime_s), commits=dict(known)
        )

    def with_notes(self, notes: Mapping[JobKey, Sequence[str]]) -> Plan:
        """The plan with further notes on steps, by job key."""
        steps = (
            replace(step, notes=(*step.notes, *more)) if (more := notes.get(step.key)) else step
            for step in self.steps
        )
        return replace(self, steps=tuple(steps)) if notes else self

    def summary(self) -> str:
        """`Plan: 2 to create, 1 to replace, 7 unchanged, 1 held, 1 cannot be planned`."""
        counts = self.counts()
        edited = sum(step.is_edited for step in self.steps)
        words = {**_COUNT_WORDS, "keep": f"unchanged, {edited} of them edited" if edited else "unchanged"}
        parts = [f"{counts[kind]} {word}" for kind, word in words.items() if counts[kind]]
        if self.is_empty and not self.problems:
            parts.insert(0, "no changes")
        if self.problems:
            parts.append(f"{len({problem.key for problem in self.problems})} cannot be planned")
        if self.orphans:
            parts.append(f"{len(self.orphans)} orphaned")
        return "Plan: " + ", ".join(parts)

    def __str__(self) -> str:
        """One line per job that is not kept, its changes below it; the counts; the plan digest."""
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
    """Whether the plan's effects are the approved ones; stopping fewer attempts than approved is fine."""
    from launcher.plan.effects import covers

    return covers(approved_digest, plan.plan_digest)


FailOn = Literal["held", "orphan", "drift", "edited"]
FAIL_ON: Final[dict[FailOn, str]] = {
    "held": "a job is held and needs attention",
    "orphan": "a live attempt belongs to no job file any more, pruned or not",
    "drift": "something of a job's latest attempt was removed or stopped by hand",
    "edited": "files that an unchanged job runs are not what its success ran",
}


def matches(plan: Plan, fail_on: Collection[str]) -> dict[FailOn, list[JobKey]]:
    """The conditions of `fail_on` that the plan meets, each with its jobs."""
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

    A job that is held is no change.
    """
    if plan.problems:
        return 1
    if matches(plan, fail_on) or overruns(plan.steps):
        return 3
    return 2 if detailed and not plan.is_empty else 0


def _with_reason(steps: Collection[Step], code: str) -> list[JobKey]:
    return [step.key for step in steps if any(reason.code == code for reason in step.reasons)]
