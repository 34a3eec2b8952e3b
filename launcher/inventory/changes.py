"""Detect that apps, records or turns may have changed, by cheap checks of files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from launcher import paths
from launcher.inventory.recorded import scheduler_of
from launcher.schedulers.api import Scheduler
from launcher.state.records import AppRecord
from launcher.turns.machine import gpu_table, slots_table

_SHARE = 200
"""Asking all apps of a scheduler takes at most 1/200 of the time."""
_LONGEST_S = 90.0
_DEAD_S = 5.0
"""Seconds between queries of apps that report changes themselves: a killed holder reports nothing."""


class Changes:
    """Tells what may have changed since the last check. For one thread.

    Every app is asked again from time to time. An app of a scheduler that knows of changes without its engine
    (`Scheduler.changed`) is asked when it has changed, too.
    """

    def __init__(self) -> None:
        self._signs: dict[str, Any] = {}
        self._schedulers: dict[str, Scheduler[Any]] = {}
        self._due: dict[str, float] = {}
        self._every_s: dict[str, float] = {}

    def records(self) -> bool:
        """Whether the ledger has been written to since the last check."""
        return self._differs("ledger", [paths.ledger(), f"{paths.ledger()}-wal"])

    def turns(self) -> bool:
        """Whether an app has joined or left a line, or has got or given up its share."""
        return self._differs("turns", [slots_table(), gpu_table()])

    def among(self, apps: Iterable[AppRecord]) -> list[AppRecord]:
        """The live apps that are to be asked now."""
        of_each: dict[str, list[AppRecord]] = {}
        for app in apps:
            of_each.setdefault(app.scheduler, []).append(app)
        return [app for name, each in of_each.items() for app in self._of(name, each)]

    def asked(self, apps: Iterable[AppRecord], spent_s: float) -> None:
        """Note how long the query of these apps took, so that slow queries are rarer."""
        for name in {app.scheduler for app in apps}:
            wait_s = max(self._every_s.get(name, 0.0), min(spent_s * _SHARE, _LONGEST_S))
            self._due[name] = time.monotonic() + wait_s

    def _of(self, name: str, apps: Sequence[AppRecord]) -> Sequence[AppRecord]:
        if name not in self._schedulers:
            self._schedulers[name] = scheduler_of(apps[0])
        changed = self._schedulers[name].changed([app.app_id for app in apps])
        self._every_s[name] = self._schedulers[name].describe_every_s if changed is None else _DEAD_S
        if time.monotonic() >= self._due.get(name, 0.0):
            return apps
        return [app for app in apps if app.app_id in changed] if changed else ()

    def _differs(self, name: str, files: Sequence[str]) -> bool:
        now: list[tuple[int, int, int] | None] = []
        for path in files:
            try:
                found = os.stat(path)
                now.append((found.st_ino, found.st_size, found.st_mtime_ns))
            except OSError:
                now.append(None)
        before = self._signs.get(name)
        self._signs[name] = now
        return now != before
