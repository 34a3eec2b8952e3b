"""Take over an app from its client: the record, where the client has none here, and the place in line."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from launcher.schedulers.docker import apps, record
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.labels import SHARE
from launcher.schedulers.docker.record import RecordLock

if TYPE_CHECKING:
    from launcher.turns.table import Place


def own_record(engine: Engine, order: Mapping[str, Any]) -> tuple[RecordLock, Mapping[str, Any]]:
    """Make the record of an app whose client is on another machine, or take the one that is here.

    Returns its lock, and the order by the clock of this machine.
    """
    lock = record.claim(record.folder(order["app_id"]))
    if "labels" in order:
        record.write_attempt(lock.app_dir, apps.facts(engine, order["labels"]))
    if order["resumed"] and record.journal(lock.app_dir) is None:
        record.append(lock.app_dir, "adopted")
    return lock, {**order, "at": time.time()}


def place_of(order: Mapping[str, Any], bells: Sequence[int]) -> Place | None:
    """The place of an app among those that share the machine; None for an app that takes no turn.

    Its client has taken it, with these `bells`, or leaves that to this process: for a new app, whose `ask`
    then lacks the machine, and for a running one, whose `share` its labels have. Raises StateError where the
    tables cannot be written.
    """
    share_label: str = (order.get("labels") or {}).get(SHARE) or order.get("share") or ""
    if not ("place" in order or "ask" in order or share_label):
        return None
    from launcher.schedulers.docker import share

    if "place" in order:
        return share.from_json(order["place"], bells)
    holder = os.uname().nodename
    if "ask" in order:
        return share.take(share.completed(order["ask"]), holder, later=order["later"])
    return share.take_from(share_label, holder)


def taken(order: Mapping[str, Any], place: Place | None) -> dict[str, Any]:
    """The place that this process has taken for a client on another machine, as a part of the answer."""
    if place is None or "ask" not in order:
        return {}
    from launcher.schedulers.docker import share

    return {"turn": share.to_json(place)}
