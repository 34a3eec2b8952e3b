"""The apps of the clusters: observed, listed, stopped and removed; their ends recorded.

However many apps there are: one request to each cluster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from launcher.errors import LauncherError, SchedulerError
from launcher.holding.phrases import cancelled
from launcher.schedulers.appstore import open_store
from launcher.schedulers.backend import EngineApps
from launcher.schedulers.many import in_threads
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.cluster import Cluster, checked
from launcher.schedulers.slurm.clusters import Answers, Clusters, forget, seen, settled, with_undecided
from launcher.schedulers.slurm.known import SLURM
from launcher.schedulers.slurm.options import DEFAULT_GRACE_S
from launcher.schedulers.slurm.state import (
    Facts,
    View,
    is_held,
    is_removed,
    new_ends,
    record_of,
    seen_app,
    view_of,
    whole_app,
)
from launcher.schedulers.staged import current
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import JobKey
from launcher.state.home import actor
from launcher.state.records import LIVE, WAITING, AppRecord

if TYPE_CHECKING:
    from launcher.schedulers.api import OnWait
    from launcher.schedulers.record import SeenApp

_BEING_MADE_S = 60.0
"""An app that was noted here and is not on its cluster may be about to be reserved there for so long."""

_NOTE_S = 2.0
_OWNER_S = 30.0  # how long to wait for a client that is just submitting the app
_PATIENCE_S = 30.0  # beyond the grace period, for Slurm to notice
_FIRST_S, _LAST_S = 0.1, 1.0
_NEVER_S = (60.0, 60.0)


class SlurmApps(EngineApps):
    """The apps of the clusters of a scheduler.

    Args:
        take_over, on_wait: see `StagedScheduler`, `Scheduler`.
    """

    def __init__(self, clusters: Clusters, *, take_over: bool = False, on_wait: OnWait | None = None) -> None:
        self._clusters = clusters
        self._take_over = take_over
        self._on_wait = on_wait

    def _view(self, facts: Facts) -> View:
        return view_of(facts, take_over=self._take_over)

    # -- reading -------------------------------------------------------------------------------------------

    def read(self, app_id: str, *, whole: bool = False) -> SeenApp | None:
        """Read as a whole, an app that Slurm has ended and that could not say so gets an outcome.

        Else nothing is written: ends are recorded by `reap`, and then by a look at each live attempt.
        """
        if not whole:
            found = self._clusters.noted(app_id) or self._clusters.find(app_id)
            return None if found is None else seen_app(found[1], self._judged(*found))
        found = self._clusters.find(app_id, replicas=True)
        if found is None:
            return None
        cluster, facts = found
        facts = {**facts, **settled(cluster, {app_id: facts})[app_id]}
        return whole_app(facts, self._view(facts))

    def read_ended(
        self, app_id: str, timeout_s: float | None = None, *, whole: bool = False
    ) -> SeenApp | None:
        """Waits with one request at a time for all threads of this process."""
        cluster = self._clusters.cluster_of(app_id)
        waited = None if cluster is None else self._clusters.waiter(cluster).until_end(app_id, timeout_s)
        if cluster is None or waited is None:
            return None
        if whole:
            return self.read(app_id, whole=True)
        facts = settled(cluster, {app_id: waited})[app_id]
        return seen_app(facts, self._view(facts))

    def _judged(self, cluster: Cluster, facts: Facts) -> View:
        """The state of an app, also of one that Slurm has ended and that left no outcome."""
        view = self._view(facts)
        if not view.is_new_end:
            return view
        app_id = str(facts["attempt"]["app_id"])
        end = new_ends(with_undecided(cluster, {app_id: facts}))[app_id]
        return self._view({**facts, "outcome": end})

    def observe(
        self, keys: Collection[JobKey], settled: Collection[str] = (), *, look: bool = True
    ) -> list[Attempt]:
        """The live attempts, and the latest of each of `keys`; see `StagedScheduler.observe`.

        Args:
            look: ask Slurm's queue, too: without, an app that Slurm has ended seems to be live.

        Raises SchedulerError when a cluster cannot be asked that apps are to go to; others are left out.
        """
        wanted, done = set(keys), set(settled)
        fields: dict[str, Any] = {"app_ids": None, "settled": sorted(done), "ended": False}
        fields |= {"latest_of": [list(key) for key in wanted], "look": look}
        out: list[Attempt] = []
        for cluster in self._clusters.everywhere():
            try:
                apps = self._seen_with_outputs(cluster, fields) if look else seen(cluster, **fields)
            except LauncherError:
                if self._clusters.is_expected(cluster):
                    raise
                continue
            found = (seen_app(facts, self._view(facts)).attempt() for facts in _with_ends(apps))
            out += current((each for each in found if each is not None), wanted, done)
        return out

    def _seen_with_outputs(self, cluster: Cluster, fields: Mapping[str, Any]) -> dict[str, Facts]:
        """As `seen`; also notes the output folders of the cluster, for `SlurmOutputs.lost`."""
        ops = {"op": "observe", **fields}, {"op": "outputs"}
        *_, answer, listed = cluster.call(*cluster.greeting, *ops)
        if "outputs" in listed:
            self._clusters.outputs[cluster.place] = set(listed["outputs"])
        found: dict[str, Facts] = checked(answer)["apps"]
        return found

    def records(self) -> list[AppRecord]:
        """Every app of every cluster, the newest first. Raises SchedulerError when one cannot be asked.

        Those are left out of which only the outcome is kept.
        """
        own = set(known.app_ids())
        out = []
        for apps in self._everything():
            for facts in _with_ends(apps):
                if not is_removed(facts):
                    record = record_of(facts, self._view(facts))
                    record.own = record.app_id in own
                    out.append(record)
        return sorted(out, key=lambda each: each.created_at or 0.0, reverse=True)

    def _everything(self) -> list[dict[str, Facts]]:
        return self._clusters.of_each(lambda cluster: seen(cluster, app_ids=None, ended=True))

    def refresh(self, app_ids: Iterable[str]) -> Iterator[AppRecord]:
        """Apps that Slurm has ended and that left no outcome are left out, until `reap` has recorded that."""
        answers = Answers()
        for cluster, ids in self._clusters.of_apps(app_ids):
            for facts in answers.ask(cluster, app_ids=ids, ended=True).values():
                view = self._view(facts)
                if not view.is_new_end:
                    yield record_of(facts, view)
        if answers.error is not None:
            raise answers.error

    def wait_for_start(self, app_id: str) -> None:
        cluster = self._clusters.cluster_of(app_id)
        if cluster is not None:
            self._clusters.waiter(cluster).until_start(app_id)

    def outcomes(self) -> list[Attempt]:
        """The attempts of which nothing is left but how they ended."""
        removed = (facts for apps in self._everything() for facts in apps.values() if is_removed(facts))
        found = (seen_app(facts, view_of(facts)).attempt() for facts in removed)
        return [attempt for attempt in found if attempt is not None]

    def forget_outcome(self, app_id: str) -> None:
        """Remove how an attempt ended. Raises SchedulerError."""
        found = self._clusters.find(app_id)
        if found is not None and is_removed(found[1]):
            found[0].ask("remove", app_id=app_id, forget=True)

    def sweep(self) -> list[str]:
        self._clusters.of_each(lambda cluster: cluster.ask("sweep"))
        return []

    # -- ends ----------------------------------------------------------------------------------------------

    def reap(self) -> list[Attempt]:
        """Record ends in the store, remove what clients have left that were killed, and release again the
        jobs whose release Slurm has lost.

        Returns the attempts of jobs whose end this call recorded. Clusters that cannot be asked are left out.
        """
        if not os.path.isdir(known.root()):
            return []
        with open_store(readonly=True) as store:
            rows = {row.app_id: row for row in store.to_tidy((SLURM,))}
            lacking = set(known.app_ids()).difference(store.app_ids((SLURM,)))
        if lacking:
            with open_store(durable=False) as store:
                store.add_all(each for each in known.apps() if each[0].app_id in lacking)
                rows = {row.app_id: row for row in store.to_tidy((SLURM,))}
        out: list[Attempt] = []
        for cluster, ids in self._clusters.of_apps(rows):
            try:
                apps = settled(cluster, seen(cluster, app_ids=ids, ended=True))
                if held := [app_id for app_id, facts in apps.items() if is_held(facts)]:
                    cluster.ask("release", app_ids=held)
                live = {app_id: facts for app_id, facts in apps.items() if view_of(facts).state in LIVE}
                self._clusters.note(cluster, live)
                for app_id in ids:
                    out += _reaped(cluster, rows[app_id], apps.get(app_id))
            except LauncherError:
                continue
        return out

    def remove(self, app_id: str) -> None:
        """Remove an app that has ended; how the latest attempt of a job ended stays, for other state folders.

        Raises SchedulerError when it has not ended.
        """
        for cluster, _ in self._clusters.of_apps([app_id]):
            try:
                _remove(cluster, app_id)
            except LauncherError:
                if self._clusters.is_needed(cluster):
                    raise
        forget(app_id)

    def withdraw_all(self, app_ids: Iterable[str]) -> Iterator[tuple[str, bool | LauncherError]]:
        return in_threads(self._withdraw, app_ids)

    def _withdraw(self, app_id: str) -> bool:
        self._clusters.noted(app_id)  # true no longer
        found = self._clusters.find(app_id)
        if found is None or self._judged(*found).state not in WAITING:
            return False
        return bool(found[0].ask("withdraw", app_id=app_id)["withdrawn"])

    def stop_all(
        self, app_ids: Iterable[str], grace_s: float | None, *, interrupt: bool = False
    ) -> Iterator[tuple[str, LauncherError | None]]:
        return in_threads(lambda app_id: self._stop(app_id, grace_s, interrupt), app_ids)

    def _stop(self, app_id: str, grace_s: float | None, interrupt: bool) -> None:
        """Returns when Slurm has no job of the app. Raises SchedulerError when Slurm cannot end that."""
        self._clusters.noted(app_id)  # true no longer
        found = self._clusters.find(app_id)
        submitted = None if found is None else _once_submitted(found[0], app_id, found[1])
        if found is None or submitted is None:
            return
        cluster, cause = found[0], {"interrupt": interrupt, "by": actor()}
        asked = {"app_id": app_id, "grace_s": grace_s, "message": cancelled(cause), **cause}
        cluster.ask("cancel", **asked)
        cfg = (submitted["attempt"].get("document") or {}).get("cfg") or {}
        given = float(cfg.get("grace_s", DEFAULT_GRACE_S)) if grace_s is None else grace_s
        if not self._is_over(cluster, app_id, given + _PATIENCE_S):
            if self._on_wait is not None:
                self._on_wait(app_id, "it does not end by itself, and Slurm kills it")
            cluster.ask("cancel", **asked, force=True)
            if not self._is_over(cluster, app_id, _PATIENCE_S * 2):
                raise SchedulerError(
                    f"cannot stop {app_id}: Slurm has not ended its job",
                    hint="a node may be down: `squeue` shows where it is; cancel again when the node is back",
                )

    def _is_over(self, cluster: Cluster, app_id: str, within_s: float) -> bool:
        """Wait until the queue has nothing of the app, and its outcome is recorded; False after that time."""
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
            if passed > _NOTE_S and not is_noted and self._on_wait is not None:
                self._on_wait(app_id, "Slurm ends its job")
                is_noted = True
            time.sleep(pause)
            pause = min(pause * 1.5, _LAST_S)


def _with_ends(apps: Mapping[str, Facts]) -> list[Facts]:
    """The facts, with the outcomes of apps that Slurm has ended and that left none. Records nothing."""
    ends = new_ends(apps)
    return [{**facts, "outcome": ends[app_id]} if app_id in ends else facts for app_id, facts in apps.items()]


def _reaped(cluster: Cluster, row: AppRecord, facts: Facts | None) -> list[Attempt]:
    if facts is None:  # it is not on its cluster; a client may be about to reserve it there
        noted_at = known.noted_at(row.app_id)
        if noted_at is None or time.time() - noted_at > _BEING_MADE_S:
            forget(row.app_id)
        return []
    view = view_of(facts)
    found = seen_app(facts, view)
    if found.record.has_ended:
        attempt = found.attempt()
        with open_store(durable=attempt is not None) as store:
            is_first = store.end_and_tidy(found.record)
        return [attempt] if is_first and attempt is not None else []
    if _is_left_behind(view) and found.record.job is None:
        # The next apply resumes or removes an attempt of a job; an app without a job is removed here.
        _take_back(cluster, row.app_id, facts)
    return []


def _is_left_behind(view: View) -> bool:
    """Whether the client that submitted the app has died before it was done."""
    return view.state in ("reserved", "created") and not view.owner


def _take_back(cluster: Cluster, app_id: str, facts: Facts) -> None:
    """Remove an app whose client has died while it submitted it, with its held job."""
    cluster.ask("abort", app_id=app_id, nonce=(facts.get("owner") or {}).get("nonce"))
    forget(app_id)


def _once_submitted(cluster: Cluster, app_id: str, facts: Facts) -> Facts | None:
    """The app when its client has submitted it; None when nothing of it is left to stop."""
    deadline, pause = time.monotonic() + _OWNER_S, _FIRST_S
    while True:
        view = view_of(facts)
        if _is_left_behind(view):
            _take_back(cluster, app_id, facts)
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


def _remove(cluster: Cluster, app_id: str) -> None:
    op = {"op": "remove", "app_id": app_id}
    (answer,) = cluster.call(op)
    if answer.get("error") == "live":  # Slurm may have ended it
        apps = settled(cluster, seen(cluster, app_ids=[app_id], ended=True))
        (answer,) = cluster.call(op)
    if answer.get("error") == "live":
        state = view_of(apps[app_id]).state
        raise SchedulerError(f"{app_id} has not ended: {state}", hint=f"launcher cancel {app_id}")
    checked(answer)
