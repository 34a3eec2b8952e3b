"""Connect to the clusters of a scheduler on first use, ask for apps and output folders, wait for apps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from os.path import expanduser, isdir, join
from threading import Condition, Lock
from typing import Any, TypeVar

from launcher.errors import LauncherError
from launcher.schedulers.api import poll
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.registry import open_store
from launcher.schedulers.slurm import known
from launcher.schedulers.slurm.cluster import Cluster, checked
from launcher.schedulers.slurm.known import SLURM, Place
from launcher.schedulers.slurm.state import (
    Facts,
    is_left_behind,
    new_ends,
    seen_app,
    state_of,
    undecided_needs,
)
from launcher.schedulers.staged import OutputFolders
from launcher.specs.app import AppDef
from launcher.specs.attempt import Attempt
from launcher.specs.outputs import has_output, needs_variable, output_macro, own_output, read_outputs
from launcher.state.records import LIVE, PENDING

T = TypeVar("T")

Group = Mapping[str, Any]
"""A group of queued apps in the short form of an answer: see `queued_apps` of the agent."""

_MOMENT_S = 2.0


class Clusters:
    """The clusters that a scheduler uses, from any thread. `outputs`: place → folders at the last plan."""

    def __init__(self) -> None:
        self.outputs: dict[Place, set[str]] = {}
        self._made: dict[Place, Cluster] = {}
        self._waiters: dict[Place, Waiter] = {}
        self._expected: dict[Place, None] = {}
        self._recorded: dict[Place, None] = {}
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
        """Include this place in requests, although nothing was submitted to it yet."""
        self._expected[place] = None

    def note(self, cluster: Cluster, apps: Mapping[str, Facts]) -> None:
        """Keep the facts of apps for the next request for each of them."""
        with self._lock:
            self._reaped |= {app_id: (cluster, facts) for app_id, facts in apps.items()}
            self._reaped_at = time.monotonic()

    def noted(self, app_id: str) -> tuple[Cluster, Facts] | None:
        """Return the facts of an app that `note` has just kept, and forget them."""
        with self._lock:
            if time.monotonic() - self._reaped_at > _MOMENT_S:
                self._reaped.clear()
            return self._reaped.pop(app_id, None)

    def is_expected(self, cluster: Cluster) -> bool:
        return cluster.place in self._expected

    def is_needed(self, cluster: Cluster) -> bool:
        """Whether an unreachable cluster is an error: it is named, or got apps from this state folder."""
        named = bool(cluster.host) or self.is_expected(cluster) or cluster.place in self._recorded
        return named or cluster.place in known.clusters()

    def of_each(self, ask: Callable[[Cluster], T]) -> list[T]:
        """The clusters' answers. Raises SchedulerError when a needed cluster cannot be asked."""
        found = []
        for cluster in self.everywhere():
            try:
                found.append(ask(cluster))
            except LauncherError:
                if self.is_needed(cluster):
                    raise
        return found

    def targets(self) -> list[Cluster]:
        """The target clusters of the present launches; without launches, the default target."""
        return [self.at(place) for place in self._expected or [known.place_of({})]]

    def everywhere(self) -> list[Cluster]:
        """Every cluster that may have apps of this user."""
        places = [*self._expected, *self._recorded, *known.places()]
        return [self.at(place) for place in dict.fromkeys(places)]

    def _add_recorded(self, app_ids: Collection[str]) -> None:
        """Include the places of apps that another state folder has submitted, and this one has on record."""
        with open_store(readonly=True) as store:
            for each in store.by_app_ids(app_ids).values():
                self._recorded[known.place_of(each.document.get("cfg", {}))] = None

    def find(self, app_id: str, *, replicas: bool = False, look: bool = True) -> tuple[Cluster, Facts] | None:
        """An app with its cluster, or None. Raises SchedulerError when a cluster that may have it is away."""
        if not is_id(app_id):
            return None
        answers, error = self.observe([app_id], replicas=replicas, look=look)
        for cluster, apps, _ in answers:
            if app_id in apps:
                return cluster, apps[app_id]
        if error is not None:
            raise error
        return None

    def observe(
        self, app_ids: Iterable[str], **fields: Any
    ) -> tuple[list[tuple[Cluster, dict[str, Facts], Sequence[Group]]], LauncherError | None]:
        """For each cluster that may have some of these apps, their facts, and its apps answered in short; and
        the first error of a needed cluster, which may have answered by files alone, or not at all."""
        found: list[tuple[Cluster, dict[str, Facts], Sequence[Group]]] = []
        failed: LauncherError | None = None
        for cluster, ids in self.of_apps(app_ids):
            answer: Mapping[str, Any] = {}
            try:
                (answer,) = cluster.answers({"op": "observe", "app_ids": ids, **fields})
                checked(answer)
            except LauncherError as error:
                failed = failed or (error if self.is_needed(cluster) else None)
            apps = (answer.get("detail") or answer).get("apps") or {}
            found.append((cluster, apps, answer.get("queued") or ()))
        return found, failed

    def cluster_of(self, app_id: str) -> Cluster | None:
        """The cluster of an app. Asks no cluster where this state folder has a note of the app."""
        if (place := known.place_of_app(app_id)) is not None:
            return self.at(place)
        found = self.find(app_id, look=False)
        return found and found[0]

    def of_apps(self, app_ids: Iterable[str]) -> Iterator[tuple[Cluster, list[str]]]:
        """The clusters that have these apps or, for apps submitted elsewhere, may have them."""
        found: dict[Place, list[str]] = {}
        everywhere: list[Place] = []
        places = known.places_of(filter(is_id, app_ids))
        if unknown := [app_id for app_id, place in places.items() if place is None]:
            self._add_recorded(unknown)
            everywhere = [cluster.place for cluster in self.everywhere()]
        for app_id, place in places.items():
            for each in everywhere if place is None else [place]:
                found.setdefault(each, []).append(app_id)
        for place, ids in found.items():
            yield self.at(place), ids

    def close(self) -> None:
        with self._lock:
            made, self._made, self._waiters = self._made, {}, {}
        for cluster in made.values():
            cluster.close()


