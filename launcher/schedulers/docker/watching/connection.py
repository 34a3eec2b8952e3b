"""A client's connection to a watcher, and the app that the client hands over on it.

Messages are JSON objects, one a line; descriptors come with the first of them.
"""

from __future__ import annotations

import json
import os
import socket
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from launcher.schedulers.descriptors import CLOEXEC, ROOM, unpacked
from launcher.schedulers.docker import apps, record
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.labels import SHARE
from launcher.schedulers.docker.record import RecordLock
from launcher.schedulers.holder import NO_SIGPIPE

if TYPE_CHECKING:
    from launcher.turns.table import Place

_PIECE = 1 << 16
_ANSWER_S = 10.0


class Connection:
    """The watcher's end of a connection, which never blocks.

    Attributes:
        fds: the received descriptors, until they are taken.
        task: the app that the client has handed over, in the loop of the watcher.
    """

    def __init__(self, client: socket.socket) -> None:
        client.setblocking(False)
        self._socket = client
        self._left = b""
        self.fds: list[int] = []
        self.task: Any = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def messages(self) -> Iterator[dict[str, Any]]:
        """The received messages; the last one is `{"op": "end"}` once the client has gone."""
        while True:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(_PIECE, ROOM, CLOEXEC)
            except BlockingIOError:
                return
            except OSError:  # the client was killed with unread input
                data, ancillary = b"", []
            self.fds += unpacked(ancillary)
            for fd in self.fds if not CLOEXEC else ():
                os.set_inheritable(fd, False)  # else an ssh process with the lock looks like a watcher
            if not data:
                yield {"op": "end"}
                return
            *lines, self._left = (self._left + data).split(b"\n")
            yield from map(json.loads, lines)

    def answer(self, message: dict[str, Any]) -> None:
        """Send a short message, unless the client has gone."""
        with suppress(OSError):
            self._socket.send(json.dumps(message).encode() + b"\n", NO_SIGPIPE)

    def answer_in_full(self, message: dict[str, Any]) -> None:
        """Send a message of any length, unless the client has gone or does not read it. It may block."""
        with suppress(OSError):
            self._socket.settimeout(_ANSWER_S)
            self._socket.sendall(json.dumps(message).encode() + b"\n", NO_SIGPIPE)

    def close(self) -> None:
        """Close the connection, and the descriptors that were not taken."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        self._socket.close()


# -- the app that a client hands over ------------------------------------------------------------------------


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


def answer_about_turns(connection: Connection, message: Mapping[str, Any]) -> None:
    """Answer a client about the tables of turns, and leave it. Then have the shares of dead holders cleared.

    It may block.
    """
    from launcher.schedulers.leftovers import start_clearing
    from launcher.turns.engine_tables import left, report, started

    try:
        is_start = message["op"] == "now"
        connection.answer_in_full(started(message["apps"]) if is_start else report())
    except Exception:
        traceback.print_exc()
    finally:
        connection.close()
    if tickets := left():
        with suppress(OSError):  # the first in line clears them
            os.waitpid(start_clearing(tickets), 0)
