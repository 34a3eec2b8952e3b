"""Bind every launch that a plan starts to this machine, and check it with its scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from launcher.apply.engines import Engines
from launcher.apply.inputs import large_workspace_notes, untracked_notes
from launcher.apply.needs import check_held, check_outputs
from launcher.errors import LauncherError, SchedulerError
from launcher.plan.model import Plan
from launcher.plan.notation import is_workspace_digest
from launcher.plan.step import Guard, Step
from launcher.specs.binding import BoundLaunch
from launcher.specs.launch import JobKey


def bind_plan(plan: Plan, engines: Engines) -> Plan:
    """The plan with every launch that it starts bound. Raises SchedulerError with every refusal."""
    refused = Refusals()
    steps: list[Step] = []
    for step in plan.steps:
        with refused.of(step.key):
            steps.append(_bind(step, engines))
    refused.check()
    return replace(plan, steps=tuple(steps))


def dry_run_plan(plan: Plan, engines: Engines) -> Plan:
    """The plan with every launch that it starts bound and dry-run, and with notes of the schedulers.

    Raises SchedulerError with every refusal: of a request, or of a stop that a scheduler cannot reach.
    """
    refused = Refusals()
    steps: list[Step] = []
    for step in plan.steps:
        with refused.of(step.key):
            _check_reach(step, engines)
            steps.append(_dry_run(step, engines))
    refused.check()
    checked = replace(plan, steps=tuple(steps)).with_notes(_kept_notes(plan, engines))
    return replace(checked, steps=tuple(_with_untracked(step, engines) for step in checked.steps))


class Refusals:
    """The refusals of schedulers for several jobs, raised as one error."""

    def __init__(self) -> None:
        self._found: list[tuple[JobKey, LauncherError]] = []

    @contextmanager
    def of(self, key: JobKey) -> Iterator[None]:
        """Record the error that the body of a `with` raises for this job."""
        try:
            yield
        except LauncherError as error:
            self._found.append((key, error))

    def check(self) -> None:
        """Raise SchedulerError when a job was refused."""
        if self._found:
            lines = [f"{key.job}: {error}" for key, error in self._found]
            hints = dict.fromkeys(error.hint for _, error in self._found if error.hint)
            raise SchedulerError("\n".join(lines), hint="; ".join(hints) or None)


def _bind(step: Step, engines: Engines) -> Step:
    if not step.starts or step.launch is None:
        return step
    check_held(step, (each for each in step.needs if each.job in step.after), engines)
    check_outputs(step, engines)
    return replace(step, bound=engines.bind(step.launch))


def _dry_run(step: Step, engines: Engines) -> Step:
    if not step.starts or step.launch is None:
        return step
    check_held(step, (each for each in step.needs if each.job in step.after), engines)
    check_outputs(step, engines)
    bound = engines.bind(step.launch)
    info = engines.dry_run(bound)
    notes = (*getattr(info.request, "notes", ()), *_workspace_notes(bound, engines))
    return replace(step, bound=bound._replace(info=info), notes=(*step.notes, *notes))


def _with_untracked(step: Step, engines: Engines) -> Step:
    """The step with notes on its workspace, where that is what changed."""
    if step.launch is None or not any(is_workspace_digest(change.path) for change in step.changes):
        return step
    try:
        workspace = (step.bound or engines.bind(step.launch)).workspace
    except LauncherError:  # it is held, and would be refused
        return step
    notes = tuple(untracked_notes(workspace, step.changes)) if workspace is not None else ()
    return replace(step, notes=(*step.notes, *notes))


def _check_reach(step: Step, engines: Engines) -> None:
    """Raise SchedulerError when the step would stop or resume an attempt on an unobserved engine."""
    goes_on = [Guard.of(step.latest)] if step.kind == "resume" and step.latest is not None else []
    for old in (*step.stops, *step.withdraws, *step.leftovers, *goes_on):
        engines.get(old.scheduler).check_cancel(old.app_id)


def _workspace_notes(bound: BoundLaunch, engines: Engines) -> tuple[str, ...]:
    """Notes on a large workspace, and on one that the scheduler neither builds into images nor runs in."""
    launch = bound.launch
    if launch.workspace is None:
        return ()
    scheduler = engines.get(launch.scheduler)
    large = tuple(large_workspace_notes(launch.workspace))
    if scheduler.builds_workspaces or scheduler.run_opts().get("cwd") is not None:
        return large
    unused = f"the workspace `{launch.workspace.name}` is not used: {launch.scheduler} runs in the image"
    return (unused, *large)


def _kept_notes(plan: Plan, engines: Engines) -> dict[JobKey, tuple[str, ...]]:
    """The schedulers' notes on attempts that stay as they are. Each scheduler is called once."""
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
