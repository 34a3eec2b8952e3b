"""Observe, list, stop and remove the apps of the clusters; record their ends.

Each operation makes one request to each cluster, however many apps there are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from launcher.dataclass import replace
from launcher.errors import LauncherError, SchedulerError
from launcher.holding.events import cancelled
from launcher.holding.state import AppState
from launcher.paths import actor
from launcher.schedulers.backend import EngineApps
from launcher.schedulers.registry import open_store
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.cluster import Cluster, checked, error_of
from launcher.schedulers.slurm.clusters import (
    Clusters,
    forget,
    once_submitted,
    seen,
    settled,
    take_back,
    with_undecided,
)
from launcher.schedulers.slurm.known import SLURM
from launcher.schedulers.slurm.options import DEFAULT_GRACE_S
from launcher.schedulers.slurm.state import (
    Facts,
    is_behind_ended,
    is_held,
    is_left_behind,
    is_new_end,
    is_removed,
    is_suspended,
    new_ends,
    seen_app,
    state_of,
    whole_app,
    why_pending,
    with_ends,
)
from launcher.schedulers.staged import current
from launcher.specs.attempt import Attempt, Recorded
from launcher.specs.jobkey import JobKey
from launcher.state.records import LIVE, WAITING, AppRecord

if TYPE_CHECKING:
    from launcher.schedulers.api import Known, OnWait
    from launcher.schedulers.record import SeenApp

    Ended = Iterator[tuple[str, LauncherError | None]]

_MANY = 64
"""The number of apps from which on a request names the ledger's creation times of queued apps."""
_BEING_MADE_S = 60.0
"""Seconds in which an app that is noted here, but missing on its cluster, may yet be reserved there."""


