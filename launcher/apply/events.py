"""What an apply tells while it works, and what it says in the end."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time
from typing import Any, Literal

from launcher.plan.step import ActionKind
from launcher.specs.attempt import AttemptState
from launcher.specs.launch import JobKey

VERSION = "launcher.event/v1"

EventName = Literal[
    "planned",
    "waiting",
    "kept",
    "held",
    "reserving",
    "reserved",
    "creating",
    "created",
    "stopping",
    "stopped",
    "starting",
    "started",
    "recorded",
    "failed",
    "log",
    "ended",
    "done",
]

OnEvent = Callable[[Mapping[str, Any]], None]


def event(name: EventName, **facts: Any) -> dict[str, Any]:
    """One event as a JSON object; `launcher.apply.event_schema` says which facts belong to which."""
    return {"version": VERSION, "event": name, "time": time(), **facts}


class Events:
    """Hands events to a callback, one at a time, whichever thread they come from."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._lock = allocate_lock()

    def tell(self, name: EventName, key: JobKey, **facts: Any) -> None:
        if self._on_event is not None:
            with self._lock:
                self._on_event(event(name, **of_job(key), **facts))


def of_job(key: JobKey) -> dict[str, str]:
    return {"project": key.project, "target": key.target, "job": key.job}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one job.

    Attributes:
        kind: the plan's action.
        handle: of the attempt that now counts; "" when there is none.
        state: of that attempt when the apply returned; None when there is none.
        error: why the job could not be applied; "" when it was.
        message: how the attempt ended, where that is known.
    """

    key: JobKey
    kind: ActionKind
    handle: str = ""
    app_id: str = ""
    attempt: int = 0
    state: AttemptState | None = None
    error: str = ""
    hint: str = ""
    message: str = ""

    @property
    def succeeded(self) -> bool:
        return not self.error and self.state == "succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of an apply, in the order of the plan."""

    outcomes: tuple[Outcome, ...] = ()
    waited: bool = False

    @property
    def exit_code(self) -> int:
        """0 done; 1 some job could not be applied; 5 waited, and some declared job has not succeeded."""
        if any(outcome.error for outcome in self.outcomes):
            return 1
        if self.waited and not all(o.succeeded for o in self.outcomes if o.kind != "destroy"):
            return 5
        return 0
