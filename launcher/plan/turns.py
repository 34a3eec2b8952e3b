"""The requests of a plan's jobs to this machine, and the limits at which they take turns. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from launcher.dataclass import dataclass
from launcher.plan.model import Plan
from launcher.plan.reasons import Reason
from launcher.plan.step import Step
from launcher.specs.launch import NO_CAPS, JobKey, Launch
from launcher.text import memory, plural
from launcher.turns.ask import MACHINE, Limit
from launcher.turns.asking import Total, total
from launcher.turns.line import APPS, CPU, MEMORY, RESOURCES, amount
from launcher.turns.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The room of this machine for the jobs of a plan.

    Attributes:
        machine: the resources of the machine; its GPUs are counted only where a job asks for some.
        schedulers: the names of the schedulers whose apps use the machine.
        limits: the limits of groups that all jobs of the plan belong to.
        batching: the names of the schedulers that limit the jobs of a matrix themselves.
        shared: whether apps of other state folders take turns with those of this one (LAUNCHER_SLOTS).
        supported: whether apps can take turns on this system at all.
        elsewhere: the jobs of these schedulers that are held by no process of this machine.
    """

    machine: Machine
    schedulers: frozenset[str]
    limits: tuple[Limit, ...] = ()
    batching: frozenset[str] = frozenset()
    shared: bool = False
    supported: bool = True
    elsewhere: frozenset[JobKey] = frozenset()

    def is_of(self, launch: Launch) -> bool:
        """Whether the machine has the job among those that share it."""
        return launch.scheduler in self.schedulers and launch.key not in self.elsewhere

    def holds(self, launch: Launch) -> bool:
        """Whether the job takes its turn on this machine."""
        return launch.lifecycle.queue and self.is_of(launch)

    def lack(self, launch: Launch) -> Reason | None:
        """Why the job could never start here: it asks for more GPUs than there are."""
        wanted = total(launch.app).gpus if self.holds(launch) else 0
        for there, most in (
            ("this machine has", len(self.machine.gpus)),
            (f"project {launch.key.project} may have", launch.caps.gpus),
        ):
            if most is not None and wanted > most:
                detail = f"asks for {plural(wanted, 'GPU')}, and {there} {most or 'none'}"
                return Reason("over_capacity", detail=detail)
        return None

    def want(self, launch: Launch) -> Want | None:
        """The request of the job; None where it asks for nothing, and belongs to no group with a limit."""
        if not self.holds(launch):
            return None
        wanted, groups = total(launch.app), (*limits_of(launch), *self.limits)
        if not wanted and not groups:
            return None
        has = self.machine
        shared = Limit(MACHINE, cpu=has.cpu, memory_mb=has.memory_mb, gpus=len(has.gpus))
        return Want(wanted, (shared, *groups))


class Want(NamedTuple):
    """The request of one job, and the limits of the groups that it belongs to, the machine's first."""

    total: Total
    limits: tuple[Limit, ...]


class Crowd(NamedTuple):
    """Jobs that together ask for more than there is.

    Attributes:
        jobs: their positions among the jobs of the plan.
        asked: the amount that they ask for together.
        at_once: how many of them run at once; None where their requests differ.
    """

    resource: str
    limit: Limit
    jobs: frozenset[int]
    asked: float
    at_once: int | None

    def __str__(self) -> str:
        """`12 jobs ask for 24 cores of 2: 1 at a time`."""
        if self.resource == APPS:
            return f"{len(self.jobs)} jobs of {self.limit.label}: {self.limit.apps} at a time"
        asked = f"{amount(self.resource, self.asked)} of {_share(self.resource, self.limit)}"
        pace = f"{self.at_once} at a time" if self.at_once else "as many at a time as fit"
        return f"{len(self.jobs)} jobs ask for {asked}: {pace}"


def limits_of(launch: Launch) -> Iterator[Limit]:
    """The limits that the job's launcher.toml and matrix set, where they concern the job."""
    key, caps = launch.key, launch.caps
    if caps.max_parallel is not None or (caps != NO_CAPS and total(launch.app)):
        name = f"project {key.project}"
        cpu, memory_mb, gpus, apps = caps
        yield Limit(name, cpu=cpu, memory_mb=memory_mb, gpus=gpus, apps=apps, label=name)
    if launch.max_parallel is not None:
        group = f"matrix {key.project}/{key.target}/{launch.matrix}"
        yield Limit(group, apps=launch.max_parallel, label=launch.matrix)


