"""Probe the replicas of an app for its watcher: a thread for each run that is not known to be ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from launcher.holding.replica import RUNNING
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineUnreachable
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.journal import Journal
from launcher.schedulers.docker.replicas import where
from launcher.schedulers.docker.watching.probes import why_not_ready

_FIRST_PAUSE_S = 0.02
_LEAST_LIMIT_S = 0.1
_CUT_SHORT_S = 1.0  # a probe with less time than this says little; the one before says more


class _Run:
    """One run of a container, while it is probed."""

    def __init__(self, container: Container, probe: Mapping[str, Any], age_s: float) -> None:
        self.container = container
        self.probe = probe
        self.every_s = float(probe.get("every", 1))
        self.timeout_s = float(probe.get("timeout", 60))
        self.until = time.monotonic() + self.timeout_s - age_s
        self.over = Event()  # it has ended, or is being stopped


class Prober:
    """Finds out which replicas are ready, and which are not in time.

    Args:
        rules: role → its probe, of the roles that have one.
        wake: wakes the watcher, which then calls `facts`.
        resumed: replicas may run for a while already when they are seen first.
    """

    def __init__(
        self,
        engine: Engine,
        rules: Mapping[str, Mapping[str, Any]],
        wake: Callable[[], None],
        *,
        resumed: bool,
    ) -> None:
        self._engine = engine
        self._rules = rules
        self._wake = wake
        self._resumed = resumed
        self._runs: dict[tuple[str, float | None], _Run] = {}
        self._results: SimpleQueue[tuple[Container, str]] = SimpleQueue()

    def facts(self, app: Journal) -> Iterator[dict[str, Any]]:
        """The results since the last call, as events."""
        while True:
            try:
                container, why = self._results.get_nowait()
            except Empty:
                return
            role, k = where(container)
            if app.roles[role].replicas[k].run == (container.id, container.started_at):
                run = {"role": role, "k": k, "id": container.id, "start": container.started_at}
                yield {"e": "late", **run, "why": why} if why else {"e": "ready", **run}

    def follow(self, containers: Iterable[Container], app: Journal) -> None:
        """Begin to probe the replicas that run now, and end with those that run no more."""
        wanted = {} if app.stop is not None else dict(self._to_probe(containers, app))
        for run in [run for run in self._runs if run not in wanted]:
            self._runs.pop(run).over.set()
        now = time.time()
        for run, (container, probe) in wanted.items():
            if run not in self._runs:
                age_s = now - (container.started_at or now) if self._resumed else 0.0
                self._runs[run] = _Run(container, probe, max(0.0, age_s))
                Thread(target=self._probe, args=(self._runs[run],), daemon=True).start()
        self._resumed = False

    def _probe(self, run: _Run) -> None:
        pause_s = _FIRST_PAUSE_S
        before = ""
        while not run.over.wait(pause_s):
            pause_s = min(2 * pause_s, run.every_s)
            left_s = run.until - time.monotonic()
            try:
                why = why_not_ready(
                    self._engine, run.container, run.probe, limit_s=max(left_s, _LEAST_LIMIT_S)
                )
            except EngineUnreachable:
                continue  # it has not been probed
            except Exception as error:  # a thread that dies would leave the replica waiting for ever
                why = f"{type(error).__name__}: {error}"
            if why and before and left_s < _CUT_SHORT_S:
                why = before
            before = why
            left_s = run.until - time.monotonic()
            if not why or left_s <= 0:
                late = f"not ready after {run.timeout_s:g} s: {why}" if why else ""
                if not (late and run.over.is_set()):
                    self._results.put((run.container, late))
                    self._wake()
                return
            pause_s = min(pause_s, left_s)

    def _to_probe(
        self, containers: Iterable[Container], app: Journal
    ) -> Iterator[tuple[tuple[str, float | None], tuple[Container, Mapping[str, Any]]]]:
        for each in containers:
            role, k = where(each)
            replica = app.roles[role].replicas[k]
            is_open = replica.state == RUNNING and not (replica.is_ready or replica.late)
            if role in self._rules and is_open and each.state == "running":
                yield (each.id, each.started_at), (each, self._rules[role])
