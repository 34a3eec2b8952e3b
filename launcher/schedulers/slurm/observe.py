"""Ask the clusters for apps, and record how Slurm ended those that could not say so themselves.

However many apps there are: one request to each cluster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, TypeVar

from launcher.errors import LauncherError, SchedulerError
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.appstore import open_store
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.cluster import Cluster, checked, error_of
from launcher.schedulers.slurm.known import SLURM, Place
from launcher.schedulers.slurm.state import (
    Facts,
    View,
    is_held,
    new_ends,
    record_of,
    seen_app,
    undecided_needs,
    view_of,
)
from launcher.schedulers.slurm.waiter import Waiter
from launcher.schedulers.staged import current
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import JobKey
from launcher.state.records import LIVE, AppRecord

T = TypeVar("T")

_MOMENT_S = 2.0
_BEING_MADE_S = 60.0
"""An app that was noted here and is not on its cluster may be about to be reserved there for so long."""


class Clusters:
    """The clusters that a scheduler has to do with: connected on first use, closed together.

    Safe to use from several threads.

    Attributes:
        outputs: place → the output folders that it had when a plan was made.
    """

    def __init__(self) -> None:
        self.outputs: dict[Place, set[str]] = {}
        self._made: dict[Place, Cluster] = {}
        self._waiters: dict[Place, Waiter] = {}
        self._expected: dict[Place, None] = {}
        self._reaped: dict[str, tuple[Cluster, Facts]] = {}
        self._reaped_at = 0.0
        self._lock = Lock()

    def at(self, place: Place) -> Cluster:
        with self._lock:
            if place not in self._made:
                self._made[place] = Cluster(place)
            return self._made[place]

    def waiter(self, cluster: Cluster) -> Waiter:
        with self._lock:
            return self._waiters.setdefault(cluster.place, Waiter(cluster))

    def expect(self, place: Place) -> None:
        """Ask this place too, although nothing was submitted to it yet."""
        self._expected[place] = None

    def note(self, cluster: Cluster, apps: Mapping[str, Facts]) -> None:
        """Keep the facts of apps for those who ask for each of them next."""
        with self._lock:
            self._reaped |= {app_id: (cluster, facts) for app_id, facts in apps.items()}
            self._reaped_at = time.monotonic()

    def noted(self, app_id: str) -> tuple[Cluster, Facts] | None:
        """What was noted of an app a moment ago; once only."""
        with self._lock:
            if time.monotonic() - self._reaped_at > _MOMENT_S:
                self._reaped.clear()
            return self._reaped.pop(app_id, None)

    def is_expected(self, cluster: Cluster) -> bool:
        return cluster.place in self._expected

    def is_needed(self, cluster: Cluster) -> bool:
        """Whether the user has to know that it cannot be asked.

        Slurm's commands on this machine are not enough: it is named, or apps were submitted to it from here.
        """
        return bool(cluster.host) or self.is_expected(cluster) or cluster.place in known.clusters()

    def of_each(self, ask: Callable[[Cluster], T]) -> list[T]:
        """What the clusters answer. Raises SchedulerError when one that is needed cannot be asked."""
        found = []
        for cluster in self.everywhere():
            try:
                found.append(ask(cluster))
            except LauncherError:
                if self.is_needed(cluster):
                    raise
        return found

    def targets(self) -> list[Cluster]:
        """Where the apps of the launches at hand go; without any, where they go by default."""
        return [self.at(place) for place in self._expected or [known.place_of({})]]

    def everywhere(self) -> list[Cluster]:
        """Every cluster that may have apps of this user."""
        return [self.at(place) for place in dict.fromkeys([*self._expected, *known.places()])]

    def close(self) -> None:
        with self._lock:
            made, self._made, self._waiters = self._made, {}, {}
        for cluster in made.values():
            cluster.close()


class Answers:
    """What several clusters answered, in parts.

    Attributes:
        error: of the first cluster that could not be asked.
    """

    def __init__(self) -> None:
        self.error: LauncherError | None = None

    def ask(self, cluster: Cluster, **fields: Any) -> dict[str, Facts]:
        """The facts of apps of one cluster, as far as it has any to give: {} for one that cannot be asked."""
        try:
            *_, answer = cluster.call(*cluster.greeting, {"op": "observe", **fields})
        except LauncherError as error:
            self.error = self.error or error
            return {}
        self.error = self.error or error_of(answer)
        found: dict[str, Facts] = (answer.get("detail") or answer).get("apps") or {}
        return found


def seen(cluster: Cluster, **fields: Any) -> dict[str, Facts]:
    """The facts of apps, by id; `fields` are those of the agent's `observe`. Raises SchedulerError."""
    *_, answer = cluster.call(*cluster.greeting, {"op": "observe", **fields})
    found: dict[str, Facts] = checked(answer)["apps"]
    return found