class SlurmApps(EngineApps):
    """The apps of a scheduler's clusters. `take_over`, `on_wait`: see `StagedScheduler`, `Scheduler`."""

    def __init__(self, clusters: Clusters, *, take_over: bool = False, on_wait: OnWait | None = None) -> None:
        self._clusters = clusters
        self._take_over = take_over
        self._on_wait = on_wait or (lambda app_id, why: None)

    def _app(self, facts: Facts) -> SeenApp:
        return seen_app(facts, take_over=self._take_over)

    # -- reading -------------------------------------------------------------------------------------------

    def read(self, app_id: str, *, whole: bool = False) -> SeenApp | None:
        """Read an app. Only with `whole`, an app that Slurm has ended without an outcome gets one."""
        if not whole:
            found = self._clusters.noted(app_id) or self._clusters.find(app_id)
            return None if found is None else self._judged(*found)
        found = self._clusters.find(app_id, replicas=True)
        if found is None:
            return None
        cluster, facts = found
        facts = {**facts, **settled(cluster, {app_id: facts})[app_id]}
        return whole_app(facts, take_over=self._take_over)

    def details(self, app_ids: Iterable[str]) -> Iterable[tuple[str, AppRecord | LauncherError | None]]:
        """Read apps with one request to each cluster. Ends are recorded, as `read` does with `whole`."""
        found: dict[str, AppRecord | LauncherError | None] = {}
        for cluster, ids in self._clusters.of_apps(app_ids):
            try:
                apps = settled(cluster, seen(cluster, app_ids=ids, replicas=True))
            except LauncherError as error:
                if self._clusters.is_needed(cluster):
                    found = {**dict.fromkeys(ids, error), **found}
                continue
            for app_id, facts in apps.items():
                found[app_id] = whole_app(facts, take_over=self._take_over).record
        return found.items()

    def recorded(self, app_id: str) -> list[Recorded]:
        """See `StagedScheduler.recorded`: the outcome, and the events that led to it."""
        found = self._clusters.find(app_id)
        if found is None or (attempt := self._judged(*found).attempt()) is None:
            return []
        out = [Recorded("its outcome on the cluster", attempt)]
        app = AppState()
        for event in found[0].ask("events", app_id=app_id)["events"]:
            app.take(event)
        if app.has_ended:
            state: Any = app.state
            by_events = replace(attempt, state=state, exit_code=app.code, output_digest=app.output_digest)
            out.append(Recorded("its events on the cluster", by_events))
        return out

    def read_ended(
        self, app_id: str, timeout_s: float | None = None, *, whole: bool = False
    ) -> SeenApp | None:
        """Wait for the end of the app; all threads of this process share one request at a time."""
        cluster = self._clusters.cluster_of(app_id)
        if cluster is None or (facts := self._clusters.waiter(cluster).until_end(app_id, timeout_s)) is None:
            return None
        if whole:
            return self.read(app_id, whole=True)
        return self._app(settled(cluster, {app_id: facts})[app_id])

    def _judged(self, cluster: Cluster, facts: Facts) -> SeenApp:
        """The app in its present state, even if Slurm has ended it without an outcome."""
        if not is_new_end(facts):
            return self._app(facts)
        app_id = str(facts["attempt"]["app_id"])
        end = new_ends(with_undecided(cluster, {app_id: facts}))[app_id]
        return self._app({**facts, "outcome": end})

    def observe(
        self,
        keys: Collection[JobKey],
        settled: Collection[str] = (),
        known: Known = None,
        *,
        look: bool = True,
    ) -> list[Attempt]:
        """See `StagedScheduler.observe`. Without a `look` at the queue, an app that Slurm ended seems live.

        Raises SchedulerError when a target cluster of the launches cannot be asked; any other is left out.
        """
        wanted, done = set(keys), set(settled)
        op: dict[str, Any] = {"op": "observe", "app_ids": None, "settled": sorted(done), "look": look}
        op["latest_of"] = [list(key) for key in wanted]
        queued = {each.app_id: each for each in (known or {}).values() if _is_queued(each)}
        if look and queued:
            op["queued"] = {app_id: each.created_at for app_id, each in queued.items()}
        out: list[Attempt] = []
        for cluster in self._clusters.everywhere():
            try:
                answer, *others = cluster.answers(op, *([{"op": "outputs"}] if look else []))
                checked(answer)
            except LauncherError:
                if self._clusters.is_expected(cluster):
                    raise
                continue
            if others and "outputs" in others[0]:  # for `SlurmOutputs.lost`
                self._clusters.outputs[cluster.place] = set(others[0]["outputs"])
            found = [self._app(facts).attempt() for facts in with_ends(answer["apps"])]
            found += [queued[app_id] for group in answer["queued"] for app_id in group["jobs"]]
            out += current((each for each in found if each is not None), wanted, done)
        return out

    def records(self) -> list[AppRecord]:
        """Every app of every cluster, the newest first, without removed ones. Raises SchedulerError."""
        own = set(known.app_ids())
        out = [self._app(facts).record for facts in self._everything() if not is_removed(facts)]
        for record in out:
            record.own = record.app_id in own
        return sorted(out, key=lambda each: each.created_at or 0.0, reverse=True)

    def _everything(self) -> list[Facts]:
        found = self._clusters.of_each(lambda cluster: seen(cluster, app_ids=None, ended=True))
        return [facts for apps in found for facts in with_ends(apps)]

    def refresh(self, app_ids: Iterable[str]) -> Iterator[AppRecord]:
        """See `Scheduler.refresh`. Apps that Slurm has ended without an outcome are left out until `reap`."""
        wanted = list(app_ids)
        known: dict[str, AppRecord] = {}  # the attempts that are queued by the ledger
        if len(wanted) >= _MANY:
            with open_store(readonly=True) as store:
                known = {row.app_id: row for row in store.live_attempts() if _is_queued(row)}
        created = {app_id: known[app_id].created_at for app_id in wanted if app_id in known}
        answers, error = self._clusters.observe(wanted, queued=created)
        for _, apps, queued in answers:
            for facts in apps.values():
                if not is_new_end(facts):
                    yield self._app(facts).record
            for group in queued:
                for app_id in group["jobs"]:
                    known[app_id].message = why_pending(group["row"])
                    yield known[app_id]
        if error is not None:
            raise error

    def wait_for_start(self, app_id: str) -> None:
        cluster = self._clusters.cluster_of(app_id)
        if cluster is not None:
            self._clusters.waiter(cluster).until_start(app_id)

    def outcomes(self) -> list[Attempt]:
        """The removed attempts whose outcome is kept."""
        found = (seen_app(facts).attempt() for facts in self._everything() if is_removed(facts))
        return [attempt for attempt in found if attempt is not None]

    def forget_outcome(self, app_id: str) -> None:
        """Remove the outcome of an attempt. Raises SchedulerError."""
        found = self._clusters.find(app_id)
        if found is not None and is_removed(found[1]):
            found[0].ask("remove", app_id=app_id, forget=True)

    def sweep(self) -> list[str]:
        self._clusters.of_each(lambda cluster: cluster.ask("sweep"))
        return []

    # -- ends ----------------------------------------------------------------------------------------------

    def reap(self) -> list[Attempt]:
        """See `StagedScheduler.reap`; also release the jobs that Slurm holds back by mistake."""
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
                apps = settled(cluster, seen(cluster, app_ids=ids))
                if held := [each for each, facts in apps.items() if is_held(facts) or is_behind_ended(facts)]:
                    cluster.ask("release", app_ids=held)
                live = {app_id: facts for app_id, facts in apps.items() if state_of(facts) in LIVE}
                self._clusters.note(cluster, live)
                for app_id in ids:
                    out += _reaped(cluster, rows[app_id], apps.get(app_id))
            except LauncherError:  # the cluster cannot be asked
                continue
        return out

    def remove(self, app_id: str) -> None:
        """Remove an ended app, but for the outcome of a job's latest attempt. Raises SchedulerError."""
        for cluster, _ in self._clusters.of_apps([app_id]):
            try:
                _remove(cluster, app_id)
            except LauncherError:
                if self._clusters.is_needed(cluster):
                    raise
        forget(app_id)

    def remove_logs(self, app_id: str, *, dry_run: bool = False) -> str:
        """See `StagedScheduler.remove_logs`."""
        for cluster, _ in () if dry_run else self._clusters.of_apps([app_id]):
            _remove(cluster, app_id, "remove_logs")
        return ""

    def withdraw_all(self, app_ids: Iterable[str]) -> Iterator[tuple[str, bool | LauncherError]]:
        ids = list(app_ids)
        found, missing = self._by_cluster(ids)
        yield from ((app_id, error or False) for app_id, error in missing.items())
        for cluster, apps in found:
            there = [each for each in ids if each in apps]
            waiting = [each for each in there if self._judged(cluster, apps[each]).record.state in WAITING]
            yield from ((app_id, False) for app_id in there if app_id not in waiting)
            try:
                ops = ({"op": "withdraw", "app_id": each} for each in waiting)
                done = cluster.call(*ops) if waiting else []
            except LauncherError as error:
                yield from ((app_id, error) for app_id in waiting)
                continue
            for app_id, answer in zip(waiting, done, strict=True):
                yield app_id, error_of(answer) or bool(answer["withdrawn"])

    def stop_all(self, app_ids: Iterable[str], grace_s: float | None, *, interrupt: bool = False) -> Ended:
        ids = list(app_ids)
        found, missing = self._by_cluster(ids)
        yield from missing.items()
        for cluster, apps in found:
            stops = Stops(cluster, grace_s, interrupt, self._on_wait)
            yield from stops.all({app_id: apps[app_id] for app_id in ids if app_id in apps})

    def _by_cluster(
        self, ids: Sequence[str]
    ) -> tuple[list[tuple[Cluster, dict[str, Facts]]], dict[str, LauncherError | None]]:
        """The apps of each cluster; and the other ids, with the error of a cluster that cannot be asked."""
        for app_id in ids:
            self._clusters.noted(app_id)  # drops the outdated facts
        answers, error = self._clusters.observe(ids)
        found = [(cluster, apps) for cluster, apps, _ in answers]
        known = {app_id for _, apps in found for app_id in apps}
        return found, {app_id: error for app_id in ids if app_id not in known}


