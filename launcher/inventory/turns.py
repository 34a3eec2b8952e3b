"""Read this machine's tables as they are now: the holders of shares and the apps in line. Writes nothing."""

from __future__ import annotations

import os
import select

from launcher.paths import token, unusable
from launcher.turns.line import APPS, CPU, GPUS, HOLDS, MACHINE, MEMORY, QUEUED, amount, by_app, of_app
from launcher.turns.machine import gpu_table, slots_table
from launcher.turns.table import proof, stir, summon, tickets, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import Any

    from launcher.schedulers.staged import StagedScheduler
    from launcher.state.records import AppRecord
    from launcher.turns.line import Ticket
    from launcher.turns.machine import EngineTables, Machine

OF_OTHERS = " of another state folder"
_NAMED = 2  # holders named in a phrase; further ones are counted


class InLine:
    """An app in line.

    Attributes:
        position: 1 for the first in line.
        waits_for: `1 GPU held by train-1-k3fwx`, or `1 core, behind train-1-k3fwx` if a core is free; "" when
            the app is about to start.
    """

    __slots__ = ("position", "ticket", "waits_for")

    def __init__(self, ticket: Ticket, position: int, waits_for: str) -> None:
        self.ticket = ticket
        self.position = position
        self.waits_for = waits_for

    @property
    def why(self) -> str:
        """Return `2nd in line for 1 GPU held by train-1-k3fwx`."""
        return f"{ordinal(self.position)} in line" + (f" for {self.waits_for}" if self.waits_for else "")


class Tables:
    """The live tickets of one moment, those of GPUs included.

    Attributes:
        folder: of the table that the apps of this state folder share; gpu_folder: of the GPUs' table.
        home: the token of this state folder; "" before it has one.
        engine: the address of the engine whose machine they are of; "" for this machine.
        machine: the cores and memory of that machine; None for this machine.
        holders: the tickets of apps that have their share, in order; one for an app in both tables.
        line: the apps in line, in order.
    """

    __slots__ = ("_own", "engine", "folder", "gpu_folder", "holders", "home", "line", "machine")

    def __init__(
        self, folder: str, gpu_folder: str, own: Sequence[Ticket], of_gpus: Sequence[Ticket], home: str = ""
    ) -> None:
        self.home = home
        self.engine = ""
        self.machine: Machine | None = None
        self.folder = folder
        self.gpu_folder = gpu_folder
        self._own = {each.place for each in own}
        found = {each.place: each for each in (*of_gpus, *own)}
        in_order = [found[place] for place in sorted(found)]
        self.holders = [each for each in in_order if each.state == HOLDS]
        self.line = list(self._in_line([each for each in in_order if each.state == QUEUED]))

    @classmethod
    def read(cls) -> Tables:
        """Read the tables that LAUNCHER_HOME and LAUNCHER_SLOTS name; empty if there are none yet."""
        folder, gpu_folder = slots_table(), gpu_table()
        return cls(folder, gpu_folder, tickets(folder), tickets(gpu_folder), token())

    @classmethod
    def of_engine(cls, found: EngineTables) -> Tables:
        """Make the tables of an engine, whose apps every state folder knows."""
        made = cls(found.folder, found.gpu_folder, found.own, found.of_gpus)
        made.engine, made.machine = found.engine, found.machine
        return made

    def is_elsewhere(self, ticket: Ticket) -> bool:
        """Whether the ticket's app belongs to another table, and shares only GPUs with the apps here."""
        return ticket.place not in self._own

    def is_mine(self, ticket: Ticket) -> bool:
        """Whether the ticket names this state folder as the home of its app."""
        return ticket.is_of(self.home)

    def _in_line(self, queued: Sequence[Ticket]) -> Iterator[InLine]:
        """Yield the apps in line: each is behind its table and, with GPUs, behind all that ask for GPUs."""
        first: dict[str, Ticket] = {}  # the first app of each table, and the first with GPUs
        count = {"own": 0, "gpus": 0}
        for position, ticket in enumerate(queued, 1):
            kinds = ["own"] * (not self.is_elsewhere(ticket)) + ["gpus"] * bool(ticket.gpus)
            for kind in kinds:
                first.setdefault(kind, ticket)
                count[kind] += 1
            if len(kinds) == 2:
                yield self._phrased(ticket, position, queued[0])
            else:
                [kind] = kinds
                yield self._phrased(ticket, count[kind], first[kind])

    def _phrased(self, ticket: Ticket, position: int, first: Ticket) -> InLine:
        resource, label = _lacking(first, ticket)
        sharing = self._sharing(ticket, resource, label)
        behind = f", behind {self._listed([first])}" if ticket is not first and not sharing else ""
        if resource == APPS:
            place = _place_of(first.places if first.lacks == (resource, label) else "", len(sharing))
            return InLine(ticket, position, f"{place} of {label}{behind}" if sharing or behind else "")
        held = f" held by {self._listed(sharing)}" if sharing else behind
        return InLine(ticket, position, amount(resource, ticket.asks(resource)) + held)

    def _listed(self, holders: Sequence[Ticket]) -> str:
        names = [each.app + ("" if self.is_mine(each) else OF_OTHERS) for each in holders]
        if len(names) <= _NAMED:
            return ", ".join(names)
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"

    def _sharing(self, ticket: Ticket, resource: str, label: str) -> list[Ticket]:
        if resource == GPUS and not label:
            return [each for each in self.holders if each.dealt]
        if self.is_elsewhere(ticket):
            return []  # the holders of the app's table are unknown here
        group = _group(ticket, label)
        holders = (each for each in self.holders if not self.is_elsewhere(each))
        return [each for each in holders if group in each.groups and each.asks(resource) > 0]


