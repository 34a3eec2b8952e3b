"""Follow many apps of one scheduler in one thread, by the changes that it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from launcher.apply.engines import Engines
from launcher.apply.events import Outcome
from launcher.errors import LauncherError
from launcher.schedulers.staged import StagedScheduler
from launcher.state.records import AppRecord

if TYPE_CHECKING:
    from launcher.schedulers.restarts import Restart

LOOK_S = 2.0
"""How often to look: at the cost of a record an app, or of a list of the engine."""
SHARE = 20
"""Looks at many apps take at most 1/20 of the time."""


def pause_after(began: float) -> float:
    """Seconds from now to the next look, after one that began at this monotonic time."""
    return max(LOOK_S, (monotonic() - began) * SHARE)


_PAUSE_S = 5e-6
"""Pause for each app after a change, to take the changes that follow together."""


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
        on_start: Callable[[Outcome], object],
        on_restart: Callable[[str, Restart], None],
        on_ends: Callable[[Sequence[Outcome]], None],
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
            from launcher.schedulers.restarts import RestartReader

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


class Stranded:
    """The present records of held apps and of the apps that they wait for, directly or not.

    An app is stranded only when two looks in a row find it so: a later apply may be replacing a dead holder.
    """

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._needs: dict[str, dict[str, str]] = {}  # app id → app id of each need → its scheduler
        self._before: frozenset[str] = frozenset()

    def look(self, apps: Iterable[AppRecord]) -> dict[str, AppRecord]:
        """Return the stranded ones among `apps`, in their present state, by app id."""
        wanted = {app.app_id: app.scheduler for app in apps}
        seen: dict[str, AppRecord] = {}
        every = self._with_needs(wanted)
        for scheduler in sorted(set(every.values())):
            of_it = [app_id for app_id, of in every.items() if of == scheduler]
            with suppress(LauncherError):  # an engine that cannot be reached now
                seen |= {app.app_id: app for app in self._engines.get(scheduler).refresh(of_it)}
        found: dict[str, bool] = {}

        def is_stranded(app_id: str) -> bool:
            if app_id not in found:
                app = seen.get(app_id)
                needs = self._needs.get(app_id, {})
                found[app_id] = (
                    app is not None and app.is_held and (app.abandoned or any(map(is_stranded, needs)))
                )
            return found[app_id]

        now = frozenset(filter(is_stranded, wanted))
        both, self._before = now & self._before, now
        return {app_id: seen[app_id] for app_id in both}

    def _with_needs(self, wanted: dict[str, str]) -> dict[str, str]:
        """App id → scheduler of the apps and of all that they wait for."""
        every: dict[str, str] = {}
        left = dict(wanted)
        while left:
            app_id, scheduler = left.popitem()
            every[app_id] = scheduler
            if app_id not in self._needs:
                try:
                    attempt = self._engines.get(scheduler).attempt(app_id)
                except LauncherError:  # as in `look`
                    continue
                needs = attempt.needs if attempt is not None else ()
                self._needs[app_id] = {need.app_id: need.scheduler for need in needs}
            left |= {need: of for need, of in self._needs[app_id].items() if need not in every}
        return every
