"""Follow apps until they have ended, or are stranded: outcomes, states of replicas, output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from launcher.apply.engines import Engines
from launcher.apply.events import TOGETHER_S, Events, OnEvent, Outcome
from launcher.apply.submit import unrecorded
from launcher.dataclass import dataclass
from launcher.errors import LauncherError, SchedulerError, StateError
from launcher.schedulers.logs import LogPart
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.launch import JobKey
from launcher.state.records import AppRecord, of_attempt
from launcher.state.store import Store
from launcher.text import with_cause

if TYPE_CHECKING:
    from threading import Event, Thread

    from launcher.schedulers.responses import DescribeAppResponse
    from launcher.schedulers.restarts import Restart
    from launcher.specs.attempt import Attempt


OnLog = Callable[[JobKey, str, int, bytes], None]
"""Called with job, role, replica and a chunk of its output, cut anywhere; from one thread per app."""
OnProgress = Callable[[JobKey, "DescribeAppResponse"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """The callbacks of an apply while it works and while it waits, all optional."""

    on_event: OnEvent | None = None
    on_log: OnLog | None = None
    on_progress: OnProgress | None = None


UNWATCHED = Watching()
_STACK_BYTES = 256 * 1024


def follow(
    outcomes: Sequence[Outcome],
    *,
    engines: Engines,
    store: Store,
    events: Events,
    watching: Watching = UNWATCHED,
) -> tuple[Outcome, ...]:
    """Wait for every live app; returns the outcomes with their final states, which are then in the ledger.

    Held apps that no process will start are not waited for (see `Stranded`). An interrupt detaches: the apps
    keep running.
    """
    live = [outcome for outcome in outcomes if outcome.app is not None and outcome.app.is_live]
    follower = _Follower(live, engines, store, events, watching)
    stranded: Mapping[str, AppRecord] = {}
    if len(live) == 1 and not _held(live) and watching.on_log is None and watching.on_progress is None:
        follower.follow_to_end(live[0])
    elif live:
        stranded = follower.follow_all()
    ended = follower.ended
    return tuple(ended.get(each.app_id) or _as_seen(each, stranded.get(each.app_id)) for each in outcomes)


class _Follower:
    """Waits for live apps, each in a thread of its own, and reports what becomes of them.

    Attributes:
        ended: the outcomes of the apps that have ended, by app id.
    """

    def __init__(
        self, live: Sequence[Outcome], engines: Engines, store: Store, events: Events, watching: Watching
    ) -> None:
        self._live = live
        self._engines = engines
        self._store = store
        self._events = events
        self._on_log = watching.on_log
        self._on_progress = watching.on_progress
        self._keys = {outcome.app_id: outcome.key for outcome in live}
        self._failures: list[BaseException] = []
        self.ended: dict[str, Outcome] = {}

    def follow_all(self) -> Mapping[str, AppRecord]:
        """Follow all apps to their ends; returns the apps that no process will start."""
        for outcome in self._live:  # schedulers are made here, so that the threads only look them up
            _scheduler(outcome, self._engines)
        self._events.together_s = TOGETHER_S if len(self._live) > 1 else 0.0
        try:
            return self._follow_in_threads()
        finally:
            self._events.flush()

    def follow_to_end(self, outcome: Outcome) -> None:
        if self._on_log is None:  # else states are reported between the lines of the output
            for restart in _scheduler(outcome, self._engines).logs(outcome.app_id).restarts():
                self._report_restart(outcome.app_id, restart)
        self.ended[outcome.app_id] = _until_end(outcome, self._engines, self._store, self._events)

    def _follow_in_threads(self) -> Mapping[str, AppRecord]:
        """Start a thread for each app, and join them. Raises the first of their errors.

        Returns the stranded apps. The threads are daemons: they do not keep the process alive after an
        interrupt of the main thread, or while they wait for the start of stranded apps.
        """
        import threading

        done = threading.Event()
        before = threading.stack_size(_STACK_BYTES)
        try:
            waiting = {each.app_id: self._start(partial(self._follow, each)) for each in self._live}
            progress = self._start(partial(self._report_progress, done)) if self._on_progress else None
        finally:
            threading.stack_size(before)
        stranded = _join(waiting, _held(self._live), self._engines)
        done.set()
        if progress is not None:
            progress.join()
        if self._failures:
            raise self._failures[0]
        return stranded

    def _start(self, work: Callable[[], None]) -> Thread:
        import threading

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self._failures.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def _follow(self, outcome: Outcome) -> None:
        """Copy the output first, so that the end of an app is reported after all of its output."""
        try:
            if outcome.app is not None and outcome.app.is_held:
                _until_start(outcome, self._engines, self._events)
                if self._on_log is not None:  # its output follows
                    self._events.flush()
            if self._on_log is not None:
                self._copy(self._on_log, outcome)
        finally:
            self.follow_to_end(outcome)

    def _copy(self, on_log: OnLog, outcome: Outcome) -> None:
        scheduler = _scheduler(outcome, self._engines)
        seen = scheduler.describe(outcome.app_id)
        roles = seen.roles_statuses if seen is not None else []
        replicas = [(replica.role, replica.id) for role in roles for replica in role.replicas]
        logs = scheduler.logs(outcome.app_id)
        logs.on_restart = partial(self._report_restart, outcome.app_id)
        for role, k, data in logs.chunks(replicas, LogPart(follow=True)):
            on_log(outcome.key, role, k, data)

    def _report_restart(self, app_id: str, restart: Restart) -> None:
        facts = _facts(app_id, restart)
        if self._on_log is None:
            self._events.report("restarting", self._keys[app_id], restart.at, **facts)
        else:
            self._events.emit("restarting", self._keys[app_id], at=restart.at, **facts)

    def _report_progress(self, done: Event) -> None:
        """Poll the apps for a terminal, as often as their schedulers allow, and once more at the end."""
        assert self._on_progress is not None
        every_s = max(_scheduler(outcome, self._engines).describe_every_s for outcome in self._live)
        last = False
        while not last:
            last = done.wait(every_s)
            for outcome in self._live:
                try:
                    seen = _scheduler(outcome, self._engines).describe(outcome.app_id)
                except SchedulerError:
                    continue  # the thread that waits for the app reports an error that lasts
                if seen is not None:
                    self._on_progress(outcome.key, seen)


def _held(outcomes: Iterable[Outcome]) -> list[AppRecord]:
    return [outcome.app for outcome in outcomes if outcome.app is not None and outcome.app.is_held]


def _as_seen(outcome: Outcome, seen: AppRecord | None) -> Outcome:
    app = copy(outcome.app)
    if app is None or seen is None:
        return outcome
    app.update(seen)
    return replace(outcome, app=app)


def _facts(app_id: str, restart: Restart) -> dict[str, Any]:
    return {
        "app_id": app_id,
        "role": restart.role,
        "replica": restart.k,
        "policy": restart.policy,
        "restart": restart.number,
        "max_retries": restart.most,
        "delay_s": restart.delay_s,
        "message": str(restart),
    }


def _until_start(outcome: Outcome, engines: Engines, events: Events) -> None:
    """Wait until the holder starts the attempt, and report the start."""
    scheduler = _scheduler(outcome, engines)
    scheduler.wait_for_start(outcome.app_id)
    attempt = scheduler.attempt(outcome.app_id)
    if attempt is not None and attempt.started_at is not None:
        about = {"attempt": attempt.number, "app_id": attempt.app_id, "handle": attempt.handle}
        events.report("started", outcome.key, attempt.started_at, **about)


def _until_end(outcome: Outcome, engines: Engines, store: Store, events: Events) -> Outcome:
    scheduler = _scheduler(outcome, engines)
    attempt = scheduler.ended_attempt(outcome.app_id)
    if attempt is None:
        app = copy(outcome.app)
        if app is not None:
            app.state, app.message = "lost", "its records were removed while it was followed"
        return replace(outcome, app=app)
    warnings = tuple(scheduler.warnings(outcome.app_id))  # a missing row is written below, or warned about
    try:
        store.record(attempt)
    except StateError as error:
        warnings = (*warnings, unrecorded(f"it has {attempt.state}", error))
    cause = _cause(scheduler, outcome.app_id) if attempt.state in ("failed", "lost") else ""
    message = with_cause(attempt.message, cause)
    about = {"attempt": attempt.number, "app_id": outcome.app_id, "message": message}
    if attempt.state == "skipped":
        events.report("attempt_skipped", outcome.key, attempt.ended_at, **about)
    elif not attempt.is_live:  # else the process that held it has died
        events.report("ended", outcome.key, attempt.ended_at, **about, **_how(attempt))
    app = of_attempt(attempt)
    app.message = message
    return replace(outcome, app=app, warnings=warnings)


def _how(attempt: Attempt) -> dict[str, Any]:
    return {
        "handle": attempt.handle,
        "state": attempt.state,
        "exit_code": attempt.exit_code,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
    }


def _cause(scheduler: StagedScheduler[Any], app_id: str) -> str:
    """The first error of a replica, in one line; "" when there is none, or it cannot be read."""
    from launcher.specs.replica_error import read_error
    from launcher.specs.status import root_cause

    try:
        seen = scheduler.describe(app_id)
    except LauncherError:
        return ""  # the outcome is known and must not be lost
    cause = root_cause(replica for role in seen.roles_statuses for replica in role.replicas) if seen else None
    error = read_error(cause.structured_error_msg) if cause else None
    return f"{cause.role}/{cause.id}: {error.summary}" if cause and error else ""


def _join(
    waiting: Mapping[str, Thread], held: Sequence[AppRecord], engines: Engines
) -> Mapping[str, AppRecord]:
    """Join the threads (by app id) until those left wait for stranded apps, which are returned."""

    looks = Stranded(engines)
    while left := {app_id: thread for app_id, thread in waiting.items() if thread.is_alive()}:
        still_held = [app for app in held if app.app_id in left]
        thread = next(iter(left.values()))
        thread.join(LOOK_S if still_held else None)
        if thread.is_alive():
            stranded = looks.look(still_held)
            if left.keys() <= stranded.keys():
                return stranded
    return {}


def _scheduler(outcome: Outcome, engines: Engines) -> StagedScheduler[Any]:
    return engines.get(outcome.handle.partition("://")[0])


LOOK_S = 2.0
"""How often to look: at the cost of a record an app, or of a list of the engine."""


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
