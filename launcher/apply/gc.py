"""Remove the remains of apps that have ended. Their outcomes stay in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from launcher.apply.engines import Engines, opened, record_ends
from launcher.dataclass import dataclass, field
from launcher.errors import FullDiskError, LauncherError, SchedulerError, StateError
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.attempt import ENDED_STATES, UNSTARTED_STATES, Attempt
from launcher.specs.outputs import job_of, own_output, read_outputs
from launcher.state.records import AppRecord
from launcher.state.store import Store
from launcher.text import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The apps to remove: those that ended long enough ago, except the newest `keep` of every job.

    Attributes:
        project: only apps of its jobs; None for all apps.
    """

    older_than_s: float = 7 * 86400.0
    keep: int = 0
    project: str | None = None

    def concerns(self, project: str | None) -> bool:
        return self.project in (None, project)


@dataclass(slots=True, kw_only=True)
class Collected:
    """The removed objects, the kept ones, and those that could not be removed.

    Attributes:
        kept: (kept apps, reason) as text: ("3 apps", "they ended less than 7d ago").
    """

    removed: list[AppRecord] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, LauncherError]] = field(default_factory=list)


def reasons(
    apps: Iterable[AppRecord], rule: Rule, *, now: float, needed: Collection[str] = ()
) -> list[tuple[AppRecord, str]]:
    """Return the apps, the newest first, each with the reason why `rule` keeps it; "" for an app to remove.

    Apps with the same name and session count as one job's. `needed`: ids of apps that other apps wait for.
    """
    newer: Counter[tuple[str, str]] = Counter()
    out = []
    for app in sorted(apps, key=lambda app: (ended(app), app.app_id), reverse=True):
        job = (app.session, app.name)
        why = "among the newest of their job (--keep)" if newer[job] < rule.keep else ""
        if not why and ended(app) > now - rule.older_than_s:
            why = "ended too recently (--older-than)"
        if not why and app.in_use:
            why = "just ended, and the client that started it still runs"
        if not why and app.app_id in needed:
            why = "needed by jobs that wait"
        out.append((app, why))
        newer[job] += 1
    return out


def ended(app: AppRecord) -> float:
    """Return the time of the app's end or, if that is unknown, of its creation."""
    return app.ended_at or app.created_at or 0.0


def collect_here(schedulers: Sequence[str], rule: Rule, *, dry_run: bool, **options: Any) -> Collected:
    """`collect` in this state folder; where its disk is full, first apps whose removal writes nothing."""

    def collected(only_recorded: bool = False) -> Collected:
        more = {"only_recorded": True, "tombstones": False, "outputs": False} if only_recorded else {}
        with opened(readonly=dry_run, writes_ledger=not only_recorded) as (store, engines):
            return collect(store, engines, schedulers, rule, dry_run=dry_run, **options | more)

    try:
        return collected()
    except FullDiskError:
        removed = [] if dry_run else collected(only_recorded=True).removed
        if not removed:
            raise
    done = collected()
    done.removed[:0] = removed
    return done


def collect(
    store: Store,
    engines: Engines,
    schedulers: Sequence[str],
    rule: Rule,
    *,
    now: float,
    dry_run: bool = False,
    logs: bool = False,
    tombstones: bool = False,
    outputs: bool = False,
    only_recorded: bool = False,
) -> Collected:
    """Record new ends, remove apps by `rule`, then remove shared objects that no app uses any more.

    Failures of objects and engines are reported. Raises FullDiskError before it removes anything.

    Args:
        dry_run: change nothing; shared objects are not examined.
        logs: remove only the logs of the apps; their records and shared objects stay.
        tombstones, outputs: also remove the engines' records of outcomes, by the age in `rule`, and the
            output folders that no job depends on any more, whatever their age.
        only_recorded: only apps of which the ledger has all that can be known. Writes nothing into it.
    """
    done = Collected()
    for name in schedulers:
        try:
            if not dry_run and not only_recorded:
                record_ends(store, engines, [name])
            at = _Collection(engines.get(name), store, rule, done, now, dry_run, only_recorded)
            at.run(logs=logs, tombstones=tombstones, outputs=outputs)
        except LauncherError as error:
            if isinstance(error, FullDiskError) and not done.removed:
                raise
            done.problems.append((name, error))
    live = sum(each.scheduler in schedulers and rule.concerns(each.project) for each in store.live_attempts())
    if live:
        done.kept.insert(0, (plural(live, "live job"), "work in progress"))
    return done


