"""The turns of an apply: the requests of its steps to the machines that run them, and their order."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from threading import Event
from typing import Any

from launcher import paths
from launcher.apply.engines import Engines
from launcher.plan.step import Step, in_order
from launcher.plan.turns import Room, crowds, limits_of
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.launch import JobKey, Launch
from launcher.turns.line import Ask, Limit, Ticket, by_app, of_app
from launcher.turns.machine import ask_of, given_gpus, gpu_table, machine
from launcher.turns.table import draw, stir, tickets

SUPPORTED = sys.platform == "linux"
"""Whether apps can take turns on this system: a ticket is held through the lock of a FIFO."""


class Turns:
    """The turns of the jobs that an apply starts, in the order of the files, each behind the jobs it needs.

    A job that replaces another attempt inherits the number of its ticket, so make this before those attempts
    are stopped. Raises StateError where the folders of tickets cannot be made.

    Args:
        limits: the limits of groups that all jobs of the apply belong to.
    """

    def __init__(self, steps: Sequence[Step], engines: Engines, limits: Sequence[Limit] = ()) -> None:
        starting = {
            step.key: (step, step.launch)
            for step in in_order(sorted(steps, key=lambda step: step.place))
            if step.launch is not None and step.starts and (step.launch.asks or limits)
        }
        launches = [launch for _, launch in starting.values()]
        room = room_for(launches, engines, limits)
        asks: dict[JobKey, Ask] = {}
        for key, (step, launch) in starting.items():
            is_one = room.is_of(launch) or key in room.on_engine
            if is_one and (ask := _ask(step, launch, room)) is not None:
                asks[key] = ask
        here = {key: ask for key, ask in asks.items() if ask.table}
        is_shared = bool(here) and _number(here, steps)
        there: dict[str, dict[JobKey, Ask]] = {}  # scheduler → the asks to its engine
        for key in asks.keys() - here.keys():
            there.setdefault(starting[key][1].scheduler, {})[key] = asks[key]
        for name, of_engine in there.items():
            _inherit(of_engine, steps, engines.get(name))
        self._of = {key: Turn(ask) for key, ask in asks.items()}
        if is_shared or crowds([want for launch in launches if (want := room.want(launch)) is not None]):
            self._link([step for step in steps if step.key in here and not step.after])
        self._link([step for step in steps if step.key in asks.keys() - here.keys()])

    def of(self, step: Step) -> Turn | None:
        """Return the turn of a step; None for a job that asks for nothing and is in no group with a limit."""
        return self._of.get(step.key) if step.starts else None

    def order(self, steps: Sequence[Step]) -> list[Step]:
        """Sort the steps by the numbers of their tickets, each behind the steps of the jobs that it needs.

        The apps that take turns at an engine come last, in the order of the plan: they have no numbers yet.
        """
        numbers = {key: turn.ask.number for key, turn in self._of.items() if turn.ask.table}
        return in_order(sorted(steps, key=lambda step: numbers.get(step.key, sys.maxsize)))

    def _link(self, steps: Sequence[Step]) -> None:
        """Put each of these jobs, which take their turns at their submission, behind the one before it."""
        before: Turn | None = None
        for step in self.order(steps):
            turn = self.of(step)
            if turn is not None and not turn.ask.at_once:
                before = self._of[step.key] = Turn(turn.ask, before)


def room_for(launches: Collection[Launch], engines: Engines, limits: Sequence[Limit] = ()) -> Room:
    """Return the room of this machine for these jobs. Where a job asks for GPUs, a program counts them.

    Args:
        limits: the limits of groups that all of them belong to.
    """
    names = {launch.scheduler for launch in launches}
    local = frozenset(name for name in names if SUPPORTED and engines.get(name).on_this_machine())
    roles = (role for launch in launches if launch.scheduler in local for role in launch.app.roles)
    with_gpus = any(role.resource.gpu > 0 for role in roles)
    on_engine = [launch for launch in launches if not engines.get(launch.scheduler).is_held_here(launch.cfg)]
    gpus = given_gpus() if any(role.resource.gpu > 0 for each in on_engine for role in each.app.roles) else ()
    found = (engines.get(name).engine_turns for name in {each.scheduler for each in on_engine})
    sizes = (turns.machine() for turns in found if turns is not None)
    return Room(
        machine=machine(with_gpus=with_gpus),
        schedulers=local,
        limits=tuple(limits),
        batching=frozenset(name for name in names if engines.get(name).batches),
        shared="LAUNCHER_SLOTS" in os.environ,
        supported=SUPPORTED,
        on_engine=frozenset(launch.key for launch in on_engine),
        engine=next(sizes, None),
        engine_gpus=len(gpus) or None,
        most_cores={name: most for name in names if (most := engines.get(name).most_cores()) is not None},
    )


def _ask(step: Step, launch: Launch, room: Room) -> Ask | None:
    is_running = step.latest is not None and step.kind == "resume" and step.latest.state == "running"
    at_once = is_running or not launch.lifecycle.queue
    limits = () if at_once else (*limits_of(launch), *room.limits)
    machine = None if launch.key in room.on_engine else room.machine
    return ask_of(launch.app, step.app_id, machine, limits=limits, at_once=at_once)


def _number(asks: Mapping[JobKey, Ask], steps: Sequence[Step]) -> bool:
    """Give each ask the number of its ticket; returns whether other apps have tickets."""
    # In the order of `Ask.tables`: the GPU table is locked last.
    named = {table for ask in asks.values() for table in ask.tables}
    tables = sorted(named, key=lambda table: (table == gpu_table(), table))
    tickets_of = by_app(ticket for table in tables for ticket in tickets(table))
    for step in steps:
        if ask := asks.get(step.key):
            _keep_place(ask, step, tickets_of)
    new = [ask for ask in asks.values() if not ask.number]
    for table in tables:
        stir(table)
    try:
        first = draw(tables, len(new)) if new else 0
    except OSError as error:
        raise paths.unusable(error, tables[0]) from error
    for number, ask in enumerate(new, first):
        ask.number = number
    return bool(tickets_of)


def _inherit(asks: Mapping[JobKey, Ask], steps: Sequence[Step], scheduler: StagedScheduler[Any]) -> None:
    """Give each ask the number of the ticket at its engine that it takes over, else a new number there."""
    heirs = [step for step in steps if step.key in asks and _takes_over(step)]
    turns = scheduler.engine_turns if heirs else None
    found = turns.tables() if turns is not None else None
    if found is not None:
        tickets_of = by_app((*found.own, *found.of_gpus))
        for step in heirs:
            _keep_place(asks[step.key], step, tickets_of)


def _keep_place(ask: Ask, step: Step, tickets_of: Mapping[str, Sequence[Ticket]]) -> None:
    """Give an ask the lowest number of the apps that its app takes over; 0 for a new number."""
    inherited = (
        each.number for app in _takes_over(step) for each in of_app(app, ask.home, tickets_of.get(app, ()))
    )
    ask.number = min(inherited, default=0)


def _takes_over(step: Step) -> list[str]:
    """Return the ids of the apps that the step replaces or resumes."""
    return [guard.app_id for guard in (*step.stops, *step.withdraws)] + [step.app_id] * (
        step.kind == "resume"
    )


_LOOK_S = 0.002
_LOOK_AT_MOST_S = 0.1


class Turn:
    """The turn of one step.

    Attributes:
        ask: the request of its app, with the number of its ticket.
        before: the turn before it in this apply; None for the first turn, and on a free machine with room
        for all.
        settled: set once the app is accepted, or is not submitted.
    """

    def __init__(self, ask: Ask, before: Turn | None = None) -> None:
        self.ask = ask
        self.before = before
        self.settled = Event()
        self._has_followed = before is None

    def follow(self) -> None:
        """Return once every app before it is in line, runs, or is settled.

        Several threads submit apps, and a free machine would take the first one that arrives.
        """
        turn = self.before
        while turn is not None:
            look_s = _LOOK_S
            while not turn.settled.wait(look_s) and not turn._is_taken():
                look_s = min(2 * look_s, _LOOK_AT_MOST_S)
            turn = None if turn._has_followed else turn.before
        self._has_followed = True

    def _is_taken(self) -> bool:
        """Whether the app has a ticket. At an engine the watcher takes it, and names itself in the ask."""
        if self.ask.table:
            return os.path.exists(os.path.join(self.ask.table, self.ask.name))
        return bool(self.ask.engine)
