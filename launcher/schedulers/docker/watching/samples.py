"""Sample the use of runs of containers, for the events of their ends: no engine reports it afterwards.

A run is sampled when its age has doubled: after 1, 2, 4 … s, and at least every 300 s. The CPU time of a
sample is that of the whole run so far, so that a lost sample, or watcher, loses only the maximum of memory. A
run shorter than 1 s has no sample, and the last sample of any other run misses up to half of the run.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock, Thread
from typing import Any

from launcher.holding.use import SAMPLES
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.names import where

FIRST_S, LONGEST_S = 1.0, 300.0
MOST = 4
"""How many requests a watcher makes at once."""


def pause_s(age_s: float) -> float:
    """The pause before the next sample of a run that was watched for `age_s`."""
    return min(max(age_s, FIRST_S), LONGEST_S)


class SampledRun:
    """One run of a container.

    Attributes:
        id: the id of the container.
        start: the start of the run by the engine's clock, epoch seconds.
        seen_at: the monotonic time from which it is watched.
        is_over: the run needs no further sample.
    """

    __slots__ = ("_cpu", "_memory", "id", "is_over", "seen_at", "start")

    def __init__(self, id: str, start: float) -> None:
        self.id, self.start = id, start
        self.seen_at = time.monotonic()
        self.is_over = False
        self._cpu = 0.0, 0.0
        self._memory = 0

    def take(self, user_s: float, system_s: float, memory: int) -> None:
        """Take a sample. A sample with less CPU time than before is of a container that has just ended."""
        self._cpu = max(self._cpu, (user_s, system_s), key=sum)
        self._memory = max(self._memory, memory)

    @property
    def use(self) -> list[Any] | None:
        """The field `use` for the event of its end; None without a sample."""
        if not (any(self._cpu) or self._memory):
            return None
        user_s, system_s = self._cpu
        return [round(user_s, 3), round(system_s, 3), self._memory, SAMPLES if self._memory else ""]


class Sampler:
    """Samples the runs of all apps of a watcher, in threads that end when no sample is due.

    Neither the loop of the watcher nor its pool waits for them. Each run is due again only after its sample,
    so that a slow engine gets fewer requests.

    Args:
        post: runs a call in the loop after a number of seconds. It may be called from any thread.
    """

    def __init__(self, engine: Engine, post: Callable[[Callable[[], object], float], object]) -> None:
        self._engine = engine
        self._post = post
        self._due: deque[SampledRun] = deque()
        self._threads = 0
        self._lock = Lock()

    def rest(self, run: SampledRun) -> None:
        """Schedule a sample of a run after its next pause. May be called from any thread."""
        self._post(partial(self._ask, run), pause_s(time.monotonic() - run.seen_at))

    def _ask(self, run: SampledRun) -> None:
        """Schedule a sample of a run as soon as a thread is free. Called in the loop."""
        if run.is_over:
            return
        with self._lock:
            self._due.append(run)
            if self._threads < MOST:
                try:
                    Thread(target=self._work, daemon=True).start()
                    self._threads += 1
                except RuntimeError:  # the machine is out of threads
                    self.rest(self._due.pop())

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._threads -= 1
                    return
                run = self._due.popleft()
            try:
                if (found := self._engine.usage(run.id)) is not None:
                    run.take(*found)
                else:
                    run.is_over = True
            except EngineError:
                pass  # the next sample has everything but the memory of this one
            except Exception:
                traceback.print_exc()
            if not run.is_over:
                self.rest(run)


class AppSamples:
    """The sampled runs of one app. Its methods are called in the steps of the app.

    Args:
        sampler: None where the engine is not to be asked for samples.
    """

    __slots__ = ("_runs", "_sampler")

    def __init__(self, sampler: Sampler | None) -> None:
        self._sampler = sampler
        self._runs: dict[tuple[str, int], SampledRun] = {}

    def follow(self, containers: Iterable[Container]) -> None:
        """Begin to sample new runs, and end the samples of runs that are over."""
        if self._sampler is None:
            return
        before, self._runs = self._runs, {}
        for each in containers:
            if each.live and each.started_at is not None:
                run = before.get(where(each))
                if run is None or (run.id, run.start) != (each.id, each.started_at):
                    run = SampledRun(each.id, each.started_at)
                    self._sampler.rest(run)
                self._runs[where(each)] = run
        for place, run in before.items():
            run.is_over = self._runs.get(place) is not run

    def add_use(self, event: dict[str, Any]) -> None:
        """Add the use of a run to the event of its end, or of its restart by the engine."""
        if event["e"] not in ("exit", "restart"):
            return
        run = self._runs.get((event["role"], event["k"]))
        if run is None or event.get("id", run.id) != run.id:
            return
        # The start that the engine reports of one run may move back a little when the run ends.
        if (event.get("start") or run.start) <= run.start and (use := run.use):
            event["use"] = use
        del self._runs[event["role"], event["k"]]
        run.is_over = True

    def close(self) -> None:
        """End sampling."""
        for run in self._runs.values():
            run.is_over = True
