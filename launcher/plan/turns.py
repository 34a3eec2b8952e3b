"""The requests of a plan's jobs to the machines that run them, and the limits at which they take turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from launcher.dataclass import dataclass, field, replace
from launcher.plan.model import Plan
from launcher.plan.step import Reason
from launcher.specs.launch import NO_CAPS, JobKey, Launch
from launcher.text import memory, plural
from launcher.turns.line import APPS, CPU, MACHINE, MEMORY, RESOURCES, Limit, amount
from launcher.turns.machine import Machine, Total, total


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
        on_engine: the jobs that no process of this machine holds: they take turns at their engine.
        engine: the cores and memory of the engine's machine; None where they are unknown.
        engine_gpus: how many GPUs of it LAUNCHER_GPUS counts; None where it counts none.
        most_cores: scheduler → the most cores that its engine gives to one replica, where it has a limit.
    """

    machine: Machine
    schedulers: frozenset[str]
    limits: tuple[Limit, ...] = ()
    batching: frozenset[str] = frozenset()
    shared: bool = False
    supported: bool = True
    on_engine: frozenset[JobKey] = frozenset()
    engine: Machine | None = None
    engine_gpus: int | None = None
    most_cores: Mapping[str, float] = field(default_factory=dict)

    def is_of(self, launch: Launch) -> bool:
        """Return whether the job shares this machine rather than that of an engine."""
        return launch.scheduler in self.schedulers and launch.key not in self.on_engine

    def takes_turns(self, launch: Launch) -> bool:
        """Return whether the job takes its turn, on this machine or at its engine."""
        return launch.lifecycle.queue and (self.is_of(launch) or launch.key in self.on_engine)

    def lack(self, launch: Launch) -> Reason | None:
        """Return the reason why the job could never start: it asks for more than its machine has."""
        return self._lack_of_gpus(launch) or self._lack_of_cores(launch)

    def _lack_of_gpus(self, launch: Launch) -> Reason | None:
        wanted = total(launch.app).gpus if self.takes_turns(launch) else 0
        is_there = launch.key in self.on_engine
        for there, most in (
            ("LAUNCHER_GPUS gives its engine", self.engine_gpus)
            if is_there
            else ("this machine has", len(self.machine.gpus)),
            (f"project {launch.key.project} may have", launch.caps.gpus),
        ):
            if most is not None and wanted > most:
                detail = f"asks for {plural(wanted, 'GPU')}, and {there} {most or 'none'}"
                return Reason("over_capacity", detail=detail)
        return None

    def _lack_of_cores(self, launch: Launch) -> Reason | None:
        most = self.most_cores.get(launch.scheduler)
        if most is None:
            return None
        for role in launch.app.roles:
            if (cores := role.resource.cpu) > most:
                detail = f"is more than the {amount(CPU, most)} of its engine"
                return Reason("over_capacity", f"roles.{role.name}.resource.cpu", new=cores, detail=detail)
        return None

    def want(self, launch: Launch) -> Want | None:
        """Return the request of the job; None when it asks for nothing and no group of it has a limit."""
        if not self.takes_turns(launch):
            return None
        wanted, groups = total(launch.app), (*limits_of(launch), *self.limits)
        if not wanted and not groups:
            return None
        if launch.key in self.on_engine:
            cpu, memory_mb = (None, None) if self.engine is None else self.engine[:2]
            engine = Limit(MACHINE, cpu=cpu, memory_mb=memory_mb, gpus=self.engine_gpus, label="the engine")
            return Want(wanted, (engine, *groups))
        has = self.machine
        shared = Limit(MACHINE, cpu=has.cpu, memory_mb=has.memory_mb, gpus=len(has.gpus))
        return Want(wanted, (shared, *groups))


class Want(NamedTuple):
    """The request of one job, and the limits of its groups, those of the machine first."""

    total: Total
    limits: tuple[Limit, ...]


