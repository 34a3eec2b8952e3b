"""Check whether a plan may be carried out."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.errors import BlockedError, LauncherError
from launcher.plan.model import Plan
from launcher.plan.reasons import Reason
from launcher.specs.launch import JobKey


def check_plan(plan: Plan) -> None:
    """Raise LauncherError when jobs in the plan cannot be planned, naming all of them."""
    if plan.problems:
        hints = dict.fromkeys(problem.hint for problem in plan.problems if problem.hint)
        raise LauncherError(
            "\n".join(f"{p.key.job}: {p.message}" for p in plan.problems), hint="; ".join(hints)
        )


def check_approved(plan: Plan, *, allow_destructive: bool) -> None:
    """Raise BlockedError when a job is protected or can never start on this machine, or when stopping a live
    attempt was not approved."""
    check_plan(plan)
    protected = [str(step.key) for step in plan.steps if step.blocked == "protected"]
    if protected:
        raise BlockedError(
            f"running attempts of protected jobs would have to be stopped: {', '.join(protected)}",
            hint="set `protect: false` in the job file first, or wait for the attempt to end",
        )
    check_capacity({step.key: step.reasons[0] for step in plan.steps if step.blocked == "over_capacity"})
    destructive = unapproved_stops(plan)
    if destructive and not allow_destructive:
        has_file = any(step.kind == "replace" and str(step.key) in destructive for step in plan.steps)
        lifecycle = ", or set `on_change: replace` in the lifecycle of the job" if has_file else ""
        raise BlockedError(
            f"the plan stops running attempts: {', '.join(destructive)}",
            hint=f"pass --allow-destructive{lifecycle}",
        )


def check_capacity(lacks: Mapping[JobKey, Reason]) -> None:
    """Raise BlockedError with every job that this machine can never start."""
    if lacks:
        raise BlockedError(
            "\n".join(f"{key.job} {lack.detail}" for key, lack in lacks.items()),
            hint="ask for fewer, or apply it on a machine that has them; nothing was submitted",
        )


def unapproved_stops(plan: Plan) -> list[str]:
    """The jobs of which a running attempt is stopped, and whose file does not agree to it."""
    return [str(step.key) for step in plan.steps if step.destructive and not step.consented]
