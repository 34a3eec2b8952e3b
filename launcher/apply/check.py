"""Ask the schedulers of a plan whether they take the requests of its new attempts (`--check`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.apply.engines import Engines
from launcher.plan.model import Plan
from launcher.plan.step import Reason, Step
from launcher.schedulers.staged import Verdict
from launcher.specs.launch import JobKey


def ask_schedulers(
    plan: Plan, engines: Engines
) -> tuple[dict[JobKey, Reason], dict[JobKey, tuple[str, ...]]]:
    """Ask about the requests of a dry-run plan, except for attempts to resume, which were submitted before.

    Returns job → why its request is refused, and job → a note on a request that was not judged.
    """
    asked: dict[str, dict[str, Step]] = {}  # scheduler → app id → step
    for step in plan.steps:
        if step.starts and step.kind != "resume" and step.launch is not None:
            asked.setdefault(step.launch.scheduler, {})[step.app_id] = step
    refused: dict[JobKey, Reason] = {}
    notes: dict[JobKey, tuple[str, ...]] = {}
    for name, steps in asked.items():
        requests = {
            app_id: each.bound.info for app_id, each in steps.items() if each.bound and each.bound.info
        }
        for app_id, verdict in engines.get(name).check(requests).items():
            key = steps[app_id].key
            if verdict.refusal:
                refused[key] = _reason(name, verdict, steps[app_id])
            else:
                notes[key] = (f"not checked whether {name} takes the request: {verdict.unchecked}",)
    return refused, notes


def _reason(scheduler: str, verdict: Verdict, step: Step) -> Reason:
    value: Any = step.document if verdict.path else None
    for part in filter(None, verdict.path.split(".")):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        return Reason("refused", detail=f"{scheduler} refuses the request: {verdict.refusal}")
    return Reason("refused", verdict.path, new=value, detail=f"is refused by {scheduler}: {verdict.refusal}")