def find(
    clusters: Clusters, app_id: str, *, replicas: bool = False, look: bool = True
) -> tuple[Cluster, Facts] | None:
    """An app with the cluster that has it; None for one that no cluster has.

    Raises SchedulerError when its cluster cannot be asked, or when it is at none of those that can.
    """
    if not is_id(app_id):
        return None
    place = known.place_of_app(app_id)
    answers = Answers()
    for cluster in [clusters.at(place)] if place else clusters.everywhere():
        fields = {"app_ids": [app_id], "ended": True, "replicas": replicas, "look": look}
        part = answers if place or clusters.is_needed(cluster) else Answers()
        if (facts := part.ask(cluster, **fields).get(app_id)) is not None:
            return cluster, facts
    if answers.error is not None:
        raise answers.error
    return None


def cluster_of(clusters: Clusters, app_id: str) -> Cluster | None:
    """The cluster that has an app. Asks none where this state folder has a note of it."""
    place = known.place_of_app(app_id)
    if place is not None:
        return clusters.at(place)
    found = find(clusters, app_id, look=False)
    return None if found is None else found[0]


def settled(cluster: Cluster, apps: Mapping[str, Facts]) -> dict[str, Facts]:
    """The facts, with the ends of those that Slurm has ended recorded on the cluster: one more request."""
    known_facts = dict(apps)
    while lacking := undecided_needs(known_facts):
        found = seen(cluster, app_ids=lacking, ended=True)
        known_facts |= {each: found.get(each, {}) for each in lacking}
    made = new_ends(known_facts)
    if not made:
        return dict(apps)
    again = {"op": "observe", "app_ids": sorted(made), "ended": True}
    ops = [{"op": "end", "app_id": app_id, "outcome": outcome} for app_id, outcome in made.items()]
    *_, answer = cluster.call(*ops, again)
    return {**apps, **{k: facts for k, facts in checked(answer)["apps"].items() if k in apps}}


def where(clusters: Clusters, app_ids: Iterable[str]) -> Iterator[tuple[Cluster, list[str]]]:
    """The clusters that have these apps or, for those submitted elsewhere, may have them."""
    found: dict[Place, list[str]] = {}
    for app_id in filter(is_id, app_ids):
        place = known.place_of_app(app_id)
        for each in [place] if place else [cluster.place for cluster in clusters.everywhere()]:
            found.setdefault(each, []).append(app_id)
    for place, ids in found.items():
        yield clusters.at(place), ids


def attempts(
    clusters: Clusters,
    keys: Collection[JobKey],
    settled_ids: Collection[str],
    *,
    take_over: bool,
    look: bool = True,
) -> list[Attempt]:
    """The live attempts, and the latest of each of `keys`; see `StagedScheduler.observe`.

    Args:
        look: ask Slurm's queue, too: without, an app that Slurm has ended seems to be live.

    Raises SchedulerError when a cluster cannot be asked that apps are to go to; others are left out.
    """
    wanted, done = set(keys), set(settled_ids)
    fields: dict[str, Any] = {"app_ids": None, "settled": sorted(done), "ended": False}
    fields |= {"latest_of": [list(key) for key in wanted], "look": look}
    out: list[Attempt] = []
    for cluster in clusters.everywhere():
        try:
            apps = _seen_with_outputs(clusters, cluster, fields) if look else seen(cluster, **fields)
        except LauncherError:
            if clusters.is_expected(cluster):
                raise
            continue
        ends = new_ends(apps)
        found = [_attempt(facts, ends.get(app_id), take_over) for app_id, facts in apps.items()]
        out += current((each for each in found if each is not None), wanted, done)
    return out


def _seen_with_outputs(clusters: Clusters, cluster: Cluster, fields: Mapping[str, Any]) -> dict[str, Facts]:
    """As `seen`; also notes the output folders of the cluster, for `SlurmOutputs.lost`."""
    *_, answer, listed = cluster.call(*cluster.greeting, {"op": "observe", **fields}, {"op": "outputs"})
    if "outputs" in listed:
        clusters.outputs[cluster.place] = set(listed["outputs"])
    found: dict[str, Facts] = checked(answer)["apps"]
    return found


def _attempt(facts: Facts, end: Mapping[str, Any] | None, take_over: bool) -> Attempt | None:
    shown = facts if end is None else {**facts, "outcome": end}
    return seen_app(shown, view_of(shown, take_over=take_over)).attempt()