def seen(cluster: Cluster, **fields: Any) -> dict[str, Facts]:
    """The facts of apps, by id; `fields` are those of the agent's `observe`. Raises SchedulerError."""
    (answer,) = cluster.answers({"op": "observe", **fields})
    found: dict[str, Facts] = checked(answer)["apps"]
    return found


def settled(cluster: Cluster, apps: Mapping[str, Facts]) -> dict[str, Facts]:
    """The facts, after recording on the cluster, by one more request, the ends of apps that Slurm ended."""
    made = new_ends(with_undecided(cluster, apps))
    if not made:
        return dict(apps)
    again = {"op": "observe", "app_ids": sorted(made)}
    ops = [{"op": "end", "app_id": app_id, "outcome": outcome} for app_id, outcome in made.items()]
    *_, answer = cluster.call(*ops, again)
    return {**apps, **{k: facts for k, facts in checked(answer)["apps"].items() if k in apps}}


def with_undecided(cluster: Cluster, apps: Mapping[str, Facts]) -> dict[str, Facts]:
    """The facts, and the facts of needs that decide the ends of these apps."""
    found = dict(apps)
    while lacking := undecided_needs(found):
        asked = seen(cluster, app_ids=lacking)
        found |= {each: asked.get(each, {}) for each in lacking}
    return found


def forget(*app_ids: str) -> None:
    """Remove the notes of this state folder about apps."""
    for app_id in app_ids:
        known.forget(app_id)
    with open_store(durable=False) as store:
        for app_id in app_ids:
            store.remove(app_id)


# -- submissions of other clients --------------------------------------------------------------------------

_OWNER_S = 30.0  # how long to wait for a client that is just submitting an app


def once_submitted(cluster: Cluster, app_id: str, facts: Facts) -> Facts | None:
    """Wait until a client has submitted the app; None when nothing is left of it."""

    def is_submitted(facts: Facts) -> bool:
        app = seen_app(facts)
        return app.record.state not in PENDING or not app.owner

    found: Facts | None = facts
    if not is_submitted(facts):
        found = poll(lambda: seen(cluster, app_ids=[app_id]).get(app_id), is_submitted, _OWNER_S)
    if found is None:
        forget(app_id)
    elif is_left_behind(seen_app(found)):
        take_back(cluster, app_id, found)
        return None
    return found


def take_back(cluster: Cluster, app_id: str, facts: Facts) -> None:
    """Remove an app whose client died during the submission, with its held job."""
    cluster.ask("abort", app_id=app_id, nonce=(facts.get("owner") or {}).get("nonce"))
    forget(app_id)


# -- output folders, in the folder of all apps --------------------------------------------------------------