@dataclass(frozen=True, slots=True)
class _Collection:
    """The removal of what apps of one scheduler have left; `done` gets the removed and the kept objects."""

    scheduler: StagedScheduler[Any]
    store: Store
    rule: Rule
    done: Collected
    now: float
    dry_run: bool
    only_recorded: bool

    def run(self, *, logs: bool, tombstones: bool, outputs: bool) -> None:
        """Remove what the options of `collect` of these names choose."""
        (self.collect_logs if logs else self.collect)()
        if tombstones:
            self.forget()
        if outputs:
            self.remove_outputs()

    def collect(self) -> None:
        """Remove the apps, and the shared objects."""
        self._remove(self._chosen(self.scheduler.finished()))
        if not self.dry_run:
            self.done.shared += self.scheduler.sweep()
            self.done.kept += self.scheduler.leftovers()

    def collect_logs(self) -> None:
        """Remove the logs of the apps."""
        finished = self.scheduler.finished()
        with_logs = [app for app in finished if not app.logs_removed and app.state != "skipped"]
        stay: Counter[str] = Counter()
        for app in self._chosen(with_logs):
            try:
                if why := self.scheduler.remove_logs(app.app_id, dry_run=self.dry_run):
                    stay[why] += 1
                else:
                    self.done.removed.append(app)
            except LauncherError as error:
                self.done.problems.append((app.handle, error))
        self._keep(stay, "app")

    def forget(self) -> None:
        """Remove the engine's records of old outcomes; their texts name the jobs."""
        for attempt in self.scheduler.outcomes():
            is_old = (attempt.ended_at or attempt.created_at) <= self.now - self.rule.older_than_s
            if not is_old or not self.rule.concerns(attempt.key.project):
                continue
            entry = self.store.app(attempt.app_id)
            known = entry is not None and entry.state in ENDED_STATES
            again = "from another state folder" if known else "the next time"
            if not self.dry_run:
                self.scheduler.forget_outcome(attempt.app_id)
            how = f"attempt {attempt.number} of {attempt.key}, {attempt.state}"
            text = f"the record of {how}: the job runs again when it is applied {again}"
            self.done.shared.append(text)

    def remove_outputs(self) -> None:
        """Remove old output folders. The folders of each job's latest success and latest attempt stay, and so
        do those that live attempts depend on."""
        store, folders = self.store, self.scheduler.output_folders
        latest = store.latest()
        live = store.by_app_ids(each.app_id for each in store.live_attempts()).values()
        used = {name for attempt in live for name in read_outputs(attempt).values()}
        used |= {own_output(attempt) for attempt in (*store.decisive(latest), *live)}
        stay: Counter[str] = Counter()
        for name in folders.names():
            key = job_of(name, latest)
            if key is None or not self.rule.concerns(key.project):
                stay["of other users, state folders (LAUNCHER_HOME) or projects"] += 1
            elif name in used:
                stay["of the latest attempts, or read by live ones"] += 1
            else:
                try:
                    if not self.dry_run:
                        folders.remove(name)
                    self.done.shared.append(f"output folder {name} of {key}")
                except SchedulerError:
                    stay["apps that have ended still have them: remove those first"] += 1
        self._keep(stay, "output folder")

    def _keep(self, stay: Counter[str], what: str) -> None:
        """Report the kept objects of a kind; `stay`: reason → how many."""
        self.done.kept += [(plural(number, what), why) for why, number in stay.items()]

    def _is_ours(self, app: AppRecord) -> bool:
        """Whether this state folder has a record of the app's outcome, and so of its end time.

        Without one, the app's containers on a shared engine may be another user's only record of the app.
        """
        if app.own:
            return True
        entry = self.store.app(app.app_id)
        if entry is None or entry.handle != app.handle:
            return False
        app.ended_at = entry.ended_at or app.ended_at
        return True

    def _chosen(self, found: Iterable[AppRecord]) -> list[AppRecord]:
        """The ended apps that the rule does not keep, the oldest first. The others are reported as kept, and
        those whose record cannot be read as problems."""
        asked = [app for app in found if self.rule.concerns(app.project)]
        concerned = [app for app in asked if app.has_ended]
        for app in asked:
            if not app.has_ended:
                self.done.problems.append((app.handle, StateError("; ".join(app.warnings))))
        own = [app for app in concerned if self._is_ours(app)]
        unstarted = [each.app_id for each in self.store.live_attempts() if each.state in UNSTARTED_STATES]
        waiting = self.store.by_app_ids(unstarted).values()
        needed = {need.app_id for attempt in waiting for need in attempt.needs}
        judged = reasons(own, self.rule, now=self.now, needed=needed)
        self._keep(Counter(why for _, why in judged if why), "app")
        if others := len(concerned) - len(own):
            self.done.kept.append((plural(others, "app"), "of other users or state folders (LAUNCHER_HOME)"))
        chosen = [app for app, why in judged if not why][::-1]
        if not self.only_recorded:
            return chosen
        recorded = self.store.by_app_ids(app.app_id for app in chosen)
        return [app for app in chosen if _is_complete(recorded.get(app.app_id))]

    def _remove(self, apps: Sequence[AppRecord]) -> None:
        recorded = {} if self.dry_run else self.store.by_app_ids(app.app_id for app in apps)
        for app in apps:
            try:
                if not self.dry_run:
                    is_complete = _is_complete(recorded.get(app.app_id))
                    attempt = None if is_complete else self.scheduler.attempt(app.app_id)
                    if attempt is not None and not attempt.is_live:
                        self.store.record(attempt)  # the last record of its outcome if the ledger was lost
                    self.scheduler.remove(app.app_id)
                self.done.removed.append(app)
            except LauncherError as error:
                self.done.problems.append((app.handle, error))


def _is_complete(last: Attempt | None) -> bool:
    """Whether nothing more can be found out about an attempt, as the ledger has it."""
    if last is None or last.state not in ENDED_STATES - {"lost"}:
        return False
    return bool(last.used) or last.started_at is None
