"""Follow the attempts that held apps need: each attempt once, for all apps of a watcher that need it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

from launcher.schedulers.docker import apps
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.wire import Patience
from launcher.schedulers.docker.labels import SCHEDULER
from launcher.schedulers.docker.watching.steps import OnEnd, WatchingProcess
from launcher.schedulers.docker.watching.waiting import look_for_end
from launcher.schedulers.registry import get_scheduler
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.attempt import Attempt
from launcher.specs.needs import StoodOn

_AGAIN_S = 1.0  # time between two looks at an attempt without a watcher
_MOST_MISSES = 10  # while an interrupted submission is resumed, an attempt has neither container nor record


class Needs:
    """The needs of the apps of one watcher. All methods are called in the loop of the process.

    A need of this scheduler is looked at after each event of its containers, without a waiting thread. For
    each need of another scheduler, one thread waits.
    """

    def __init__(self, engine: Engine, process: WatchingProcess) -> None:
        self._engine = engine
        self._process = process
        self._followed: dict[tuple[str, str], _Need] = {}

    def follow(self, need: StoodOn, on_end: OnEnd) -> None:
        """Call `on_end` once the attempt has ended."""
        key = need.scheduler, need.app_id
        if key not in self._followed:
            forget = partial(self._followed.pop, key, None)
            self._followed[key] = _Need(self._engine, self._process, need, forget)
        found = self._followed[key]
        found.waiting.append((need.job, on_end))
        found.look()

    def happened(self, app_id: str) -> None:
        """Look at an app with a new event, if the app is needed."""
        if (found := self._followed.get((SCHEDULER, app_id))) is not None:
            found.look()

    def look(self) -> None:
        """Look at all needs: events may have been missed."""
        for each in self._followed.values():
            each.look()


class _Need:
    """One attempt, and the apps that wait for it, each with its name of the job."""

    def __init__(
        self, engine: Engine, process: WatchingProcess, need: StoodOn, forget: Callable[[], object]
    ) -> None:
        self.waiting: list[tuple[str, OnEnd]] = []
        self._engine = engine
        self._process = process
        self._need = need
        self._forget = forget
        self._is_looking = False
        self._is_due = False
        self._misses = 0

    def look(self) -> None:
        if self._is_looking:
            self._is_due = True
        else:
            self._is_looking = True
            if self._need.scheduler == SCHEDULER:
                self._process.submit(self._read)
            else:  # wait in a thread for as long as that app runs
                Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            persist = Patience(self._engine.host, holds=True).persist
            found: Any = persist(partial(ended, self._engine, self._need))
        except Exception as error:
            found = error
        self._process.post(partial(self._seen, found))

    def _seen(self, found: Attempt | Exception | None) -> None:
        self._is_looking, is_due, self._is_due = False, self._is_due, False
        self._misses = self._misses + 1 if found is None else 0
        if isinstance(found, Exception):
            self._report(found)
        elif found is not None and not found.is_live:
            self._report(found.state)
        elif self._misses >= _MOST_MISSES:
            self._report("removed")
        elif is_due:
            self.look()
        elif found is None or self._need.scheduler != SCHEDULER:
            self._process.post(self.look, _AGAIN_S)

    def _report(self, result: str | Exception) -> None:
        self._forget()
        for job, on_end in self.waiting:
            on_end(result if isinstance(result, Exception) else (job, result))


def ended(engine: Engine, need: StoodOn) -> Attempt | None:
    """The needed attempt, ended or not; None where nothing is left of it.

    It waits for an attempt of another scheduler to end, and for watchers that are about to record an end.
    """
    if need.scheduler != SCHEDULER:
        other = get_scheduler(need.scheduler, "")
        return other.ended_attempt(need.app_id) if isinstance(other, StagedScheduler) else None
    while (app := look_for_end(engine, need.app_id)) is not None:
        attempt = apps.attempt_of(app)
        if attempt is None or not attempt.is_live or not (app.view.ended or app.paused_by):
            return attempt
        time.sleep(_AGAIN_S)
    return None