def crowds(wants: Sequence[Want]) -> list[Crowd]:
    """The jobs that cannot all run at once: for each group, by the limit that allows the fewest of them.

    A group is left out where another group with the same jobs allows as few.
    """
    groups: dict[str, tuple[Limit, list[int]]] = {}
    for index, want in enumerate(wants):
        for limit in want.limits:
            groups.setdefault(limit.group, (limit, []))[1].append(index)
    found: list[Crowd] = []
    for limit, members in groups.values():
        totals = {index: wants[index].total for index in members}
        crowded = [crowd for each in RESOURCES if (crowd := _crowd(each, limit, totals)) is not None]
        found += sorted(crowded, key=_pace)[:1]
    return [each for each in found if not any(_covers(other, each) for other in found)]


def _pace(crowd: Crowd) -> int:
    return crowd.at_once or len(crowd.jobs)


def _covers(one: Crowd, other: Crowd) -> bool:
    """Whether `one` says at least as much about the jobs of `other`."""
    return one.jobs >= other.jobs and (_pace(one), one.limit.group) < (_pace(other), other.limit.group)


def _crowd(resource: str, limit: Limit, totals: Mapping[int, Total]) -> Crowd | None:
    most = getattr(limit, resource)
    asked = {index: mine for index, each in totals.items() if (mine := getattr(each, resource, 1))}
    if most is None or len(asked) < 2 or sum(asked.values()) <= most:
        return None
    amounts = set(asked.values())
    at_once = max(1, int(most // amounts.pop())) if len(amounts) == 1 else None
    return Crowd(resource, limit, frozenset(asked), sum(asked.values()), at_once)


def with_turns(plan: Plan, room: Room) -> Plan:
    """The plan with notes on the jobs that it starts: which run alone, and where they take turns."""
    starting = [step.launch for step in plan.steps if step.starts and step.launch is not None]
    if not starting:
        return plan
    wants = [want for launch in starting if (want := room.want(launch)) is not None]
    order = "in this order" if plan.is_in_order else "in the order of the file"
    turns = [f"{each}, {order}" for each in crowds(wants)]
    if not room.supported:
        turns = ["apps take turns on Linux only: here they all start at once"]
    elif turns and not room.shared:
        turns.append("taken by apps of this LAUNCHER_HOME; set LAUNCHER_SLOTS to share a table")
    steps = (replace(step, notes=(*step.notes, *_notes(step, room))) for step in plan.steps)
    return replace(plan, steps=tuple(steps), turns=(*plan.turns, *turns))


def _notes(step: Step, room: Room) -> Iterator[str]:
    launch = step.launch
    if launch is None or not step.starts:
        return
    limits_itself = launch.scheduler in room.batching and bool(launch.matrix)
    if room.supported and not room.is_of(launch) and not limits_itself:
        given = {"`max_parallel`": launch.max_parallel is not None, "--parallel": bool(room.limits)}
        for limit in (name for name, is_given in given.items() if is_given):
            apps = "apps held elsewhere" if launch.key in room.elsewhere else f"apps of {launch.scheduler}"
            yield f"{limit} has no effect: {apps} take no turns here"
    if (want := room.want(launch)) is not None:
        yield from _alone(want)


def _alone(want: Want) -> Iterator[str]:
    for limit in want.limits:
        for resource in (CPU, MEMORY):
            most, asked = getattr(limit, resource), getattr(want.total, resource)
            if most is not None and asked > most:
                yield f"asks for {amount(resource, asked)} of {_share(resource, limit)}: runs alone"


def _share(resource: str, limit: Limit) -> str:
    """`2`, `16 GiB`, `2 of project vision`."""
    most = getattr(limit, resource)
    share = memory(most) if resource == MEMORY else f"{most:g}"
    return f"{share} of {limit.label}" if limit.label else share
