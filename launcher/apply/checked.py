"""Every launch that a plan starts, bound to this machine, and what its scheduler says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from launcher.apply.engines import Engines
from launcher.errors import LauncherError, SchedulerError
from launcher.plan.model import Plan
from launcher.plan.step import Guard, Step
from launcher.specs.binding import BoundLaunch
from launcher.specs.launch import JobKey


def bound(plan: Plan, engines: Engines) -> Plan:
    """The plan with every launch that it starts bound. Raises SchedulerError with all that is refused."""
    return _each(plan, lambda step: _bound(step, engines))


def dry_run(plan: Plan, engines: Engines) -> Plan:
    """The plan with every launch that it starts bound and dry-run, and with notes of the schedulers.

    Raises SchedulerError with all that is refused: a request, or a stop that a scheduler cannot reach.
    """
    made = _each(plan, lambda step: _dry_run(step, engines))
    return made.with_notes(_kept_notes(made, engines))


def _each(plan: Plan, prepare: Callable[[Step], Step]) -> Plan:
    steps: list[Step] = []
    refusals: list[tuple[JobKey, LauncherError]] = []
    for step in plan.steps:
        try:
            steps.append(prepare(step))
        except LauncherError as error:
            refusals.append((step.key, error))
    if refusals:
        lines = [f"{key.job}: {error}" for key, error in refusals]
        hints = dict.fromkeys(error.hint for _, error in refusals if error.hint)
        raise SchedulerError("\n".join(lines), hint="; ".join(hints) or None)
    return replace(plan, steps=tuple(steps))


def _bound(step: Step, engines: Engines) -> Step:
    if not step.starts or step.launch is None:
        return step
    return replace(step, bound=engines.bind(step.launch))


def _dry_run(step: Step, engines: Engines) -> Step:
    _check_reach(step, engines)
    step = _bound(step, engines)
    if step.bound is None:
        return step
    info = engines.dry_run(step.bound)
    notes = (*getattr(info.request, "notes", ()), *_workspace_notes(step.bound, engines))
    return replace(step, bound=step.bound._replace(info=info), notes=notes or step.notes)


def _check_reach(step: Step, engines: Engines) -> None:
    """Raises SchedulerError when the step would stop or resume something at an engine that is not asked."""
    goes_on = [Guard.of(step.latest)] if step.kind == "resume" and step.latest is not None else []
    for old in (*step.stops, *step.leftovers, *goes_on):
        engines.get(old.scheduler).check_cancel(old.app_id)


def _workspace_notes(bound: BoundLaunch, engines: Engines) -> tuple[str, ...]:
    """A note where the scheduler neither builds the workspace into images nor runs in it."""
    launch = bound.launch
    scheduler = engines.get(launch.scheduler)
    if launch.workspace is None or scheduler.builds_workspaces or scheduler.run_opts().get("cwd") is not None:
        return ()
    return (f"the workspace `{launch.workspace.name}` is not used: {launch.scheduler} runs in the image",)


def _kept_notes(plan: Plan, engines: Engines) -> dict[JobKey, tuple[str, ...]]:
    """What the schedulers say of attempts that stay as they are. Each scheduler is asked once."""
    kept: dict[str, dict[str, Step]] = {}
    for step in plan.steps:
        stays = step.kind in ("keep", "hold") and bool(step.guard.app_id)
        if stays and step.launch is not None and step.launch.scheduler == step.guard.scheduler:
            kept.setdefault(step.guard.scheduler, {})[step.guard.app_id] = step
    notes: dict[JobKey, tuple[str, ...]] = {}
    for scheduler, steps in kept.items():
        apps = {app_id: step.launch.app for app_id, step in steps.items() if step.launch is not None}
        said = engines.get(scheduler).kept_notes(apps)
        notes |= {steps[app_id].key: tuple(lines) for app_id, lines in said.items() if lines}
    return notes