def reap(clusters: Clusters) -> list[Attempt]:
    """Record ends in the store, remove what clients have left that were killed, and release again the jobs
    whose release Slurm has lost.

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
    for cluster, ids in where(clusters, rows):
        try:
            apps = settled(cluster, seen(cluster, app_ids=ids, ended=True))
            if held := [app_id for app_id, facts in apps.items() if is_held(facts)]:
                cluster.ask("release", app_ids=held)
            clusters.note(cluster, {k: facts for k, facts in apps.items() if view_of(facts).state in LIVE})
            for app_id in ids:
                out += _reaped(cluster, rows[app_id], apps.get(app_id))
        except LauncherError:
            continue
    return out


def _reaped(cluster: Cluster, row: AppRecord, facts: Facts | None) -> list[Attempt]:
    if facts is None:
        _forget_if_gone(row.app_id)
        return []
    view = view_of(facts)
    seen = seen_app(facts, view)
    record = seen.record
    if record.has_ended:
        attempt = seen.attempt()
        with open_store(durable=attempt is not None) as store:
            is_first = store.end_and_tidy(record)
        return [attempt] if is_first and attempt is not None else []
    if is_left_behind(view) and record.job is None:
        # The next apply resumes or removes an attempt of a job; an app without a job is removed here.
        take_back(cluster, row.app_id, facts)
    return []


def is_left_behind(view: View) -> bool:
    """Whether the client that submitted the app has died before it was done."""
    return view.state in ("reserved", "created") and not view.owner


def take_back(cluster: Cluster, app_id: str, facts: Facts) -> None:
    """Remove an app whose client has died while it submitted it, with its held job."""
    cluster.ask("abort", app_id=app_id, nonce=(facts.get("owner") or {}).get("nonce"))
    forget(app_id)


def _forget_if_gone(app_id: str) -> None:
    """Forget an app that is not on its cluster, unless a client may be about to reserve it."""
    noted_at = known.noted_at(app_id)
    if noted_at is None or time.time() - noted_at > _BEING_MADE_S:
        forget(app_id)


def forget(app_id: str) -> None:
    known.forget(app_id)
    with open_store(durable=False) as store:
        store.remove(app_id)


def judged(cluster: Cluster, facts: Facts, *, take_over: bool) -> View:
    """The state of an app, also of one that Slurm has ended and that left no outcome. Writes nothing."""
    view = view_of(facts, take_over=take_over)
    if not view.is_new_end:
        return view
    app_id = str(facts["attempt"]["app_id"])
    apps = {app_id: facts}
    while lacking := undecided_needs(apps):
        found = seen(cluster, app_ids=lacking, ended=True)
        apps |= {each: found.get(each, {}) for each in lacking}
    return view_of({**facts, "outcome": new_ends(apps)[app_id]})


def kept_outcomes(clusters: Clusters) -> list[Attempt]:
    """The attempts of which nothing is left but how they ended."""
    of_all = clusters.of_each(lambda cluster: seen(cluster, app_ids=None, ended=True))
    removed = (facts for apps in of_all for facts in apps.values() if is_removed(facts))
    found = (seen_app(facts, view_of(facts)).attempt() for facts in removed)
    return [attempt for attempt in found if attempt is not None]


def forget_outcome(clusters: Clusters, app_id: str) -> None:
    """Remove how an attempt ended. Raises SchedulerError."""
    found = find(clusters, app_id)
    if found is not None and is_removed(found[1]):
        found[0].ask("remove", app_id=app_id, forget=True)


def is_removed(facts: Facts) -> bool:
    """Whether nothing is left of an app but its record and its outcome."""
    return "removed" in (facts.get("outcome") or {})


def everything(clusters: Clusters, *, take_over: bool) -> list[AppRecord]:
    """Every app of every cluster, without replicas. Raises SchedulerError when one cannot be asked.

    Those are left out of which only the outcome is kept.
    """
    own = set(known.app_ids())
    out = []
    for apps in clusters.of_each(lambda cluster: seen(cluster, app_ids=None, ended=True)):
        ends = new_ends(apps)
        for app_id, facts in apps.items():
            if is_removed(facts):
                continue
            shown = {**facts, "outcome": ends[app_id]} if app_id in ends else facts
            record = record_of(shown, view_of(shown, take_over=take_over))
            record.own = app_id in own
            out.append(record)
    return out


def remove(clusters: Clusters, app_id: str) -> None:
    """Remove an app that has ended; how the latest attempt of a job ended stays, for other state folders.

    Raises SchedulerError when it has not ended.
    """
    for cluster, _ in where(clusters, [app_id]):
        try:
            _remove(cluster, app_id)
        except LauncherError:
            if clusters.is_needed(cluster):
                raise
    forget(app_id)


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
