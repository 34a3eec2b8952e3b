"""The share of a machine that a Docker app holds: its client takes the share, its watcher keeps it.

A watcher on the engine takes the share itself, of the engine's machine. The containers' labels record the
share, so that the next watcher takes the same one after a kill.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from launcher import paths
from launcher.errors import StateError
from launcher.schedulers.docker import record
from launcher.schedulers.docker.labels import SHARE
from launcher.turns.line import MACHINE, Ask, Limit, Ticket
from launcher.turns.machine import gpu_table_folder, machine, table_folder
from launcher.turns.table import Place, draw


def take(ask: Ask, holder: str, *, later: bool = False) -> Place:
    """Take the app's place among the apps that share the machine, unless its watcher does that later.

    Raises StateError where its table cannot be written.

    Args:
        holder: the URL of the engine that is to run it; the name of its watcher, where that is on the engine.
    """
    ask.engine, ask.folder = holder, ask.folder or record.folder(ask.app)
    place = Place(ask)
    if later:
        return place
    try:
        place.look()
    except OSError as error:
        place.leave()
        raise paths.unusable(error, ask.table) from error
    return place


def take_from(label: str, holder: str) -> Place | None:
    """Take the share in a label; None where that cannot be done. `holder`: see `take`."""
    try:
        return take(Ask.from_dict(json.loads(label)), holder)
    except (ValueError, TypeError, KeyError, StateError):
        return None


def completed(given: Mapping[str, Any]) -> Ask:
    """The request of a client on another machine, completed for the tables and resources of this machine.

    It gets a number behind all earlier ones, unless it has the number of the app that it replaces. Raises
    StateError where the tables cannot be written.
    """
    ask, has = Ask.from_dict(given), machine(with_gpus=False)
    ask.limits = (Limit(MACHINE, cpu=has.cpu, memory_mb=has.memory_mb), *ask.limits)
    ask.table, ask.gpu_table = table_folder(), gpu_table_folder() if ask.devices else ""
    try:
        ask.number = ask.number or draw(ask.tables, 1)
    except OSError as error:
        raise paths.unusable(error, ask.table) from error
    return ask


def is_of(ticket: Ticket, labels: Mapping[str, str]) -> bool:
    """Whether a container belongs to the app of a ticket, and not to an app of another state folder."""
    try:
        home = Ask.from_dict(json.loads(labels[SHARE])).home
        return not home or ticket.is_of(home)
    except (ValueError, TypeError, KeyError):
        return True


def label_of(place: Place) -> dict[str, str]:
    """The label of an app's containers."""
    gpus = len(place.dealt) if place.ask.devices else place.ask.gpus
    held = {**place.ask.to_dict(), "at_once": True, "gpus": gpus, "devices": list(place.dealt)}
    return {SHARE: json.dumps(held, separators=(",", ":"))}


def to_json(place: Place) -> dict[str, Any]:
    """The place as a JSON object, for the watcher that gets its bells."""
    dealt = list(place.dealt) if place.starts else None
    return {"ask": place.ask.to_dict(), "dealt": dealt}


def from_json(data: Mapping[str, Any], bells: Sequence[int]) -> Place:
    """The place that a client handed to this watcher, or that it is to take: the inverse of `to_json`.

    Args:
        bells: the descriptors of the bells.
    """
    ask = Ask.from_dict(data["ask"])
    return Place.adopt(ask, bells, dealt=data["dealt"]) if bells else Place(ask)


def taken_elsewhere(data: Mapping[str, Any]) -> Place:
    """The place that a watcher on the engine has taken, from its answer: this process holds no part of it."""
    place = Place(Ask.from_dict(data["ask"]))
    place.starts, place.dealt = data["dealt"] is not None, tuple(data["dealt"] or ())
    return place
