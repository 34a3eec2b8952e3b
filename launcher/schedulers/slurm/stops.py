"""Stop apps: one request asks a cluster to stop all of them; repeated requests look at the remaining ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from launcher.errors import LauncherError, SchedulerError
from launcher.holding.events import cancelled
from launcher.paths import actor
from launcher.schedulers.slurm.cluster import Cluster, checked, error_of
from launcher.schedulers.slurm.clusters import forget, seen, settled
from launcher.schedulers.slurm.options import DEFAULT_GRACE_S
from launcher.schedulers.slurm.state import Facts, seen_app
from launcher.state.records import PENDING

if TYPE_CHECKING:
    from launcher.schedulers.api import OnWait
    from launcher.schedulers.record import SeenApp

    Ended = Iterator[tuple[str, LauncherError | None]]

_NOTE_S = 2.0
_OWNER_S = 30.0  # how long to wait for a client that is just submitting the app
_PATIENCE_S = 30.0
_FIRST_S, _LAST_S = 0.1, 1.0


class Stops:
    """The stops of apps of one cluster."""

    def __init__(
        self, cluster: Cluster, grace_s: float | None, interrupt: bool, on_wait: OnWait | None
    ) -> None:
        self._cluster = cluster
        self._grace_s = grace_s
        cause = {"interrupt": interrupt, "by": actor()}
        self._asked = {"op": "cancel", "grace_s": grace_s, "message": cancelled(cause), **cause}
        self._on_wait = on_wait or (lambda app_id, why: None)
        self._is_running = False  # whether an app has replicas to stop, which takes a moment

    def all(self, apps: Mapping[str, Facts]) -> Ended:
        """Yield each app when Slurm has no job of it, or with the error of its stop."""
        left: dict[str, Facts] = {}
        for app_id, facts in apps.items():
            try:
                found = _once_submitted(self._cluster, app_id, facts)
            except LauncherError as error:
                yield app_id, error
                continue
            if found is None:
                yield app_id, None
            else:
                left[app_id] = found
        try:
            yield from self._ask(left)
            yield from self._until_over(left)
        except LauncherError as error:
            yield from ((app_id, error) for app_id in left)

    def _patience_s(self, facts: Facts) -> float:
        """Seconds that the app may take to end by itself."""
        cfg = (facts["attempt"].get("document") or {}).get("cfg") or {}
        given = float(cfg.get("grace_s", DEFAULT_GRACE_S)) if self._grace_s is None else self._grace_s
        return given + _PATIENCE_S  # Slurm notices an end a little later

    def _ask(self, left: dict[str, Facts], **more: Any) -> Ended:
        """Ask for the ends of all remaining apps; yields and drops the apps for which that fails."""
        ids = list(left)
        answers = self._cluster.call(*({**self._asked, "app_id": app_id, **more} for app_id in ids))
        for app_id, answer in zip(ids, answers, strict=True):
            self._is_running = self._is_running or answer.get("is") == "running"
            if (error := error_of(answer)) is not None:
                del left[app_id]
                yield app_id, error

    def _until_over(self, left: dict[str, Facts]) -> Ended:
        """Wait until no job is in the queue, and outcomes are recorded; Slurm is to kill late apps."""
        began, pause, noted = time.monotonic(), _FIRST_S, False
        until = {app_id: began + self._patience_s(facts) for app_id, facts in left.items()}
        forced: set[str] = set()
        while left:
            for app_id in self._over(left, waits=self._is_running and pause == _FIRST_S):
                del left[app_id]
                yield app_id, None
            now = time.monotonic()
            late = {app_id: facts for app_id, facts in left.items() if now > until[app_id]}
            for app_id in forced & late.keys():
                del left[app_id], late[app_id]
                hint = "a node may be down: `squeue` shows where it is; cancel again when the node is back"
                yield app_id, SchedulerError(f"cannot stop {app_id}: Slurm has not ended its job", hint=hint)
            if late:
                for app_id in late:
                    self._on_wait(app_id, "it does not end by itself, and Slurm kills it")
                for app_id, error in self._ask(late, force=True):
                    del left[app_id]
                    yield app_id, error
                forced |= late.keys()
                until.update(dict.fromkeys(late, now + _PATIENCE_S * 2))
            if now - began > _NOTE_S and not noted:
                noted = True
                for app_id in left:
                    self._on_wait(app_id, "Slurm ends its job")
            if left:
                time.sleep(pause)
            pause = min(pause * 1.5, _LAST_S)

    def _over(self, left: Mapping[str, Facts], *, waits: bool) -> list[str]:
        """Look at the apps; returns those that are over. `waits`: first wait for an outcome in any of their
        folders."""
        ids = sorted(left)
        look = {"op": "observe", "app_ids": ids, "queue": True}
        wait = {"op": "wait", "app_ids": ids, "seconds": _NOTE_S, "queue": (60.0, 60.0)}
        *_, answer = self._cluster.call(*([wait] if waits else []), look)
        apps = settled(self._cluster, checked(answer)["apps"])
        going = {each for each, facts in apps.items() if facts.get("queue") or not facts.get("outcome")}
        return [each for each in ids if each not in going]


def is_left_behind(app: SeenApp) -> bool:
    """Whether the client that submitted the app died before it had finished the submission."""
    return app.record.state in PENDING and not app.owner


def take_back(cluster: Cluster, app_id: str, facts: Facts) -> None:
    """Remove an app whose client died during the submission, with its held job."""
    cluster.ask("abort", app_id=app_id, nonce=(facts.get("owner") or {}).get("nonce"))
    forget(app_id)


def _once_submitted(cluster: Cluster, app_id: str, facts: Facts) -> Facts | None:
    """Wait until a client has submitted the app; None when nothing is left to stop."""
    deadline, pause = time.monotonic() + _OWNER_S, _FIRST_S
    while True:
        app = seen_app(facts)
        if is_left_behind(app):
            take_back(cluster, app_id, facts)
            return None
        if app.record.state not in PENDING or time.monotonic() > deadline:
            return facts
        time.sleep(pause)
        pause = min(pause * 1.5, _LAST_S)
        again = seen(cluster, app_ids=[app_id]).get(app_id)
        if again is None:
            forget(app_id)
            return None
        facts = again
