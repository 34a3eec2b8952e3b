"""Wait for apps: one request to the cluster at a time, for all threads that wait for apps of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from threading import Condition

from launcher.schedulers.slurm.cluster import Cluster, checked
from launcher.schedulers.slurm.state import Facts, view_of
from launcher.state.records import LIVE

_FIRST_S, _LAST_S = 2.0, 30.0
"""How long the cluster keeps a request; grows while the same apps are waited for."""
_LOOK_S = 2.0
"""The same while a thread waits for a start, which only the queue shows."""


class Waiter:
    """Shared by the threads of a process. The first one to wait asks for all of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._changed = Condition()
        self._wanted: Counter[str] = Counter()
        self._starts: Counter[str] = Counter()
        self._seen: dict[str, tuple[int, Facts | None]] = {}  # app id → round, and what it found
        self._round = 0
        self._is_asking = False
        self._pace = _FIRST_S
        self._asked: frozenset[str] = frozenset()
        self._queue: list[float] | None = None  # when the cluster looks at its queue next

    def until_end(self, app_id: str, timeout_s: float | None = None) -> Facts | None:
        """The facts of an app that has ended, or as they are after the timeout; None for an unknown one."""
        return self._wait(app_id, lambda facts: not _is_live(facts), timeout_s, self._wanted)

    def until_start(self, app_id: str) -> Facts | None:
        """The facts of an app that has started, or ended without."""
        return self._wait(app_id, _has_begun, None, self._starts)

    def _wait(
        self,
        app_id: str,
        is_done: Callable[[Facts], bool],
        timeout_s: float | None,
        waiting: Counter[str],
    ) -> Facts | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            after = self._round
            waiting[app_id] += 1
        try:
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if left == 0.0:  # another thread's request may go on
                    now: Facts | None
                    now = self._cluster.ask("observe", app_ids=[app_id], ended=True)["apps"].get(app_id)
                    return now
                with self._changed:
                    number, found = self._seen.get(app_id, (0, None))
                    if number > after and (found is None or is_done(found)):
                        return found
                    if self._is_asking:
                        self._changed.wait(left)
                        continue
                    self._is_asking = True
                self._ask(app_id, left)
        finally:
            with self._changed:
                waiting[app_id] -= 1
                if not waiting[app_id]:
                    del waiting[app_id]
                if not self._wanted[app_id] and not self._starts[app_id]:
                    self._seen.pop(app_id, None)

    def _ask(self, own: str, left: float | None) -> None:
        """One request for all apps that threads wait for. Raises SchedulerError."""
        with self._changed:
            starts = [each for each in self._starts if self._is_open(each, own)]
            ids = [each for each in self._wanted if self._is_open(each, own)]
            asked = frozenset({*ids, *starts})
            goes_on = asked <= self._asked
            self._pace = min(self._pace * 2, _LAST_S) if goes_on else _FIRST_S
            self._queue = self._queue if goes_on else None
            self._asked = asked
            self._round += 1
            number = self._round
            seconds = min(self._pace, _LOOK_S if starts else _LAST_S, _LAST_S if left is None else left)
        try:
            wait = {"op": "wait", "app_ids": sorted(asked), "seconds": seconds, "queue": self._queue}
            look = [{"op": "observe", "app_ids": sorted(starts), "ended": True}] if starts else []
            waited, *looked = map(checked, self._cluster.call(wait, *look))
            apps = {**waited["apps"], **(looked[0]["apps"] if looked else {})}
            with self._changed:
                self._queue = waited["queue"]
                for app_id in {*apps, *waited["missing"]}:
                    self._seen[app_id] = (number, apps.get(app_id))
        finally:
            with self._changed:
                self._is_asking = False
                self._changed.notify_all()

    def _is_open(self, app_id: str, own: str) -> bool:
        """Whether nothing decided is known of it: its threads may not have run since."""
        facts = self._seen.get(app_id, (0, None))[1]
        return app_id == own or facts is None or _is_live(facts)


def _has_begun(facts: Facts) -> bool:
    """Whether its script runs, which is a little later than Slurm says, or it has ended."""
    return view_of(facts).started_at is not None or not _is_live(facts)


def _is_live(facts: Facts) -> bool:
    return view_of(facts).state in LIVE
