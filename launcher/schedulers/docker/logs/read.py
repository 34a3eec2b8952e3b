"""Read the logs of an app from the engine: up to now, or followed until the app has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from launcher.errors import SchedulerError
from launcher.schedulers import logs
from launcher.schedulers.api import LogsUnsupported
from launcher.schedulers.docker import apps, recorded
from launcher.schedulers.docker.apps import DockerApp
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.streams import LogStream
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.logs.follow import FollowedApp, merge
from launcher.schedulers.docker.logs.reader import LogQuery, LogReader, gone, shortly_before
from launcher.schedulers.docker.replicas import where
from launcher.schedulers.logs import LogRecord
from launcher.text import name_hint

_CHUNK = 1 << 18


def app_records(
    engine: EngineView, app_id: str, replica: tuple[str, int], query: LogQuery, *, follow: bool
) -> Iterator[LogRecord]:
    """See `Scheduler.log_records`."""
    found = _app(engine, app_id)
    (container,) = _containers(found, [replica])
    if follow:  # over restarts that are still to come
        return records(engine, container, query, _followed_app(engine, app_id))
    known, coming = _runs(found.journal or Journal(), *replica)
    last = coming if coming.due_at or not known else known[-1]
    return records(engine, container, query, begun=lambda at: _begun(at, last.ended_before, last.due_at))


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
    found = _containers(_app(engine, app_id), replicas)
    sources = [(role, k, container) for (role, k), container in zip(replicas, found, strict=True)]
    followed = _followed_app(engine, app_id) if follow else None
    return chunks(engine, sources, query, tail=tail, followed=followed)


def run_starts(
    engine: EngineView, app_id: str, replicas: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], list[tuple[int, float]]]:
    """See `Scheduler.run_starts`. The journal has the start of each run.

    Raises LogsUnsupported where the engine restarted a container by itself, or the record is elsewhere.
    """
    found = _app(engine, app_id, inspected=True)
    journal = found.journal
    if journal is None or journal.adopted:
        raise LogsUnsupported(f"the restarts of {app_id} are not on record here", hint=_BY_TIME)
    there = {where(each): each for each in found.containers}
    return {name: starts_of(there[name], journal) if name in there else [] for name in replicas}


_BY_TIME = "select by time, with --since and --until"
_OURS = "with `retry_delay: 1s` in its role, launcher restarts it and records when; or " + _BY_TIME


def starts_of(container: Container, journal: Journal) -> list[tuple[int, float]]:
    """When each run of a container began to write. See `Scheduler.run_starts`."""
    role, k = where(container)
    if container.restarts:
        message = f"the engine restarted {role}/{k} by itself, and keeps no times of that"
        raise LogsUnsupported(message, hint=_OURS)
    runs, coming = _runs(journal, role, k)
    if not runs or (container.started_at or 0.0) > (runs[-1].start or 0.0):
        runs.append(replace(coming, start=container.started_at))
    times = [(each.start, each) for each in runs if each.start is not None]
    begun = [_begun(start, each.ended_before, each.due_at) for start, each in times]
    return list(enumerate(begun))


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of a replica.

    Attributes:
        ended_before: when the run before it ended; None where that is not on record.
        due_at: when launcher was to start it; 0.0 for the first run.
    """

    start: float | None = None
    ended_before: float | None = None
    due_at: float = 0.0


def _runs(journal: Journal, role: str, k: int) -> tuple[list[_Run], _Run]:
    """The runs of a replica on record, and the one that comes after them."""
    runs: list[_Run] = []
    ended_at: float | None = None
    due_at = 0.0
    for event in journal.events:
        is_of = event.get("role") == role and event.get("k") == k
        if event["e"] == "spawn" and is_of:
            runs.append(_Run(event.get("start"), ended_at, due_at))
            ended_at, due_at = None, 0.0
        elif event["e"] == "exit" and is_of:
            ended_at = event.get("t", 0) / 1e9
        elif event["e"] == "restart" and (
            is_of or event["scope"] == "app" or (event["scope"], event["role"]) == ("role", role)
        ):
            due_at = event.get("t", 0) / 1e9 + event.get("delay_s", 0)
    return runs, _Run(None, ended_at, due_at)


def _begun(started_at: float, ended_at: float | None = None, due_at: float = 0.0) -> float:
    """A time before the first output of a run, and after the last one of the run before it.

    The engine takes the time of a start after the process began, on a busy machine long after. The watcher
    knows better when it restarts what has ended, if its clock is the engine's.
    """
    if ended_at is not None and ended_at <= due_at <= started_at:
        return due_at
    return shortly_before(started_at)


def _app(engine: EngineView, app_id: str, *, inspected: bool = False) -> DockerApp:
    found = apps.find(engine, app_id, inspected=inspected)
    if found is None:
        recorded.refuse_elsewhere(engine, app_id)
        raise SchedulerError(f"there is no app {app_id} at {engine.host}")
    return found


def _containers(found: DockerApp, replicas: Sequence[tuple[str, int]]) -> Sequence[str]:
    there = dict.fromkeys(found.expected_replicas, "") | {
        (each.role, each.k): each.id for each in found.view.replicas
    }
    return [find(there, found.app_id, role, k) for role, k in replicas]


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
    engine: EngineView,
    container: str,
    query: LogQuery,
    followed: FollowedApp | None = None,
    begun: Callable[[float], float] = shortly_before,
) -> Iterator[LogRecord]:
    """The output of a replica with times, and a mark of its last restart (of every restart when followed).

    Args:
        followed: the app to follow until its end, closed afterwards; None reads up to now.
        begun: see `LogReader`.
    """
    try:
        with LogReader(engine, container, query, begun=begun) as reader:
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