def _is_queued(recorded: Attempt | AppRecord) -> bool:
    return recorded.scheduler == SLURM and recorded.state == "queued"


def _reaped(cluster: Cluster, row: AppRecord, facts: Facts | None) -> list[Attempt]:
    if facts is None:  # its cluster lacks the app; a client may be about to reserve it there
        noted_at = known.noted_at(row.app_id)
        if noted_at is None or time.time() - noted_at > _BEING_MADE_S:
            forget(row.app_id)
        return []
    found = seen_app(facts)
    if found.record.has_ended:
        attempt = found.attempt()
        with open_store(durable=attempt is not None) as store:
            is_first = store.end_and_tidy(found.record)
        return [attempt] if is_first and attempt is not None else []
    if is_left_behind(found) and found.record.job is None:
        # The next apply resumes or removes an attempt of a job; an app without a job is removed here.
        take_back(cluster, row.app_id, facts)
    return []


def _remove(cluster: Cluster, app_id: str, what: str = "remove") -> None:
    op = {"op": what, "app_id": app_id}
    (answer,) = cluster.call(op)
    if answer.get("error") == "live":  # Slurm may have ended the app
        apps = settled(cluster, seen(cluster, app_ids=[app_id]))
        (answer,) = cluster.call(op)
    if answer.get("error") == "live":
        state = state_of(apps[app_id])
        raise SchedulerError(f"{app_id} has not ended: {state}", hint=f"launcher cancel {app_id}")
    checked(answer)


