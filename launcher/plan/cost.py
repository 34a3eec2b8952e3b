"""Estimates of the durations and hours of attempts, as ranges. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

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
        """The range with the digits that saved plans keep."""
        return Spread(*(round(each, 6) for each in self))


class Estimate(NamedTuple):
    """The duration, core-hours and GPU-hours of an attempt, estimated by its job's last successes.

    Attributes:
        attempts: the number of successes, at least two.
        same_document: the successes ran the document to be started; else other documents.
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
    """The inverse of `Estimate.to_json`."""
    ranges = {name: Spread(**part) for name, part in found.items() if isinstance(part, dict)}
    return Estimate(found["attempts"], found["same_document"], **ranges)


def ranges_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part.rounded()._asdict() for name, part in fields.items() if isinstance(part, Spread)}


def in_hours(value: float) -> str:
    """`0.32`, `4.5`, `16`, `1,200`: two digits, or whole hours."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2g}"