class Crowd(NamedTuple):
    """Jobs, by their positions in the plan, that together ask for more than there is. `asked`: the amount;
    `at_once`: how many of them run at once, None where their requests differ."""

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
    """Return the limits from launcher.toml and from the matrix that concern the job."""
    key, caps = launch.key, launch.caps
    if caps.max_parallel is not None or (caps != NO_CAPS and total(launch.app)):
        name = f"project {key.project}"
        cpu, memory_mb, gpus, apps = caps
        yield Limit(name, cpu=cpu, memory_mb=memory_mb, gpus=gpus, apps=apps, label=name)
    if launch.max_parallel is not None:
        group = f"matrix {key.project}/{key.target}/{launch.matrix}"
        yield Limit(group, apps=launch.max_parallel, label=launch.matrix)


def crowds(wants: Sequence[Want]) -> list[Crowd]:
    """Return the jobs that cannot all run at once: for each group, by the limit that allows the fewest.

    A group is left out when another group with the same jobs allows as few.
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
    # A crowd is left out where another one says at least as much about its jobs.
    ranks = {id(each): (_pace(each), each.limit.group) for each in found}
    return [
        each
        for each in found
        if not any(other.jobs >= each.jobs and ranks[id(other)] < ranks[id(each)] for other in found)
    ]


def _pace(crowd: Crowd) -> int:
    return crowd.at_once or len(crowd.jobs)


def _crowd(resource: str, limit: Limit, totals: Mapping[int, Total]) -> Crowd | None:
    most = getattr(limit, resource)
    asked = {index: mine for index, each in totals.items() if (mine := getattr(each, resource, 1))}
    if most is None or len(asked) < 2 or sum(asked.values()) <= most:
        return None
    amounts = set(asked.values())
    at_once = max(1, int(most // amounts.pop())) if len(amounts) == 1 else None
    return Crowd(resource, limit, frozenset(asked), sum(asked.values()), at_once)


def with_turns(plan: Plan, room: Room) -> Plan:
    """Return the plan with notes on the jobs that it starts: which run alone, and where they take turns."""
    wants = {
        step.key: room.want(step.launch) for step in plan.steps if step.starts and step.launch is not None
    }
    if not wants:
        return plan
    there = [want for key, want in wants.items() if want is not None and key in room.on_engine]
    here = [want for key, want in wants.items() if want is not None and key not in room.on_engine]
    order = "in this order" if plan.is_in_order else "in the order of the file"
    turns = [f"{each}, {order}" for each in crowds(here)]
    if not room.supported and any(key not in room.on_engine for key in wants):
        turns = ["apps take turns on Linux only: here they all start at once"]
    elif turns and not room.shared:
        turns.append("taken by apps of this LAUNCHER_HOME; set LAUNCHER_SLOTS to share a table")
    turns += [f"{each}, {order}" for each in crowds(there)]
    if room.engine is None and there:
        turns.append(f"jobs with a watcher on the engine take turns there, {order}")
    notes = {
        step.key: tuple(_notes(step.launch, wants[step.key], room))
        for step in plan.steps
        if step.starts and step.launch is not None
    }
    return replace(plan.with_notes(notes), turns=(*plan.turns, *turns))


def _notes(launch: Launch, want: Want | None, room: Room) -> Iterator[str]:
    limits_itself = launch.scheduler in room.batching and bool(launch.matrix)
    is_elsewhere = not (room.is_of(launch) or launch.key in room.on_engine)
    if room.supported and is_elsewhere and not limits_itself:
        given = {"`max_parallel`": launch.max_parallel is not None, "--parallel": bool(room.limits)}
        for limit in (name for name, is_given in given.items() if is_given):
            yield f"{limit} has no effect: apps of {launch.scheduler} take no turns here"
    if launch.key in room.on_engine and total(launch.app).gpus and room.engine_gpus is None:
        yield "the engine chooses the GPUs; LAUNCHER_GPUS says how many jobs may share in turn"
    if want is None:
        return
    for each in want.limits:
        for resource in (CPU, MEMORY):
            most, asked = getattr(each, resource), getattr(want.total, resource)
            if most is not None and asked > most:
                yield f"asks for {amount(resource, asked)} of {_share(resource, each)}: runs alone"


def _share(resource: str, limit: Limit) -> str:
    """`2`, `16 GiB`, `2 of project vision`."""
    most = getattr(limit, resource)
    share = memory(most) if resource == MEMORY else f"{most:g}"
    return f"{share} of {limit.label}" if limit.label else share
