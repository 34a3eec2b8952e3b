"""Find the held apps that no process will start."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from launcher.apply.engines import Engines
from launcher.errors import LauncherError
from launcher.state.records import AppRecord

LOOK_S = 2.0
"""How often to look: at the cost of a record an app, or of a list of the engine."""
SHARE = 20
"""Looks at many apps take at most 1/20 of the time."""


def pause_after(began: float) -> float:
    """Seconds from now to the next look, after one that began at this monotonic time."""
    return max(LOOK_S, (monotonic() - began) * SHARE)


class Stranded:
    """The present records of held apps and of the apps that they wait for, directly or not.

    A later apply may be replacing a dead holder just now, so an app is stranded only when two looks in a row
    find it stranded.
    """

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._needs: dict[str, dict[str, str]] = {}  # app id → app id of each need → its scheduler
        self._before: frozenset[str] = frozenset()

    def look(self, apps: Iterable[AppRecord]) -> dict[str, AppRecord]:
        """Return the stranded ones among `apps`, in their present state, by app id."""
        wanted = {app.app_id: app.scheduler for app in apps}
        seen = self._refreshed(self._with_needs(wanted))
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
            left |= {need: of for need, of in self._needs_of(app_id, scheduler).items() if need not in every}
        return every

    def _needs_of(self, app_id: str, scheduler: str) -> dict[str, str]:
        if app_id not in self._needs:
            try:
                attempt = self._engines.get(scheduler).attempt(app_id)
            except LauncherError:  # as below
                return {}
            self._needs[app_id] = {} if attempt is None else {n.app_id: n.scheduler for n in attempt.needs}
        return self._needs[app_id]

    def _refreshed(self, apps: dict[str, str]) -> dict[str, AppRecord]:
        seen: dict[str, AppRecord] = {}
        for scheduler in sorted(set(apps.values())):
            of_it = [app_id for app_id, of in apps.items() if of == scheduler]
            try:
                seen |= {app.app_id: app for app in self._engines.get(scheduler).refresh(of_it)}
            except LauncherError:  # an engine that cannot be reached now
                continue
        return seen
