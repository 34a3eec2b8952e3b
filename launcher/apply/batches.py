"""Batches: jobs of one matrix that their scheduler submits at once.

A batch takes the stages of a single job (`submit.py`), each for all of its jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from launcher.apply.dry_run import are_alike
from launcher.apply.engines import Engines
from launcher.dataclass import replace
from launcher.plan.model import Plan
from launcher.plan.step import Step, in_order, keys_after
from launcher.schedulers.staged import Batches
from launcher.specs.launch import JobKey, Launch
from launcher.turns.line import Limit


class Batch(NamedTuple):
    """The steps of one matrix that are submitted at once.

    Attributes:
        at_once: how many of their jobs may run at once; None for any number.
    """

    steps: tuple[Step, ...]
    at_once: int | None


def batches_of(steps: Sequence[Step], plan: Plan, engines: Engines, limits: Sequence[Limit]) -> list[Batch]:
    """Return the batches among the steps, which may be only a part of the plan's steps.

    Args:
        limits: the limits of groups that all jobs of the plan belong to.
    """
    return [
        Batch(tuple(group), matrix.limit(group, plan, limits)[0])
        for matrix in _matrices(steps, engines)
        for group in matrix.groups
        if len(group) > 1
    ]


def with_notes(plan: Plan, engines: Engines, limits: Sequence[Limit] = ()) -> Plan:
    """Return the plan with notes on matrix jobs that are submitted singly, and on limits without effect."""
    notes: dict[JobKey, tuple[str, ...]] = {}
    lines = list(plan.turns)
    for matrix in _matrices(plan.steps, engines):
        for group in matrix.groups:
            most, no_effect = matrix.limit(group, plan, limits)
            if most is not None and most < len(group):
                lines.append(f"{len(group)} jobs of {matrix.name}: {most} at a time")
            for step in group:
                notes[step.key] = tuple(filter(None, [matrix.why_alone(step, group), no_effect]))
    return replace(plan.with_notes(notes), turns=tuple(lines)) if notes else plan


def _matrices(steps: Sequence[Step], engines: Engines) -> Iterable[_Matrix]:
    """Return the matrices that have jobs to start on a scheduler which submits many at once."""
    found: dict[tuple[str, ...], list[Step]] = {}
    for step in steps:
        launch = step.launch
        if launch is not None and step.starts and launch.matrix and engines.get(launch.scheduler).batches:
            key = (launch.scheduler, launch.key.project, launch.key.target, launch.matrix)
            found.setdefault(key, []).append(step)
    made = {key: _Matrix(key[-1], members, engines) for key, members in found.items()}
    matrix_of = {id(step): made[key] for key, members in found.items() for step in members}
    group_of: dict[JobKey, int] = {}
    for step in in_order(steps) if made else ():
        if matrix := matrix_of.get(id(step)):
            group_of[step.key] = id(matrix.put(step, _behind(step, group_of)))
    return made.values()


def _behind(step: Step, group_of: Mapping[JobKey, int]) -> tuple[JobKey | int, ...]:
    """Return the part of a step's needs that all jobs of its group share.

    The jobs of a group wait for the same jobs, except for one, which may be any job of a certain group. So
    groups can be ordered like jobs: each behind all the groups that one of its jobs waits for.
    """
    keys = keys_after(step)
    own = [key for key in keys if key in group_of]
    return tuple(group_of[key] if own == [key] else key for key in keys)


class _Matrix:
    """The jobs of one matrix that a plan starts."""

    def __init__(self, name: str, steps: Sequence[Step], engines: Engines) -> None:
        self.name = name
        bound = steps[0].bound
        assert bound is not None, "what a plan starts is bound"
        batches = engines.get(bound.launch.scheduler).batches
        assert batches is not None, "only such matrices are looked at"
        self._most = batches.most(bound.cfg)
        self._traits = _traits(steps, batches, engines)
        self._steps = steps
        self._alike: dict[Any, list[Step]] = {}

    def put(self, step: Step, behind: tuple[JobKey | int, ...]) -> list[Step]:
        """Put a job into its group, and return the group. `behind`: see `_behind`."""
        traits = (frozenset(self._traits[step.key].items()), behind)
        group = self._alike.setdefault(traits if self._most else step.key, [])
        group.append(step)
        return group

    @property
    def groups(self) -> list[list[Step]]:
        """The groups of jobs that are submitted at once, the largest first; a single job is a group."""
        return sorted(self._alike.values(), key=len, reverse=True)

    def why_alone(self, step: Step, group: Sequence[Step]) -> str:
        """Return why a job of a matrix is submitted singly while others are not; "" for any other job."""
        if len(group) > 1 or len(self._steps) == 1:
            return ""
        if not self._most:
            return "submitted as a job of its own: the cluster has no job arrays (MaxArraySize is 0)"
        other = next(each for each in self._steps if each is not step)
        one, two = self._traits[step.key], self._traits[other.key]
        names = sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
        if names:
            return f"submitted as a job of its own: it differs from {other.key.job} in {', '.join(names)}"
        if step.after:
            return f"submitted as a job of its own: it waits for {', '.join(step.after)}"
        return f"submitted as a job of its own: {other.key.job} waits for {', '.join(other.after)}"

    def limit(self, group: Sequence[Step], plan: Plan, limits: Sequence[Limit]) -> tuple[int | None, str]:
        """Return how many jobs of a group may run at once, None for any, and why a limit has no effect."""
        launch = group[0].launch
        found: list[int] = []
        apps = [each.apps for each in limits if each.apps is not None]
        named = {"--parallel": apps[-1]} if apps else {}
        if launch is not None and launch.max_parallel is not None:
            named["`max_parallel`"] = launch.max_parallel
        for name, most in named.items():
            others = _others(group, plan, "" if name == "--parallel" or launch is None else launch.matrix)
            why = f"{others[0].key.job} is not in one job array with {group[0].key.job}" if others else ""
            if len(group) > max(self._most, 1):
                why = f"{len(group)} jobs are more than one job array has (MaxArraySize is {self._most})"
            if len({step.after for step in group}) > 1:
                why = "jobs that each wait for another job may be several job arrays"
            if why:
                return None, f"{name} has no effect: {why}"
            found.append(most)
        return min(found, default=None), ""


def _traits(steps: Sequence[Step], batches: Batches, engines: Engines) -> dict[JobKey, Mapping[str, str]]:
    """Return the traits of each job of a matrix. Jobs alike share a dry run, as in `dry_run_plan`."""
    found: dict[JobKey, Mapping[str, str]] = {}
    first: Launch | None = None
    traits: Mapping[str, str] = {}
    for step in steps:
        launch, bound = step.launch, step.bound
        assert launch is not None, "only such steps are looked at"
        is_like = first is not None and (bound is None or (bound.info is None and are_alike(launch, first)))
        if not is_like:
            assert bound is not None, "what a plan starts is bound, or another job answers for it"
            traits = batches.traits((bound.info or engines.dry_run(bound)).request)
            first = launch if engines.judges_fields_alone(launch) else None
        found[step.key] = traits
    return found


def _others(group: Sequence[Step], plan: Plan, matrix: str) -> list[Step]:
    """Return the jobs outside the group that start or are live; with `matrix`, only jobs of that matrix."""
    keys = {step.key for step in group}
    scope = group[0].key[:2]
    return [
        step
        for step in plan.steps
        if step.key not in keys and (step.starts or (step.latest is not None and step.latest.is_live))
        if not matrix or (step.launch is not None and step.launch.matrix == matrix and step.key[:2] == scope)
    ]
