"""The stream of container events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.schedulers.docker.client.errors import EngineGone, NonsenseAnswer
from launcher.schedulers.docker.client.streams import ResponseStream


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a container.

    Attributes:
        time: epoch seconds, by the engine's clock.
        action: create, start, die, oom, kill, stop, rename, destroy, …
        attributes: the container's labels, `exitCode` of a `die`, `oldName` of a `rename`.
    """

    time: float
    action: str
    container_id: str
    name: str
    attributes: Mapping[str, str]


class EventStream(ResponseStream):
    """An iterator of events. It ends when it is closed; when the engine goes away it raises EngineGone."""

    def __init__(self, host: str, answer: Any) -> None:
        super().__init__(host, answer)
        self._found = (event(data) for data in objects(self.pieces()))

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            return next(self._found)
        except StopIteration:
            if self.closed:
                raise
            raise EngineGone(f"the Docker engine at {self.host} ended the stream of its events") from None


def event(data: Mapping[str, Any]) -> Event:
    actor = data.get("Actor") or {}
    attributes = actor.get("Attributes") or {}
    time = data["timeNano"] / 1e9 if "timeNano" in data else float(data.get("time", 0))
    return Event(time, data.get("Action", ""), actor.get("ID", ""), attributes.get("name", ""), attributes)


def objects(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Parse JSON objects, one a line, from bytes that are cut anywhere.

    Raises NonsenseAnswer for a line that is not a JSON object.
    """
    left = b""
    for piece in pieces:
        *lines, left = (left + piece).split(b"\n")
        yield from (_object(line) for line in lines if line.strip())
    if left.strip():
        yield _object(left)


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        said = line[:60].decode("utf-8", "replace").strip()
        raise NonsenseAnswer(f"the Docker engine sent something that is not a JSON object: {said}")
    return found
