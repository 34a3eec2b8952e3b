"""Decide which steps turn the observed attempts into the desired ones. Pure: same input, same plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from launcher.errors import UsageError
from launcher.plan.decide import Desired, decide, history_of
from launcher.plan.model import Plan, PlanProblem, Selection
from launcher.plan.orphans import Scope, destroy, find_orphans, report, supersede
from launcher.plan.snapshot import Snapshot
from launcher.plan.step import Step
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey, Launch
from launcher.text import natural, nearest


def reconcile(
    desired: Sequence[Launch],
    snapshot: Snapshot,
    *,
    rerun: Collection[str] = (),
    retry_failed: bool = False,
    prune: bool = False,
    take_over: bool = False,
    scopes: Collection[Scope] = (),
) -> Plan:
    """Make the plan that turns the snapshot into the desired jobs.

    Args:
        rerun: jobs to run again whatever their outcome, each as `job` or `project/job`.
        retry_failed: run the jobs again whose latest attempt failed or was lost.
        prune: destroy orphans instead of reporting them.
        take_over: jobs of another origin become jobs of this one.
        scopes: where to look for orphans; nowhere by default.

    Raises UsageError when `rerun` names no job, several, or one that is disabled.
    """
    asked = asked_for(desired, rerun)
    live = _by_key(snapshot.live)
    steps: list[Step] = []
    problems = _problems(desired, snapshot.latest, take_over)
    faulty = {problem.key for problem in problems}
    for launch in desired:
        if launch.key not in faulty:
            job = Desired.of(launch, rerun=launch.key in asked, retry_failed=retry_failed)
            steps += _steps(job, snapshot, live.get(launch.key, ()))
    orphans = find_orphans(snapshot.live, {launch.key for launch in desired}, scopes)
    if prune:
        steps += [destroy(orphan) for orphan in orphans]
    return Plan(
        steps=tuple(sorted(steps, key=_place)),
        orphans=() if prune else tuple(report(orphan) for orphan in orphans),
        problems=tuple(problems),
        selection=Selection(
            rerun=tuple(sorted(rerun)), retry_failed=retry_failed, prune=prune, take_over=take_over
        ),
        engines=_engines(steps, snapshot.fingerprints),
    )


def _steps(job: Desired, snapshot: Snapshot, live: Sequence[Attempt]) -> list[Step]:
    """The job's step; where that has no effects, also the stops of older attempts beside the newest one."""
    history = history_of(job, snapshot, live)
    step = decide(job, history)
    if step.has_effects or history.judged is None or job.launch.lifecycle.protect:
        return [step]
    older = [attempt for attempt in history.live if attempt.number < history.judged.number]
    return [step, *(supersede(attempt, history.judged.number) for attempt in older)]


def _by_key(attempts: Iterable[Attempt]) -> dict[JobKey, list[Attempt]]:
    grouped: dict[JobKey, list[Attempt]] = {}
    for attempt in attempts:
        grouped.setdefault(attempt.key, []).append(attempt)
    return grouped


def _place(step: Step) -> tuple[Any, ...]:
    """By job key, the numbers in names in numeric order; of one job, the older attempt first."""
    project, target, job = step.key
    return project, target, natural(job), job, step.guard.attempt


def asked_for(desired: Sequence[Launch], rerun: Collection[str]) -> set[JobKey]:
    """The jobs that --rerun names."""
    return {_named(desired, name) for name in rerun}


def _named(desired: Sequence[Launch], name: str) -> JobKey:
    named = {launch.key: launch for launch in desired if name in (launch.key.job, str(launch.key))}
    if not named:
        names = sorted({launch.key.job for launch in desired} | {str(launch.key) for launch in desired})

        near = nearest(name, names)
        hint = f"did you mean {near}?" if near else f"the jobs here: {', '.join(names) or 'none'}"
        raise UsageError(f"--rerun {name}: no such job in the given files", hint=hint)
    if len(named) > 1:
        hint = f"say which one: {', '.join(sorted(map(str, named)))}"
        raise UsageError(f"--rerun {name}: several jobs have this name", hint=hint)
    [(key, launch)] = named.items()
    if not launch.enabled:
        raise UsageError(f"--rerun {name}: the job is disabled", hint=f"set `enabled: true` in {launch.file}")
    return key


def _problems(
    desired: Sequence[Launch], latest: Mapping[JobKey, Attempt], take_over: bool
) -> list[PlanProblem]:
    problems = []
    first: dict[JobKey, Launch] = {}
    for launch in desired:
        if launch.key in first:
            problems.append(_duplicate(first[launch.key], launch))
        elif not take_over and has_other_origin(launch, latest.get(launch.key)):
            problems.append(_conflict(launch, latest[launch.key]))
        first.setdefault(launch.key, launch)
    return sorted(problems, key=lambda problem: problem.key)


def has_other_origin(launch: Launch, latest: Attempt | None) -> bool:
    """Whether the job's attempts belong to another repository. One without an origin belongs to all."""
    return latest is not None and latest.origin not in ("", launch.origin)


def _conflict(launch: Launch, latest: Attempt) -> PlanProblem:
    key = launch.key
    return PlanProblem(
        key=key,
        code="origin_conflict",
        message=f"`{key.job}` in project `{key.project}` was last applied from {latest.origin}"
        f" ({latest.path})",
        hint=f"set `project:` in {launch.file}, or pass --take-over to make the job this repository's",
    )


def _duplicate(one: Launch, other: Launch) -> PlanProblem:
    return PlanProblem(
        key=one.key,
        code="duplicate_job",
        message=f"declared by {one.file} and by {other.file}",
        hint="give one of them another `name:` or `project:`",
    )


def _engines(steps: Iterable[Step], fingerprints: Mapping[str, str]) -> dict[str, str]:
    """The fingerprints of the schedulers that the steps start or stop something on."""
    touched = {step.launch.scheduler for step in steps if step.launch is not None}
    touched |= {stop.scheduler for step in steps for stop in step.stops}
    return {name: fingerprint for name, fingerprint in sorted(fingerprints.items()) if name in touched}
