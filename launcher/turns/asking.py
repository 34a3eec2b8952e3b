"""Requests of apps to this machine: the sum of their roles' resources, and the folder of their tickets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from launcher.specs.app import AppDef
from launcher.turns.ask import MACHINE, Ask, Limit
from launcher.turns.folders import gpu_table_folder, table_folder
from launcher.turns.machine import Machine, given_gpus


class Total(NamedTuple):
    """The sum over all replicas of all roles: cores, MiB and GPUs."""

    cpu: float
    memory_mb: int
    gpus: int

    def __bool__(self) -> bool:
        return any(self)


def total(app: AppDef) -> Total:
    """The amounts that an app asks for; 0 where its roles leave an amount to the scheduler."""
    cpu: float = 0
    memory_mb = gpus = 0
    for role in app.roles:
        each, count = role.resource, role.num_replicas
        cpu += count * max(each.cpu, 0)
        memory_mb += count * max(each.memMB, 0)
        gpus += count * max(each.gpu, 0)
    return Total(cpu, memory_mb, gpus)


def ask_of(
    app: AppDef,
    app_id: str,
    machine: Machine,
    *,
    number: int = 0,
    limits: Iterable[Limit] = (),
    at_once: bool = False,
    home: str = "",
) -> Ask | None:
    """The request of an app; None where it asks for nothing, and belongs to no group with a limit.

    Makes the folders of the tables. Raises StateError where that fails.

    Args:
        number: of its ticket; see `table.draw`.
        limits: of its groups, beside the machine.
        home: the token of this state folder.
    """
    wanted, limits = total(app), tuple(limits)
    if not wanted and not limits:
        return None
    shared = Limit(MACHINE, cpu=machine.cpu, memory_mb=machine.memory_mb)
    return Ask(
        app_id,
        number=number,
        **wanted._asdict(),
        limits=(shared, *limits),
        devices=machine.gpus if wanted.gpus else (),
        table=table_folder(),
        gpu_table=gpu_table_folder() if wanted.gpus else "",
        at_once=at_once,
        home=home,
    )


def ask_of_engine(
    app: AppDef, app_id: str, *, number: int = 0, limits: Iterable[Limit] = (), at_once: bool = False
) -> Ask | None:
    """The request of an app to the machine of its engine, which a process there completes and holds.

    It names no state folder: app ids are unique on an engine. GPUs are dealt out where LAUNCHER_GPUS counts
    them; otherwise the engine chooses them, and no app waits for one. None as in `ask_of`.

    Args:
        number: the number of the ticket that it takes over; 0 for a new one behind all others.
    """
    wanted, limits = total(app), tuple(limits)
    if not wanted and not limits:
        return None
    return Ask(
        app_id,
        number=number,
        **wanted._asdict(),
        limits=limits,
        devices=given_gpus() if wanted.gpus else (),
        table="",
        at_once=at_once,
    )
