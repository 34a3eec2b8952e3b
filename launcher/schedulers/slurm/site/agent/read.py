"""Read the logs and the events of an app."""

import base64
import os
import time
from typing import Any, List, Optional, Sequence

from launcher.schedulers.slurm.site.agent.site import Folder, Site, checked
from launcher.schedulers.slurm.site.shared import OUTPUT, Json

TAIL = 1 << 20  # bytes of an index to read at once
BLOCK = 1 << 16


def read(site: Site, op: Json) -> Json:
    """Blocks of the logs of replicas from the given offsets on, each ending where its index ends.

    `seconds`: how long to wait for new output of a live app. `first`: see `_stem`. `whole`: nothing is left
    to be read.
    """
    end, limit = time.monotonic() + float(op.get("seconds", 0)), int(op.get("limit", 1 << 20))
    with site.open(op["app_id"]) as folder:
        while True:
            live = "outcome" not in folder.names()  # first: then what is read below is all there is
            parts, room, whole = [], limit, not live
            for part in op["parts"]:
                log, index = _block(folder, part, op.get("first"), room)
                parts.append([log, index])
                size = len(log) * 3 // 4
                whole = whole and size < room and len(index) < TAIL // 2
                room -= size
            if not live or any(log or index for log, index in parts) or time.monotonic() >= end:
                return {"parts": parts, "live": live, "whole": whole}
            time.sleep(0.1)


def _stem(folder: Folder, part: Sequence[Any], first: Any) -> str:
    """The path of a replica's log without its suffix; "" for the output of the job, which takes its place.

    An app may end before any replica has a log: what its job wrote is then the log of the `first` replica,
    [folder of its role, number].
    """
    logs = os.path.join(folder.path, "logs")
    stem = os.path.join(logs, checked(part[0]), str(int(part[1])))
    if list(part[:2]) != first or "outcome" not in folder.names():
        return stem
    return stem if any(name.endswith(".log") for _, _, names in os.walk(logs) for name in names) else ""


def _block(folder: Folder, part: Sequence[Any], first: Any, limit: int) -> List[str]:
    """Base64 of a log from an offset on, and whole lines of its index from another one on."""
    stem = _stem(folder, part, first)
    log = _bytes(_log(folder, stem), int(part[2]), max(0, limit))
    raw = _bytes(stem + ".index", int(part[3]), TAIL) if stem else _index_of_job(folder, int(part[3]))
    index = raw[: raw.rfind(b"\n") + 1]
    if len(raw) == TAIL and index:  # the index may go on: leave data that its lines do not cover yet
        last = int(index.splitlines()[-1].split()[0])
        log = log[: max(0, last - int(part[2]))]
    return [base64.b64encode(log).decode(), index.decode("utf-8", "replace")]


def _log(folder: Folder, stem: str) -> str:
    return stem + ".log" if stem else os.path.join(folder.path, OUTPUT)


def _index_of_job(folder: Folder, offset: int) -> bytes:
    """The index of the output of a job, from an offset on: all of it was written at the time of the last."""
    try:
        written_at = os.stat(os.path.join(folder.path, OUTPUT)).st_mtime_ns
    except FileNotFoundError:
        return b""
    return f"0 {written_at} stderr\n".encode()[offset:]


def tail(site: Site, op: Json) -> Json:
    """Base64 of the last lines of logs; null for a log whose last lines are longer than `limit` bytes."""
    count, limit = int(op["lines"]), int(op["limit"])
    with site.open(op["app_id"]) as folder:
        logs = [_log(folder, _stem(folder, part, op.get("first"))) for part in op["parts"]]
        parts = [_last_lines(path, count, limit) for path in logs]
        return {"parts": [None if part is None else base64.b64encode(part).decode() for part in parts]}


def _last_lines(path: str, count: int, limit: int) -> Optional[bytes]:
    size, block = os.stat(path).st_size if os.path.exists(path) else 0, BLOCK
    while True:
        first = max(0, size - block)
        data = _bytes(path, first, size - first)
        body = data[:-1] if data.endswith(b"\n") else data
        before, *lines = body.rsplit(b"\n", count)
        if len(lines) == count:
            return data[len(before) + 1 :]
        if not first:
            return data
        if block >= limit:
            return None
        block *= 4


def _bytes(path: str, offset: int, limit: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(limit)
    except FileNotFoundError:
        return b""


def events(site: Site, op: Json) -> Json:
    """All events of an app."""
    with site.open(op["app_id"]) as folder:
        return {"events": folder.events()}
