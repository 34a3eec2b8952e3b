"""Turn the engine's messages during a pull, push or build into reports. Pure but for the clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from launcher.schedulers.docker.client.errors import BuildFailed, EngineError, refusal

if TYPE_CHECKING:
    Report = Callable[[str, Mapping[str, Any]], None]


PAUSE_S = 0.1  # between two reports of a transfer: an engine sends hundreds of messages a second
_MOVING = {"Downloading", "Pushing"}
_MOVED = {"Download complete", "Pull complete", "Pushed", "Verifying Checksum"}
LAST_LINES = 15


class Transfer:
    """The bytes transferred by a pull or push, over all layers whose size is known."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}

    def update(self, message: Mapping[str, Any]) -> None:
        layer, status = str(message.get("id", "")), message.get("status")
        detail = message.get("progressDetail") or {}
        if status in _MOVING and detail.get("total"):
            self._layers[layer] = (min(detail["current"], detail["total"]), detail["total"])
        elif status in _MOVED and layer in self._layers:
            self._layers[layer] = (self._layers[layer][1],) * 2

    @property
    def done(self) -> int:
        return sum(done for done, _ in self._layers.values())

    @property
    def total(self) -> int:
        return sum(total for _, total in self._layers.values())


def transfer(
    messages: Iterable[Mapping[str, Any]], kind: str, image: str, doing: str, report: Report
) -> None:
    """Follow a pull or push to its end; `kind` ("pulling") is reported with `done` and `total` bytes.

    Raises EngineError with the engine's reason when it fails.
    """
    moved, reported, due = Transfer(), (0, 0), 0.0
    report(kind, {"image": image, "done": 0, "total": 0})
    for message in messages:
        _refused(message, doing)
        moved.update(message)
        now = (moved.done, moved.total)
        if now != reported and (time.monotonic() >= due or moved.done == moved.total):
            report(kind, {"image": image, "done": moved.done, "total": moved.total})
            reported, due = now, time.monotonic() + PAUSE_S


def built(messages: Iterable[Mapping[str, Any]], image: str, report: Report) -> str:
    """Follow a build to its end and return the image's id; each line of its output is reported.

    Raises BuildFailed, which has the last lines.
    """
    made, last, rest = "", deque[str](maxlen=LAST_LINES), ""
    report("building", {"image": image, "line": ""})
    for message in messages:
        if "error" in message:
            raise BuildFailed(image, _reason(message), [*last, rest] if rest else list(last))
        made = (
            str((message.get("aux") or {}).get("ID") or made)
            if isinstance(message.get("aux"), dict)
            else made
        )
        *lines, rest = (rest + _text(message)).split("\n")
        for line in filter(None, (line.rstrip() for line in lines)):
            last.append(line)
            report("building", {"image": image, "line": line})
    if not made:
        raise EngineError(f"cannot build {image}: the engine ended the build without an image")
    return made


def _text(message: Mapping[str, Any]) -> str:
    if "stream" in message:
        return str(message["stream"])
    moving = message.get("progressDetail")  # of a pull of a base image: too many messages
    return "" if moving or "status" not in message else f"{message['status']}\n"


def _refused(message: Mapping[str, Any], doing: str) -> None:
    if "error" in message:
        raise refusal(0, _reason(message), doing)


def _reason(message: Mapping[str, Any]) -> str:
    return str((message.get("errorDetail") or {}).get("message") or message["error"])
