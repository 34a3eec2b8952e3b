"""Follow many apps of one scheduler in one thread, by the changes that it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from time import monotonic, sleep
from typing import Any

from launcher.apply.events import Outcome
from launcher.apply.stranded import LOOK_S, pause_after
from launcher.errors import LauncherError
from launcher.schedulers.restarts import Restart, RestartReader
from launcher.schedulers.staged import StagedScheduler

_PAUSE_S = 5e-6
"""Pause for each app after a change, to take the changes that follow together."""

OnStart = Callable[[Outcome], None]
OnRestart = Callable[[str, Restart], None]
OnEnds = Callable[[Sequence[Outcome]], None]


class Group:
    """Apps of a scheduler that reports changes.

    Args:
        on_start: called when an app has started that was held; not for one that has ended by then, without a
            restart.
        on_restart: called with the app id and each restart.
        on_ends: called with the apps that have ended since the last call, in the order of their ends.
        together: a context in which all calls of one look are made.
    """

    def __init__(
        self,
        scheduler: StagedScheduler[Any],
        outcomes: Iterable[Outcome],
        *,
        on_start: OnStart,
        on_restart: OnRestart,
        on_ends: OnEnds,
        together: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._scheduler = scheduler
        self._left = {each.app_id: each for each in outcomes}
        self._held = {
            each.app_id for each in self._left.values() if each.app is not None and each.app.is_held
        }
        self._restarts: dict[str, int] = {}  # app id → the number of reported restarts
        self._on_start, self._on_restart, self._on_ends = on_start, on_restart, on_ends
        self._together = together
        self._all_at = self._running_at = monotonic() + LOOK_S  # the times of the next looks

    def follow(self) -> None:
        """Report on the apps until all have ended. Raises the errors of the scheduler and the callbacks."""
        while self._left:
            left_s = min(self._all_at, self._running_at) - monotonic()
            changed = self._scheduler.changed(self._left.keys(), left_s) or ()
            with self._together():
                over = [app_id for app_id in changed if self._has_ended(app_id)]
                over += self._dead()
                if over:
                    self._on_ends([self._left.pop(app_id) for app_id in dict.fromkeys(over)])
            sleep(len(self._left) * _PAUSE_S)

    def _has_ended(self, app_id: str) -> bool:
        """Report the news of an app; returns whether its record says that it has ended, or cannot be read."""
        try:
            events = [*self._scheduler.logs(app_id).events()()]
        except LauncherError:
            return True
        kinds = {event["e"] for event in events}
        if app_id in self._held and "starting" in kinds:
            self._held.remove(app_id)
            if "ended" not in kinds or "restart" in kinds:
                self._on_start(self._left[app_id])
        if "restart" in kinds:
            found = [*RestartReader(lambda: events).read()]
            for restart in found[self._restarts.get(app_id, 0) :]:
                self._on_restart(app_id, restart)
            self._restarts[app_id] = len(found)
        return not events or "ended" in kinds

    def _dead(self) -> list[str]:
        """The apps that are live no more, whatever their records say: a killed process reports no change.

        Looks when it is time.
        """
        began = monotonic()
        if began < self._running_at:
            return []
        wanted = [app_id for app_id in self._left if began >= self._all_at or app_id not in self._held]
        try:
            live = {app.app_id for app in self._scheduler.refresh(wanted) if app.is_live}
        except LauncherError:  # looked at again soon
            live = {*wanted}
        self._running_at = monotonic() + pause_after(began)
        if len(wanted) == len(self._left):
            self._all_at = self._running_at
        return [app_id for app_id in wanted if app_id not in live]
