"""Read the logs of an app from the engine: up to now, or followed until the app has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from launcher.errors import SchedulerError
from launcher.schedulers import logs
from launcher.schedulers.api import LogsUnsupported
from launcher.schedulers.docker import apps, recorded
from launcher.schedulers.docker.client.container import Container
from launcher.schedulers.docker.client.frames import LogStream
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.logs.follow import FollowedApp, merge
from launcher.schedulers.docker.logs.reader import EARLY_NS, LogQuery, LogReader, gone
from launcher.schedulers.docker.replicas import where
from launcher.schedulers.logs import LogRecord
from launcher.text import name_hint

_CHUNK = 1 << 18


def app_records(
    engine: EngineView, app_id: str, replica: tuple[str, int], query: LogQuery, *, follow: bool
) -> Iterator[LogRecord]:
    """See `Scheduler.log_records`."""
    (container,) = _containers(engine, app_id, [replica])
    return records(engine, container, query, _followed_app(engine, app_id) if follow else None)


def app_chunks(
    engine: EngineView,
    app_id: str,
    replicas: Sequence[tuple[str, int]],
    query: LogQuery,
    *,
    tail: int | None,
    follow: bool,
) -> Iterator[tuple[str, int, bytes]]:
    """See `Scheduler.log_chunks`."""
    found = _containers(engine, app_id, replicas)
    sources = [(role, k, container) for (role, k), container in zip(replicas, found, strict=True)]
    followed = _followed_app(engine, app_id) if follow else None
    return chunks(engine, sources, query, tail=tail, followed=followed)


def run_starts(
    engine: EngineView, app_id: str, replicas: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], list[tuple[int, float]]]:
    """See `Scheduler.run_starts`. A restart in the journal has the start of the run before it.

    Raises LogsUnsupported where the engine restarted a container by itself, or the record is elsewhere.
    """
    found = apps.find(engine, app_id)
    if found is None:
        recorded.refuse_elsewhere(engine, app_id)
        raise SchedulerError(f"there is no app {app_id} at {engine.host}")
    journal = found.journal
    if journal is None or journal.adopted:
        raise LogsUnsupported(f"the restarts of {app_id} are not on record here", hint=_BY_TIME)
    there = {where(each): each for each in found.containers}
    return {name: _starts(name, there[name], journal) if name in there else [] for name in replicas}


_BY_TIME = "select by time, with --since and --until"
_OURS = "with `retry_delay: 1s` in its role, launcher restarts it and records when; or " + _BY_TIME


def _starts(name: tuple[str, int], container: Container, journal: Journal) -> list[tuple[int, float]]:
    if container.restarts:
        message = f"the engine restarted {name[0]}/{name[1]} by itself, and keeps no times of that"
        raise LogsUnsupported(message, hint=_OURS)
    times = [each.was[container.id] for each in journal.restarts if container.id in each.was]
    starts = dict.fromkeys(at for at in (*times, container.started_at) if at is not None)
    return [(number, at - EARLY_NS / 1e9) for number, at in enumerate(starts)]


def _containers(engine: EngineView, app_id: str, replicas: Sequence[tuple[str, int]]) -> Sequence[str]:
    found = apps.find(engine, app_id, inspected=False)
    if found is None:
        recorded.refuse_elsewhere(engine, app_id)
        raise SchedulerError(f"there is no app {app_id} at {engine.host}")
    there = dict.fromkeys(found.expected_replicas, "") | {
        (each.role, each.k): each.id for each in found.view.replicas
    }
    return [find(there, app_id, role, k) for role, k in replicas]


def _followed_app(engine: EngineView, app_id: str) -> FollowedApp:
    def is_over() -> bool:
        found = apps.find(engine, app_id)
        return found is None or found.view.ended

    return FollowedApp(engine, app_id, is_over)


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
        for number, data in merge(readers, [_follow(reader, followed, tail) for reader in readers]):
            role, k, _ = sources[number]
            yield role, k, data
    finally:
        followed.close()


def _there(engine: EngineView, container: str, query: LogQuery, tail: int | None) -> Iterator[bytes]:
    if tail is None:
        return _joined(query.of(engine, container))
    return iter(last_lines(engine, container, query, tail))


def _follow(reader: LogReader, followed: FollowedApp, tail: int | None) -> Iterator[bytes]:
    if tail is None:
        return (record.data for record in reader.follow(followed) if record.data)
    first = logs.tail((record.data for record in reader.read()), tail)
    return chain(first, _follow(reader, followed, None))


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