# -- stopping ----------------------------------------------------------------------------------------------

_NOTE_S = 2.0
_PATIENCE_S = 30.0
_FIRST_S, _LAST_S = 0.1, 1.0


class Stops:
    """The stops of apps of one cluster."""

    def __init__(self, cluster: Cluster, grace_s: float | None, interrupt: bool, on_wait: OnWait) -> None:
        self._cluster = cluster
        self._grace_s = grace_s
        cause = {"interrupt": interrupt, "by": actor()}
        self._asked = {"op": "cancel", "grace_s": grace_s, "message": cancelled(cause), **cause}
        self._on_wait = on_wait
        self._looked_at = time.monotonic()
        self._is_running = False  # whether an app has replicas to stop, which takes a moment

    def all(self, apps: Mapping[str, Facts]) -> Ended:
        """Yield each app when Slurm has no job of it, or with the error of its stop."""
        left: dict[str, Facts] = {}
        for app_id, facts in apps.items():
            try:
                found = once_submitted(self._cluster, app_id, facts)
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
            for app_id in self._over(left, until, waits=self._is_running and pause == _FIRST_S):
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

    def _over(self, left: Mapping[str, Facts], until: dict[str, float], *, waits: bool) -> list[str]:
        """Look at the apps; returns those that are over, and gives suspended ones more time.

        Args:
            until: app → the time at which it is late.
            waits: first wait for an outcome in any of their folders.
        """
        ids = sorted(left)
        look = {"op": "observe", "app_ids": ids, "queue": True}
        wait = {"op": "wait", "app_ids": ids, "seconds": _NOTE_S, "queue": (60.0, 60.0)}
        *_, answer = self._cluster.call(*([wait] if waits else []), look)
        apps = settled(self._cluster, checked(answer)["apps"])
        passed_s, self._looked_at = time.monotonic() - self._looked_at, time.monotonic()
        for app_id in (each for each, facts in apps.items() if is_suspended(facts)):
            until[app_id] += passed_s  # a grace period stands still meanwhile
        going = {each for each, facts in apps.items() if facts.get("queue") or not facts.get("outcome")}
        return [each for each in ids if each not in going]