def why_queued(apps: Sequence[AppRecord]) -> dict[str, str]:
    """Return why each app in line waits, as a phrase. Apps outside of all known tables are left out."""
    found = _why_in(Tables.read(), [each.app_id for each in apps])
    for scheduler, app_ids in _by_scheduler(each for each in apps if each.app_id not in found):
        if (tables := _of_engine(scheduler)) is not None:
            found |= _why_in(tables, app_ids)
    return found


def of_engines() -> list[Tables]:
    """Return the tables of the engines at which apps take turns, as far as they can be reached."""
    from launcher.schedulers.registry import SHARED_ENGINES, imported

    engines = [name for name, home in SHARED_ENGINES.items() if imported(home)()]
    found = map(_of_engine, _staged(engines))
    return [tables for tables in found if tables is not None and (tables.holders or tables.line)]


def _of_engine(scheduler: StagedScheduler[Any]) -> Tables | None:
    """Return the tables of the scheduler's engine; None where no app takes turns there."""
    from launcher.errors import LauncherError

    turns = scheduler.engine_turns
    try:
        found = turns.tables() if turns is not None else None
    except LauncherError:  # the engine cannot be reached
        return None
    return None if found is None else Tables.of_engine(found)


def _by_scheduler(apps: Iterable[AppRecord]) -> Iterator[tuple[StagedScheduler[Any], list[str]]]:
    """Yield the schedulers of these apps that may have engines with tables, each with the ids of its apps."""
    of_scheduler: dict[str, list[str]] = {}
    for each in apps:
        of_scheduler.setdefault(each.scheduler, []).append(each.app_id)
    for scheduler in _staged(of_scheduler):
        yield scheduler, of_scheduler[scheduler.backend]


def _staged(names: Iterable[str]) -> Iterator[StagedScheduler[Any]]:
    from launcher.schedulers.registry import get_scheduler
    from launcher.schedulers.staged import StagedScheduler

    for name in names:
        scheduler = get_scheduler(name, "")
        if isinstance(scheduler, StagedScheduler):
            yield scheduler


def _why_in(tables: Tables, app_ids: Collection[str]) -> dict[str, str]:
    why = {each.ticket.place: each.why for each in tables.line}
    listed = [*tables.holders, *(each.ticket for each in tables.line)]
    tickets_of = by_app(listed)
    found = {app: of_app(app, tables.home, tickets_of.get(app, ())) for app in app_ids}
    return {app: why.get(own[-1].place, "is about to start") for app, own in found.items() if own}


def left_by(ticket: Ticket) -> list[int]:
    """Return the processes that keep the share of a dead holder, as far as this process may see them."""
    from launcher.schedulers.pids import writers

    return writers(proof(ticket)) if ticket.is_left else []


def have_cleared(tables: Tables) -> None:
    """Have the shares of dead holders cleared, by the first in line or by a process started for it."""
    from launcher.schedulers.leftovers import start_clearing

    try:
        if not tables.line:
            start_clearing(each for each in tables.holders if each.is_left)
        for table in (tables.folder, tables.gpu_folder):
            stir(table)
    except OSError:  # the first in line clears them
        pass


def start_now(apps: Sequence[AppRecord]) -> set[str]:
    """Make apps in line take their shares at once; returns the ids of those that were in line.

    Raises StateError, and SchedulerError for an engine that cannot be reached.
    """
    found: set[str] = set()
    try:
        found = summon(slots_table(), [each.app_id for each in apps], token())
    except FileNotFoundError:
        pass  # there is no such table
    except OSError as error:
        raise unusable(error, slots_table()) from error
    for scheduler, app_ids in _by_scheduler(each for each in apps if each.app_id not in found):
        if (turns := scheduler.engine_turns) is not None:
            found |= turns.start_now(app_ids)
    return found


def wait_in_line(app_id: str, timeout_s: float) -> bool:
    """Return True when an app is no longer in line, or after the timeout.

    Return False at once when the app is not in line here: it is in another line, or is about to be recorded
    as started.
    """
    fd = watch(slots_table(), app_id, token())
    if fd is None:
        return False
    try:
        poll = select.poll()
        poll.register(fd, 0)
        poll.poll(timeout_s * 1000)
    finally:
        os.close(fd)
    return True


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th`, `11th`."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def _lacking(first: Ticket, ticket: Ticket) -> tuple[str, str]:
    """Return the amounts that the first app in line lacks and this app needs too; else the app's request."""
    resource, label = first.lacks
    if resource and ticket.asks(resource) > 0 and _group(first, label) in ticket.groups:
        return resource, label
    for each in (GPUS, CPU, MEMORY):
        if ticket.asks(each) > 0:
            return each, ""
    return APPS, next((_label(group) for group in ticket.groups if group != MACHINE), "")


def _place_of(places: str, held: int) -> str:
    """Return a phrase for one of `places`; if their number is unknown, for one of `held` taken places.

    More can be taken than exist: `launcher start --now` takes a place beyond the limit.
    """
    if places == "1" or (not places and held <= 1):
        return "the place"
    return f"one of {places} places" if places else "a place"


def _group(ticket: Ticket, label: str) -> str:
    """Return the ticket's group with this label; see `launcher.turns.line.Limit`."""
    return next((each for each in ticket.groups if _label(each) == label), "")


def _label(group: str) -> str:
    kind, _, name = group.partition(" ")
    return {MACHINE: "", "matrix": name.rpartition("/")[2], "apply": "this apply"}.get(kind, group)
