"""Read the record of a local app: the app by its events, and the supervisor that holds it."""

from __future__ import annotations

import json

from launcher.errors import StateError
from launcher.holding.state import AppState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.specs.attempt import AttemptState

VERSION = 1
NOT_COMPARED = "its supervisor was killed before it compared the input files"
LOST = "its supervisor ended without a word (killed, or the machine was restarted)"


class AppView(AppState):
    """An app according to its record and its lock.

    Attributes:
        supervisor: (pid, start time, boot id) of its supervisor; None before there is one.
        owner: the client that is submitting a reserved or created app; "" when there is none.
        abandoned: its supervisor died before it recorded the end; processes of the app may be left.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state: AttemptState
        self.supervisor: tuple[int, int, str] | None = None
        self.owner = ""
        self.lock_held = False
        self.handle = ""
        self.abandoned = False
        self.compares_inputs = False

    def end(self, state: AttemptState, message: str, code: int | None, at: float | None = None) -> None:
        """End the app, whose supervisor did not record its end. Its other replicas count as stopped."""
        self.stop_reason = message
        self._on_ended({"state": state, "message": message, "code": code}, at or 0)
        self.ended_at = at

    def _on_supervisor(self, event: dict[str, Any], at: float) -> None:
        if event["v"] > VERSION:
            raise StateError(
                f"{event['handle']} was started by a newer version of launcher (record version {event['v']})",
                hint="use the newer version for this app",
            )
        self.supervisor = (event["pid"], event["start"], event["boot"])
        self.handle = event["handle"]

    def _on_starting(self, event: dict[str, Any], at: float) -> None:
        super()._on_starting(event, at)
        self.compares_inputs = bool(event.get("inputs"))


def fold(record: bytes, *, locked: bool) -> AppView:
    """The app by its record (the bytes of events.jsonl), given whether it is locked.

    Raises StateError for a record that a newer version wrote.
    """
    events = parse(record)
    view = AppView()
    view.lock_held = locked
    for event in events:
        view.take(event)
    if view.state == "running" and not locked:
        _end_abandoned(view, events)
    return view


def _end_abandoned(view: AppView, events: list[dict[str, Any]]) -> None:
    """End an app whose supervisor has died as its record implies."""
    from launcher.holding.hold import implied_end

    view.abandoned = True
    end = implied_end(events)
    if end is None:
        view.state, view.message = "lost", LOST
        return
    view.take({**end, "t": int(view.last_at * 1e9)})
    if end["state"] == "succeeded" and view.compares_inputs:
        view.inputs_changed = view.inputs_changed or NOT_COMPARED


def parse(record: bytes) -> list[dict[str, Any]]:
    """The events of a record."""
    whole = record[: record.rfind(b"\n") + 1]  # ignore a line that is still being written
    try:
        found = json.loads(b"[" + whole[:-1].replace(b"\n", b",") + b"]")
    except ValueError:  # a crash of the machine can tear a line in the middle of the file
        found = [_line(line) for line in whole.splitlines()]
    return [event for event in found if isinstance(event, dict)]


def _line(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
