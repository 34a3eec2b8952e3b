"""Find an app for a reader of its logs and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from launcher.errors import SchedulerError
from launcher.schedulers.restarts import Restart
from launcher.schedulers.slurm import events as events_
from launcher.schedulers.slurm.events import Event
from launcher.schedulers.slurm.logs import OnMark, Source
from launcher.schedulers.slurm.observe import Clusters, find, is_removed, seen, settled

if TYPE_CHECKING:
    from launcher.schedulers.api import OnRestart


class Reader:
    """Reads one app. Raises SchedulerError when there is no such app.

    Args:
        on_restart: called with the app id and each restart that concerns what is followed.

    Attributes:
        may_restart: whether a role of the app may be restarted.
    """

    def __init__(self, clusters: Clusters, app_id: str, on_restart: OnRestart | None = None) -> None:
        found = find(clusters, app_id)
        if found is None:
            raise SchedulerError(f"there is no app `{app_id}`", hint="`launcher list` shows what there is")
        self._cluster, self._facts = found
        if is_removed(self._facts):
            raise SchedulerError(
                f"the logs of {app_id} were removed", hint="only its outcome is still recorded"
            )
        self._app_id = app_id
        self._on_restart = on_restart
        self._document = self._facts["attempt"].get("document") or {}
        self.may_restart = any(role.get("max_retries") for role in self._document.get("roles") or ())
        self.has_waited = False

    def source(self, replicas: Sequence[tuple[str, int]]) -> Source:
        return Source(self._cluster, self._facts, replicas, settle=self._settle)

    def events(self) -> list[Event]:
        found: list[Event] = self._cluster.ask("events", app_id=self._app_id)["events"]
        return found

    def restarts(self) -> list[Restart]:
        return events_.restarts(self.events())

    def notes(
        self, replicas: Sequence[tuple[str, int]], since: float | None, *, of_cause: bool = False
    ) -> OnMark | None:
        """Reports the restarts of followed replicas; None where they are not wanted.

        Args:
            of_cause: only the restarts that follow a failure of one of them.
        """
        on_restart, reported = self._on_restart, set[Restart]()
        if on_restart is None:
            return None

        def mark(role: str, k: int, time_ns: int) -> None:
            for each in self.restarts():
                is_new = each not in reported and (since or 0.0) <= each.at <= time_ns / 1e9
                if is_new and _concerns(each, replicas, of_cause=of_cause):
                    reported.add(each)
                    on_restart(self._app_id, each)

        return mark

    def _settle(self) -> None:
        settled(self._cluster, seen(self._cluster, app_ids=[self._app_id], ended=True))


def _concerns(restart: Restart, replicas: Sequence[tuple[str, int]], *, of_cause: bool) -> bool:
    if of_cause or restart.scope == "replica":
        return (restart.role, restart.k) in replicas
    return restart.scope == "app" or restart.role in {role for role, _ in replicas}
