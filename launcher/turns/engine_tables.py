"""The tables of turns on the machine of an engine, as a process there reports them to clients elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from launcher.turns.line import Ticket, decode, encode
from launcher.turns.machine import Machine, gpu_table, machine, slots_table
from launcher.turns.table import summon, tickets

_BYTES = ("utf-8", "surrogateescape")


class EngineTables(NamedTuple):
    """The live tickets of one moment.

    Attributes:
        engine: the address of the engine.
        machine: its cores and memory; its GPUs are not counted.
        folder, gpu_folder: the paths of the tables, where the reporting process sees them.
        own: the tickets of the table of cores and memory.
        of_gpus: those of the table of GPUs.
    """

    engine: str
    machine: Machine
    folder: str
    gpu_folder: str
    own: Sequence[Ticket]
    of_gpus: Sequence[Ticket]


def report() -> dict[str, Any]:
    """The tables of this process as JSON."""
    has, folders = machine(with_gpus=False), (slots_table(), gpu_table())
    found = [tickets(folder) for folder in folders]
    return {
        "machine": [has.cpu, has.memory_mb],
        "tables": [
            [folder, [[each.name, encode(each).decode(*_BYTES), each.is_left] for each in listed]]
            for folder, listed in zip(folders, found, strict=True)
        ],
    }


def left() -> list[Ticket]:
    """The tickets of dead holders in the tables of this process."""
    return [each for folder in (slots_table(), gpu_table()) for each in tickets(folder) if each.is_left]


def started(app_ids: Sequence[str]) -> dict[str, Any]:
    """Make apps in line take their shares at once; the apps that were in line, as JSON."""
    try:
        return {"started": sorted(summon(slots_table(), app_ids))}
    except FileNotFoundError:  # there is no table
        return {"started": []}


def reported(engine: str, report: dict[str, Any]) -> EngineTables:
    """The inverse of `report`. `engine`: see `EngineTables`."""
    cpu, memory_mb = report["machine"]
    (folder, own), (gpu_folder, of_gpus) = report["tables"]
    return EngineTables(
        engine,
        Machine(cpu, memory_mb),
        folder,
        gpu_folder,
        [ticket for each in own if (ticket := _ticket(folder, *each)) is not None],
        [ticket for each in of_gpus if (ticket := _ticket(gpu_folder, *each)) is not None],
    )


def _ticket(folder: str, name: str, text: str, is_left: bool) -> Ticket | None:
    ticket = decode(text.encode(*_BYTES), folder, name)
    if ticket is not None:
        ticket.is_left = is_left
    return ticket
