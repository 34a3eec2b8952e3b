"""The jobs that a job needs while steps are carried out: their order, and what an attempt waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter

from launcher.apply.engines import Engines
from launcher.apply.events import Events
from launcher.apply.submit import stop
from launcher.errors import SchedulerError, StaleError
from launcher.plan.step import Guard, Step
from launcher.specs.launch import JobKey
from launcher.specs.needs import StoodOn
from launcher.specs.outputs import jobs_read
from launcher.state.store import Store


def in_order(steps: Sequence[Step]) -> list[Step]:
    """The steps, each behind those of the jobs that it needs."""
    of_job = {step.key: index for index, step in enumerate(steps) if step.launch is not None}
    before = {
        index: [of_job[key] for key in keys_after(step) if key in of_job] for index, step in enumerate(steps)
    }
    return [steps[index] for index in TopologicalSorter(before).static_order()]


def keys_after(step: Step) -> list[JobKey]:
    """The keys of the jobs that it waits for."""
    return [JobKey(step.key.project, step.key.target, job) for job in step.after]


def pending(step: Step, engines: Engines, store: Store) -> tuple[StoodOn, ...]:
    """The attempts among the step's needs that have not succeeded yet.

    Raises SchedulerError for one that the scheduler cannot wait for.
    """
    found = tuple(each for each in step.needs if not _has_succeeded(each, engines, store))
    check_held(step, found, engines)
    return found


def check_held(step: Step, needs: Iterable[StoodOn], engines: Engines) -> None:
    """Raise SchedulerError when an attempt of the step cannot wait for one of these attempts."""
    if step.launch is None or not step.starts:
        return
    name = step.launch.scheduler
    for each in needs:
        if each.scheduler not in engines.get(name).holds:
            raise SchedulerError(
                f"it needs `{each.job}`, and an app of {name} cannot wait for one of {each.scheduler}"
                " (needs-across-engines)",
                hint=f"apply it once `{each.job}` has succeeded, or run both on one engine",
            )


def check_outputs(step: Step, engines: Engines) -> None:
    """Raise SchedulerError when the step reads an output folder of another engine, or of no job but a matrix.

    Job files that are compiled together have that said at the reference.
    """
    if step.launch is None or not step.starts:
        return
    read, scheduler = jobs_read(step.launch.app), engines.get(step.launch.scheduler)
    for each in step.needs:
        if each.job in read and (why := scheduler.unreadable(each.scheduler)):
            raise SchedulerError(
                f"it reads the output folder of `{each.job}`, which {each.scheduler} keeps, and {why}"
                " (needs-across-engines)",
                hint=f"run it and `{each.job}` on one engine",
            )
    unknown = [job for job in read if job not in {each.job for each in step.needs}]
    if unknown and step.kind != "resume":
        raise SchedulerError(
            f"it reads the output folder of `{unknown[0]}`, which is no job that it needs",
            hint="a matrix stands for its jobs: LAUNCHER_NEEDS lists each of them with its folder",
        )


def _has_succeeded(need: StoodOn, engines: Engines, store: Store) -> bool:
    entry = store.app(need.app_id)
    if entry is not None and entry.state == "succeeded":
        return True
    attempt = engines.get(need.scheduler).attempt(need.app_id)
    return attempt is not None and attempt.state == "succeeded"


def make_way(steps: Sequence[Step], *, engines: Engines, store: Store, events: Events) -> list[Step]:
    """Withdraw the attempts that wait, and stop those that run on what is stopped, the last ones first.

    Returns the steps without the stops that are done. Raises StaleError when an attempt has started that was
    waiting; the errors of schedulers.
    """
    touched = {step.key for step in steps if step.stops or step.withdraws}
    done: dict[JobKey, Step] = {}
    ordered = in_order(steps)
    for step in ordered:  # what a need is stopped for reaches all that follows
        if any(key in touched for key in keys_after(step)):
            touched.add(step.key)
    for step in reversed(ordered):
        for waiting in step.withdraws:
            _withdraw(waiting, step, engines=engines, store=store, events=events)
        if step.starts and any(key in touched for key in keys_after(step)):
            for old in step.stops:
                stop(old, step, engines=engines, store=store, events=events)
            done[step.key] = replace(step, stops=())
    return [done.get(step.key, step) if step.starts else step for step in steps]


def _withdraw(old: Guard, step: Step, *, engines: Engines, store: Store, events: Events) -> None:
    scheduler = engines.get(old.scheduler)
    withdrawn = scheduler.withdraw(old.app_id)
    found = scheduler.attempt(old.app_id)
    if found is not None:
        store.record(found)
    if withdrawn:
        events.emit("attempt_skipped", step.key, app_id=old.app_id, attempt=old.attempt, message="withdrawn")
    elif found is not None and found.state != "skipped":
        raise StaleError(
            f"{step.key}: expected {old}, found {found.state}",
            hint="plan again",
        )
