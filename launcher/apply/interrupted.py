"""Describe what an interrupt leaves of a begun step."""

from __future__ import annotations

from launcher.apply.engines import Engines
from launcher.errors import LauncherError
from launcher.plan.step import Step
from launcher.specs.attempt import Attempt


def what_became(step: Step, engines: Engines) -> str:
    """Describe the present states of a step's attempts at their engines."""
    words = []
    try:
        if step.launch is not None and step.starts:
            made = engines.get(step.launch.scheduler).attempt(step.app_id)
            words.append(_left(made, step.app_id, "was taken back"))
        for old in step.stops:
            words.append(_left(engines.get(old.scheduler).attempt(old.app_id), old.app_id, "was stopped"))
    except LauncherError as error:
        words.append(f"cannot find out what is left: {error}")
    return "; ".join(words)


def _left(attempt: Attempt | None, app_id: str, gone: str) -> str:
    if attempt is None:
        return f"{app_id} {gone}"
    if attempt.is_live:
        return f"{app_id} goes on (`launcher cancel {app_id}` stops it)"
    return f"{app_id} has ended: {attempt.state}"
