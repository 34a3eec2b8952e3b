"""Durations and hours that a plan is estimated to take, added up, and compared with budgets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from launcher.specs.jobkey import JobKey

if TYPE_CHECKING:
    from launcher.plan.step import Step

UNITS: Final[Mapping[str, str]] = {"gpu_hours": "GPU-hours", "core_hours": "core-hours"}
"""Field of an estimate and of a budget → its unit."""
_MOST_NAMED: Final = 3


class Range(NamedTuple):
    """A median, and the bounds within which about four of five attempts end."""

    median: float
    low: float
    high: float

    def times(self, factor: float) -> Range:
        return Range(*(factor * each for each in self))

    def to_json(self) -> dict[str, float]:
        return {name: round(value, 6) for name, value in self._asdict().items()}


class Estimate(NamedTuple):
    """How long an attempt runs and what it takes, by the last successes of its job.

    Attributes:
        attempts: their number, at least two.
        same_document: they ran the document that is to be started; else other ones.
        duration_s: from its start to its end; neither waiting nor time in line.
        core_hours: cores that its roles ask for, times the duration, and the CPU time of roles that ask for
            none; None where that is not on record.
        gpu_hours: GPUs that it asks for, times the duration; None where it asks for none.
    """

    attempts: int
    same_document: bool
    duration_s: Range
    core_hours: Range | None = None
    gpu_hours: Range | None = None

    def to_json(self) -> dict[str, Any]:
        given = {"attempts": self.attempts, "same_document": self.same_document}
        return {**given, **_ranges_json(self._asdict())}


def to_estimate(found: Mapping[str, Any]) -> Estimate:
    """The inverse of `Estimate.to_json`."""
    return Estimate(**{name: Range(**part) if type(part) is dict else part for name, part in found.items()})


class Total(NamedTuple):
    """What the jobs that a plan starts take together.

    Attributes:
        jobs: how many of them have an estimate.
        unknown: how many have none.
    """

    jobs: int
    unknown: int
    core_hours: Range | None = None
    gpu_hours: Range | None = None

    def to_json(self) -> dict[str, Any]:
        return {"jobs": self.jobs, "unknown": self.unknown, **_ranges_json(self._asdict())}


class Overrun(NamedTuple):
    """The jobs of one project and target take more than their budget.

    Attributes:
        unit: a key of `UNITS`.
        hours: the median of what those take that have an estimate.
        costly: the jobs that take most of it, with their hours.
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

    @property
    def remedy(self) -> str:
        where = "budget" if self.target == "default" else f"budget.{self.target}"
        return f"apply fewer jobs with --select, or raise `{self.unit}` in [{where}] of launcher.toml"


def total_of(steps: Iterable[Step]) -> Total:
    """The sum over the steps that start."""
    starting = [step.estimate for step in steps if step.starts]
    known = [each for each in starting if each is not None]
    return Total(
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


def _sum(ranges: Iterable[Range | None]) -> Range | None:
    """The sum of independent amounts: their deviations partly cancel out."""
    known = [each for each in ranges if each is not None]
    if not known:
        return None
    median = sum(each.median for each in known)
    below = sum((each.median - each.low) ** 2 for each in known) ** 0.5
    above = sum((each.high - each.median) ** 2 for each in known) ** 0.5
    return Range(median, median - below, median + above)


def _ranges_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part.to_json() for name, part in fields.items() if isinstance(part, Range)}


def in_hours(value: float) -> str:
    """`0.32`, `4.5`, `16`, `1,200`: two digits, or whole hours."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2g}"
