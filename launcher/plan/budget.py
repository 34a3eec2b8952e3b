"""The time and hours that the jobs started by a plan take, and the budgets that they exceed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from launcher.plan.cost import UNITS, Spread, in_hours, ranges_json
from launcher.plan.step import Step
from launcher.specs.jobkey import JobKey

_MOST_NAMED: Final = 3


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
    """The sum over the steps that start."""
    starting = [step.estimate for step in steps if step.starts]
    known = [each for each in starting if each is not None]
    return PlanTotal(
        len(known),
        len(starting) - len(known),
        _sum([each.core_hours for each in known]),
        _sum([each.gpu_hours for each in known]),
    )


def overruns(steps: Iterable[Step]) -> list[Overrun]:
    """The budgets that the medians of the steps that start exceed, by project and target.

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
    """The sum of independent amounts: their deviations partly cancel out."""
    known = [each for each in ranges if each is not None]
    if not known:
        return None
    median = sum(each.median for each in known)
    below = sum((each.median - each.low) ** 2 for each in known) ** 0.5
    above = sum((each.high - each.median) ** 2 for each in known) ** 0.5
    return Spread(median, median - below, median + above)
