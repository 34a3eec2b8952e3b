"""The exit code of `launcher plan`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

from launcher.plan.model import Plan
from launcher.plan.step import Step
from launcher.specs.launch import JobKey

FailOn = Literal["held", "orphan", "drift", "edited"]
FAIL_ON: Final[dict[FailOn, str]] = {
    "held": "a job is held and needs attention",
    "orphan": "a live attempt belongs to no job file any more, pruned or not",
    "drift": "something of a job's latest attempt was removed or stopped by hand",
    "edited": "files that an unchanged job runs are not what its success ran",
}


def matches(plan: Plan, fail_on: Collection[str]) -> dict[FailOn, list[JobKey]]:
    """The conditions of `fail_on` that the plan meets, each with its jobs."""
    found: dict[FailOn, list[JobKey]] = {
        "held": [step.key for step in plan.steps if step.kind == "hold"],
        "orphan": [orphan.key for orphan in plan.orphans] + _with_reason(plan.steps, "orphan"),
        "drift": _with_reason(plan.steps, "drift"),
        "edited": [step.key for step in plan.steps if step.is_edited],
    }
    return {word: keys for word, keys in found.items() if keys and word in fail_on}


def plan_exit_code(plan: Plan, *, detailed: bool = False, fail_on: Collection[str] = ()) -> int:
    """1 with problems, 3 when `fail_on` matches, 2 for pending changes when `detailed`, else 0.

    A job that is held is no change.
    """
    if plan.problems:
        return 1
    if matches(plan, fail_on):
        return 3
    return 2 if detailed and not plan.is_empty else 0


def _with_reason(steps: Collection[Step], code: str) -> list[JobKey]:
    return [step.key for step in steps if any(reason.code == code for reason in step.reasons)]
