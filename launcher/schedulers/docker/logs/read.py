"""Read the logs of containers from the engine: up to now, or followed until the app has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from launcher.errors import SchedulerError
from launcher.schedulers import logs
from launcher.schedulers.docker.client.frames import LogStream
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.logs.follow import FollowedApp, merge
from launcher.schedulers.docker.logs.reader import LogQuery, LogReader, gone
from launcher.schedulers.logs import LogRecord
from launcher.text import name_hint

_CHUNK = 1 << 18


def find(replicas: Mapping[tuple[str, int], str], app_id: str, role: str, k: int) -> str:
    """The container of a replica; `replicas` is (role, replica) → container id, "" for a removed one.

    Raises SchedulerError with the existing names, LogsGone when the container was removed.
    """
    roles = dict.fromkeys(name for name, _ in replicas)
    if role not in roles:
        hint = name_hint(role, roles) or f"its roles: {', '.join(roles) or 'none'}"
        raise SchedulerError(f"{app_id} has no role `{role}`", hint=hint)
    if (role, k) not in replicas:
        count = sum(name == role for name, _ in replicas)
        hint = f"it has {count}, counted from 0"
        raise SchedulerError(f"role `{role}` of {app_id} has no replica {k}", hint=hint)
    if not replicas[role, k]:
        raise gone(f"{role}/{k} of {app_id}")
    return replicas[role, k]


def records(
    engine: EngineView, container: str, query: LogQuery, followed: FollowedApp | None = None
) -> Iterator[LogRecord]:
    """The output of a replica with times, and a mark of its last restart (of every restart when followed).

    Args:
        followed: the app to follow until its end, closed afterwards; None reads up to now.
    """
    try:
        with LogReader(engine, container, query) as reader:
            yield from reader.read() if followed is None else reader.follow(followed)
    finally:
        if followed is not None:
            followed.close()


def chunks(
    engine: EngineView,
    sources: Sequence[tuple[str, int, str]],
    query: LogQuery,
    *,
    tail: int | None = None,
    followed: FollowedApp | None = None,
) -> Iterator[tuple[str, int, bytes]]:
    """The output of several replicas, (role, replica, container) each: in order, or merged when followed.

    See `Scheduler.log_chunks`.
    """
    if followed is None:
        for role, k, container in sources:
            for data in _there(engine, container, query, tail):
                yield role, k, data
        return
    readers = [LogReader(engine, container, query, marks=False) for _, _, container in sources]
    try:
        for number, data in merge(readers, [_followed(reader, followed, tail) for reader in readers]):
            role, k, _ = sources[number]
            yield role, k, data
    finally:
        followed.close()


def _there(engine: EngineView, container: str, query: LogQuery, tail: int | None) -> Iterator[bytes]:
    if tail is None:
        return _joined(query.of(engine, container))
    return iter(last_lines(engine, container, query, tail))


def _followed(reader: LogReader, followed: FollowedApp, tail: int | None) -> Iterator[bytes]:
    if tail is None:
        return (record.data for record in reader.follow(followed) if record.data)
    first = logs.tail((record.data for record in reader.read()), tail)
    return chain(first, _followed(reader, followed, None))


def _joined(stream: LogStream) -> Iterator[bytes]:
    """The payloads joined into larger pieces: the engine sends line by line."""
    held: list[bytes] = []
    size = 0
    with stream:
        for _, payload in stream:
            held.append(payload)
            size += len(payload)
            if size >= _CHUNK:
                yield b"".join(held)
                held, size = [], 0
    if held:
        yield b"".join(held)


def last_lines(engine: EngineView, container: str, query: LogQuery, count: int) -> list[bytes]:
    """The last `count` lines.

    The engine counts pieces of 16 KiB, of both streams, before it applies `until`. One piece more than
    wanted shows whether the first line is whole. Where a line has several pieces, or the engine would count
    differently, the whole log is read.
    """
    if count <= 0:
        return []
    if query.stream == logs.COMBINED and query.until is None:
        with query.of(engine, container, tail=count + 1) as stream:
            found = [payload for _, payload in stream]
        if all(payload.endswith(b"\n") for payload in found[:-1]):
            return found[-count:]
    return list(logs.tail(_joined(query.of(engine, container)), count))
