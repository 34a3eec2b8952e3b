"""Cancel an app: ask for it, and wait until Slurm has nothing of it any more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from launcher.errors import SchedulerError
from launcher.holding.phrases import cancelled
from launcher.schedulers.slurm.cluster import Cluster, checked
from launcher.schedulers.slurm.observe import (
    Clusters,
    find,
    forget,
    is_left_behind,
    judged,
    seen,
    settled,
    take_back,
)
from launcher.schedulers.slurm.options import DEFAULT_GRACE_S
from launcher.schedulers.slurm.state import Facts, view_of
from launcher.state.home import actor
from launcher.state.records import WAITING

if TYPE_CHECKING:
    from launcher.schedulers.api import OnWait

_NOTE_S = 2.0
_OWNER_S = 30.0  # how long to wait for a client that is just submitting the app
_PATIENCE_S = 30.0  # beyond the grace period, for Slurm to notice
_FIRST_S, _LAST_S = 0.1, 1.0
_NEVER_S = (60.0, 60.0)


def cancel(
    clusters: Clusters,
    app_id: str,
    grace_s: float | None,
    *,
    interrupt: bool = False,
    on_wait: OnWait | None = None,
) -> None:
    """Stop the app; returns when Slurm has no job of it. An app that has ended keeps its outcome.

    Args:
        interrupt: the client was attached to the app; it is recorded as interrupted.
        on_wait: called with the app id and the reason for waiting, if that takes long.

    Raises SchedulerError when Slurm cannot end the job.
    """
    found = find(clusters, app_id)
    if found is None:
        return
    cluster, facts = found
    submitted = _once_submitted(cluster, app_id, facts)
    if submitted is None:
        return
    cause = {"interrupt": interrupt, "by": actor()}
    asked = {"app_id": app_id, "grace_s": grace_s, "message": cancelled(cause), **cause}
    cluster.ask("cancel", **asked)
    given = grace_s if grace_s is not None else _grace_of(submitted)
    if not _is_over(cluster, app_id, given + _PATIENCE_S, on_wait):
        if on_wait is not None:
            on_wait(app_id, "it does not end by itself, and Slurm kills it")
        cluster.ask("cancel", **asked, force=True)
        if not _is_over(cluster, app_id, _PATIENCE_S * 2, on_wait):
            raise SchedulerError(
                f"cannot stop {app_id}: Slurm has not ended its job",
                hint="a node may be down: `squeue` shows where it is; cancel again when the node is back",
            )


def withdraw(clusters: Clusters, app_id: str, *, take_over: bool) -> bool:
    """See `StagedScheduler.withdraw`."""
    found = find(clusters, app_id)
    if found is None or judged(*found, take_over=take_over).state not in WAITING:
        return False
    return bool(found[0].ask("withdraw", app_id=app_id)["withdrawn"])


def _once_submitted(cluster: Cluster, app_id: str, facts: Facts) -> Facts | None:
    """The app when its client has submitted it; None when nothing of it is left to stop."""
    deadline, pause = time.monotonic() + _OWNER_S, _FIRST_S
    while True:
        view = view_of(facts)
        if is_left_behind(view):
            take_back(cluster, app_id, facts)
            return None
        if view.state not in ("reserved", "created") or time.monotonic() > deadline:
            return facts
        time.sleep(pause)
        pause = min(pause * 1.5, _LAST_S)
        again = seen(cluster, app_ids=[app_id], ended=True).get(app_id)
        if again is None:
            forget(app_id)
            return None
        facts = again


def _grace_of(facts: Facts) -> float:
    cfg = (facts["attempt"].get("document") or {}).get("cfg") or {}
    return float(cfg.get("grace_s", DEFAULT_GRACE_S))


def _is_over(cluster: Cluster, app_id: str, within_s: float, on_wait: OnWait | None) -> bool:
    """Wait until the queue has nothing of the app, and its outcome is recorded; False after `within_s`."""
    began, pause, passed, is_noted = time.monotonic(), _FIRST_S, 0.0, False
    look = {"op": "observe", "app_ids": [app_id], "ended": True, "queue": True}
    # Until it has its outcome, its folder is enough to look at.
    wait = {"op": "wait", "app_ids": [app_id], "seconds": min(within_s, _NOTE_S), "queue": _NEVER_S}
    while True:
        *_, answer = cluster.call(*([] if passed else [wait]), look)
        facts = settled(cluster, checked(answer)["apps"]).get(app_id)
        if facts is None or (facts.get("outcome") and not facts.get("queue")):
            return True
        passed = time.monotonic() - began
        if passed > within_s:
            return False
        if passed > _NOTE_S and not is_noted and on_wait is not None:
            on_wait(app_id, "Slurm ends its job")
            is_noted = True
        time.sleep(pause)
        pause = min(pause * 1.5, _LAST_S)
