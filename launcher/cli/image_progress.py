"""Progress of image pulls and builds for `run`."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from launcher.apply.events import Events
from launcher.cli.console import Console
from launcher.cli.watch import Watch
from launcher.specs.jobkey import JobKey


class ImageProgress:
    """Shows pulls and builds as apply does: in place on a terminal, else in lines. A context manager.

    Creates the display on the first event. Called from any thread.
    """

    def __init__(self, name: str, console: Console) -> None:
        self._name = name
        self._console = console
        self._lock = allocate_lock()
        self._watch: Watch | None = None
        self._events: Events | None = None

    def __enter__(self) -> ImageProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.__exit__(kind, error, trace)

    def __call__(self, app_id: str, kind: str, facts: Mapping[str, Any]) -> None:
        events = self._start()
        events.introduce(JobKey("", "default", self._name), app_id=app_id)
        events.progress(app_id, kind, facts)

    def _start(self) -> Events:
        with self._lock:
            if self._watch is None or self._events is None:
                self._watch = Watch(self._console, format="text", wait=False, logs=False)
                self._events = Events(self._watch.watching().on_event)
            return self._events
