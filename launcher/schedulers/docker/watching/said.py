"""Read the last line that a container wrote to stderr, for the message of its failure."""

from __future__ import annotations

from launcher.schedulers.api import LogsUnsupported
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineUnreachable
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.logs.read import starts_of
from launcher.schedulers.docker.logs.reader import shortly_before
from launcher.schedulers.last_line import TAIL_BYTES, last_line
from launcher.schedulers.logs import STDERR
from launcher.specs.secret import reference_in
from launcher.specs.sensitive import SHORTEST_LITERAL, is_sensitive

_LINES = 500


def said(engine: Engine, ended: Container, journal: Journal) -> str:
    """The last line that the last run of a container wrote to stderr; "" where its log cannot be read.

    Raises EngineUnreachable.
    """
    try:
        tail, whole = _stderr(engine, ended, journal)
        return last_line(tail, _secrets(engine, ended), whole=whole) if tail else ""
    except EngineUnreachable:
        raise
    except EngineError:
        return ""


def _stderr(engine: Engine, ended: Container, journal: Journal) -> tuple[bytes, bool]:
    """The end of the container's stderr, and whether that is all of it."""
    since = None if (begun := _begun(ended, journal)) is None else int(begun * 1e9)
    tail, count, size = b"", 0, 0
    with engine.log_frames(ended.id, since=since, tail=_LINES, tty=ended.tty) as frames:
        for stream, payload in frames:  # both streams: the engine counts the lines of both
            count += 1
            if stream == STDERR:
                size += len(payload)
                tail = (tail + payload)[-TAIL_BYTES:]
    return tail, count < _LINES and size <= TAIL_BYTES


def _begun(ended: Container, journal: Journal) -> float | None:
    try:
        return starts_of(ended, journal)[-1][1]
    except (LogsUnsupported, IndexError):
        return None if ended.started_at is None else shortly_before(ended.started_at)


def _secrets(engine: Engine, ended: Container) -> tuple[str, ...]:
    """The values of its secrets, and of literals under names of secrets, as the engine keeps them."""
    names = {
        name
        for role in Labels(ended.labels).document.get("roles", ())
        for name, value in (role.get("env") or {}).items()
        if reference_in(value)
    }
    return tuple(
        value
        for name, value in engine.environment(ended.id).items()
        if name in names or (len(value) >= SHORTEST_LITERAL and is_sensitive(name))
    )