class SlurmOutputs(OutputFolders):
    """The output folders of the clusters."""

    def __init__(self, clusters: Clusters) -> None:
        super().__init__(SLURM)
        self._clusters = clusters

    def names(self) -> list[str]:
        found = self._clusters.of_each(lambda cluster: cluster.ask("outputs")["outputs"])
        return sorted({name for names in found for name in names})

    def address(self, attempt: Attempt, app: AppDef) -> str:
        """The path of the output folder on the app's cluster."""
        if not has_output(app):
            return ""
        cluster = self._clusters.at(known.place_of(attempt.document.get("cfg", {})))
        return join(cluster.root, "outputs", own_output(attempt))

    def lost(self, attempts: Iterable[Attempt]) -> set[str]:
        """The app ids whose folder `observe` did not find; none for a cluster that did not answer then."""
        lost = set()
        for each in attempts:
            there = self._clusters.outputs.get(_place_of(each))
            if each.output and there is not None and own_output(each) not in there:
                lost.add(each.app_id)
        return lost

    def archive(self, attempt: Attempt, only: str = "") -> tuple[Iterator[bytes], str]:
        return self._clusters.at(_place_of(attempt)).pack(own_output(attempt), only), ""

    def digest(self, attempt: Attempt) -> str:
        cluster = self._clusters.at(_place_of(attempt))
        return str(cluster.ask("hash_output", name=own_output(attempt))["digest"])

    def path(self, name: str) -> str:
        here = (expanduser(job_dir) for host, job_dir in known.places() if not host)
        found = [join(folder, "outputs", name) for folder in here]
        return next((path for path in found if isdir(path)), found[0] if found else "")

    def remove(self, name: str) -> None:
        self._clusters.of_each(lambda cluster: cluster.ask("remove_output", name=name))


def _place_of(attempt: Attempt) -> Place:
    return known.place_of_app(attempt.app_id) or known.place_of(attempt.document.get("cfg", {}))


def outputs_of(
    cluster: Cluster, attempt: Attempt, app: AppDef, there: Collection[str] | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Macro → output folder, and the variable with those of needs. `there`: the cluster's, if known."""
    names = read_outputs(attempt)
    if not names and not has_output(app):
        return {}, {}
    root = join(cluster.root, "outputs")
    folders = {output_macro(job): join(root, name) for job, name in names.items()}
    folders[output_macro()] = join(root, own_output(attempt))
    if not names:
        return folders, {}
    if there is None:
        there = set(cluster.ask("outputs")["outputs"])
    # A need that has not run yet makes its folder when it is submitted, before this attempt.
    made = {job: join(root, name) for job, name in names.items() if name in there}
    return folders, needs_variable(names, made)


# -- waiting -----------------------------------------------------------------------------------------------


_FIRST_S, _LAST_S = 2.0, 30.0
"""Seconds for which the cluster keeps a request: the first one, and the longest for the same apps."""


class Waiter:
    """Waits for apps, for all threads of a process: the first thread to wait asks for all of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._changed = Condition()
        self._wanted: Counter[str] = Counter()
        self._starts: Counter[str] = Counter()
        self._seen: dict[str, tuple[int, Facts | None]] = {}  # app id → round, and the facts of that round
        self._round = 0
        self._is_asking = False
        self._pace = _FIRST_S
        self._asked: frozenset[str] = frozenset()
        self._queue: list[float] | None = None  # when the cluster is to look at its queue next

    def until_end(self, app_id: str, timeout_s: float | None = None) -> Facts | None:
        """The facts of an app at its end, or after the timeout; None for an unknown app."""
        return self._wait(app_id, lambda facts: not _is_live(facts), timeout_s, self._wanted)

    def until_start(self, app_id: str) -> Facts | None:
        """The facts of an app that has started, or ended without a start."""

        def has_begun(facts: Facts) -> bool:
            # The script runs a little after Slurm reports its job as running.
            return seen_app(facts).record.started_at is not None or not _is_live(facts)

        return self._wait(app_id, has_begun, None, self._starts)

    def _wait(
        self, app_id: str, is_done: Callable[[Facts], bool], timeout_s: float | None, waiting: Counter[str]
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
                    now = self._cluster.ask("observe", app_ids=[app_id])["apps"].get(app_id)
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
        """Make one request for all apps that threads wait for. Raises SchedulerError."""
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
            wait: dict[str, Any] = {"app_ids": sorted(asked), "starts": starts, "queue": self._queue}
            wait["seconds"] = min(self._pace, _LAST_S if left is None else left)
        try:
            waited = self._cluster.ask("wait", **wait)
            with self._changed:
                self._queue = waited["queue"]
                for app_id in {*waited["apps"], *waited["missing"]}:
                    self._seen[app_id] = (number, waited["apps"].get(app_id))
        finally:
            with self._changed:
                self._is_asking = False
                self._changed.notify_all()

    def _is_open(self, app_id: str, own: str) -> bool:
        """Whether the app's end is unknown: its threads may not have run since the last answer."""
        facts = self._seen.get(app_id, (0, None))[1]
        return app_id == own or facts is None or _is_live(facts)


def _is_live(facts: Facts) -> bool:
    return state_of(facts) in LIVE
