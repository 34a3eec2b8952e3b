"""Render estimates: durations and hours as ranges."""

from __future__ import annotations

from launcher.cli.render.values import duration
from launcher.plan.budget import Total
from launcher.plan.cost import UNITS, Estimate, in_hours
from launcher.text import plural

_LEAST_CORE_HOURS = 0.1
"""Fewer core-hours are not shown."""


def about(estimate: Estimate) -> str:
    """`about 2h00m (1h40m to 2h20m), 16 GPU-hours (13 to 19)`; core-hours for a job without GPUs."""
    took = estimate.duration_s
    bounds = f"({duration(took.low)} to {duration(took.high)})"
    return ", ".join([f"about {duration(took.median)} {bounds}", *_hours(estimate)[:1]])


def by_attempts(estimate: Estimate) -> str:
    """`by 5 attempts`, `by 5 attempts of other documents`."""
    others = "" if estimate.same_document else " of other documents"
    return f"by {plural(estimate.attempts, 'attempt')}{others}"


def in_total(total: Total) -> str:
    """`about 16 GPU-hours (13 to 19), 120 core-hours (90 to 150)`; "" where the total is zero or unknown."""
    hours = _hours(total)
    if not hours:
        return ""
    unknown = (
        f", without {plural(total.unknown, 'job')} of which too little is known" if total.unknown else ""
    )
    return f"about {', '.join(hours)}{unknown}"


def _hours(cost: Estimate | Total) -> list[str]:
    shown = {"gpu_hours": cost.gpu_hours, "core_hours": cost.core_hours}
    if cost.core_hours is not None and cost.core_hours.median < _LEAST_CORE_HOURS:
        shown["core_hours"] = None
    return [
        f"{in_hours(part.median)} {UNITS[unit]} ({in_hours(part.low)} to {in_hours(part.high)})"
        for unit, part in shown.items()
        if part
    ]
