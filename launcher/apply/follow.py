"""Follow apps until they have ended, or are stranded: outcomes, states of replicas, output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from launcher.apply.engines import Engines
from launcher.apply.events import TOGETHER_S, UNWATCHED, Events, OnLog, Outcome, Watching
from launcher.apply.submit import unrecorded
from launcher.dataclass import replace
from launcher.errors import LauncherError, SchedulerError, StateError
from launcher.schedulers.staged import StagedScheduler
from launcher.state.records import AppRecord
from launcher.state.store import Store
from launcher.text import with_cause

if TYPE_CHECKING:
    from threading import Event, Thread

    from launcher.schedulers.restarts import Restart
    from launcher.specs.attempt import Attempt


_STACK_BYTES = 256 * 1024
_SHOWN = 5
"""For how many held apps the live table shows the reason why they wait."""
_LOOK_S = 2.0
"""Seconds between two looks, relative to their cost: the record of one app, or the list of an engine."""
_SHARE = 20
"""Looks at many apps take at most 1/20 of the time."""
_PAUSE_S = 5e-6
"""Seconds to wait after a change of an app, so that further changes are read together with it."""


def follow(
    outcomes: Sequence[Outcome],
    *,
    engines: Engines,
    store: Store,
    events: Events,
    watching: Watching = UNWATCHED,
) -> tuple[Outcome, ...]:
    """Wait for every live app; returns the outcomes with their final states, which are then in the ledger.

    Held apps that no process will start are not waited for (see `_Stranded`). An interrupt detaches: the apps
    keep running.
    """
    live = [outcome for outcome in outcomes if outcome.is_live]
    follower = _Follower(live, engines, store, events, watching)
    if len(live) == 1 and not _held(live) and watching.on_log is None and watching.on_progress is None:
        follower.follow_to_end(live[0])
    elif live:
        follower.follow_all()
    if follower.failures:
        raise follower.failures[0]
    found = {**follower.stranded, **follower.ended}
    return tuple(found.get(each.app_id, each) for each in outcomes)


class _Follower:
    """Waits for live apps, and reports what becomes of them.

    The apps of a scheduler that reports changes share a thread; any other app has a thread of its own.

    Attributes:
        ended: the outcomes of the apps that have ended, by app id.
        stranded: those of the apps that no process will start.
        failures: the errors of apps that could not be followed.
    """

    def __init__(
        self, live: Sequence[Outcome], engines: Engines, store: Store, events: Events, watching: Watching
    ) -> None:
        self._live = live
        self._engines = engines
        self._store = store
        self.events = events
        self._on_log = watching.on_log
        self._on_progress = watching.on_progress
        self._keys = {outcome.app_id: outcome.key for outcome in live}
        self.failures: list[BaseException] = []
        self._started: set[str] = set()  # apps that were held
        self._unread: dict[str, str] = {}  # app id → why its output could not be read completely
        self.ended: dict[str, Outcome] = {}
        self.stranded: dict[str, Outcome] = {}

    def follow_all(self) -> None:
        """Follow all apps to their ends, unless no process will start them.

        The threads are daemons: they do not keep the process alive after an interrupt of the main thread, or
        while they wait for the start of stranded apps.
        """
        import threading

        for outcome in self._live:  # schedulers are made here, so that threads only look them up
            self._scheduler(outcome)
        self.events.together_s = TOGETHER_S if len(self._live) > 1 else 0.0
        done = threading.Event()
        before = threading.stack_size(_STACK_BYTES)
        try:
            try:
                waiting = [(part, self._start(work)) for part, work in self._parts()]
                progress = self._start(partial(self._report_progress, done)) if self._on_progress else None
            finally:
                threading.stack_size(before)
            self._join(waiting)
            done.set()
            if progress is not None:
                progress.join()
        finally:
            self.events.flush()

    def _scheduler(self, outcome: Outcome) -> StagedScheduler[Any]:
        return self._engines.get(outcome.handle.partition("://")[0])

    def follow_to_end(self, outcome: Outcome) -> None:
        if self._on_log is None and outcome.has_retries:
            # With logs, states are reported between the lines of the output.
            for restart in self._scheduler(outcome).logs(outcome.app_id).restarts():
                self.report_restart(outcome.app_id, restart)
        self.ended_together((outcome,))

    def ended_together(self, outcomes: Sequence[Outcome]) -> None:
        """Wait for apps that have ended, or are ending now; record and report their ends.

        An app that cannot be read counts as ended, too, and its error is noted.
        """
        ends: list[tuple[Outcome, Attempt | None]] = []
        for each in outcomes:
            try:
                ends.append((each, self._scheduler(each).ended_attempt(each.app_id)))
            except LauncherError as error:
                self.failures.append(error)
                self.ended[each.app_id] = each  # no other app depends on it
        unwritten = None
        try:
            self._store.record_all([attempt for _, attempt in ends if attempt is not None])
        except StateError as error:
            unwritten = error
        for outcome, attempt in sorted(ends, key=lambda end: (end[1] and end[1].ended_at) or 0.0):
            if attempt is None:
                ended = _removed(outcome)
            else:
                if not self._has_news(outcome):
                    self._note_start(outcome, attempt)
                ended = self._after_end(outcome, attempt, unwritten)
            self._report_end(ended)
            self.ended[outcome.app_id] = ended

    def _report_end(self, ended: Outcome) -> None:
        app = ended.app
        if app is None or ended.is_live:  # the process that held it has died
            return
        about: dict[str, Any] = {"attempt": ended.attempt, "app_id": app.app_id, "message": app.message}
        if app.state == "skipped":
            self.events.report("attempt_skipped", ended.key, app.ended_at, **about)
        else:
            about |= {"handle": ended.handle, "state": app.state, "exit_code": app.exit_code}
            about |= {"started_at": app.started_at, "ended_at": app.ended_at}
            self.events.report("ended", ended.key, app.ended_at, **about)

    def _after_end(self, outcome: Outcome, attempt: Attempt, unwritten: StateError | None) -> Outcome:
        """Return the outcome of an app that has ended. `unwritten`: why the ledger lacks the end."""
        warnings = [*attempt.warnings]
        if unwritten is not None:
            warnings.append(unrecorded(f"it has {attempt.state}", unwritten))
        if why := self._unread.get(outcome.app_id):
            warnings.append(why)
        message = attempt.message
        if attempt.state in ("failed", "lost"):
            message = with_cause(message, _cause(self._scheduler(outcome), outcome.app_id))
        return outcome.after(attempt, message, tuple(warnings))

    def _parts(self) -> Iterator[tuple[Sequence[Outcome], Callable[[], None]]]:
        """The groups of apps that share a thread, each with its work."""
        of_each: dict[str, list[Outcome]] = {}
        for outcome in self._live:
            of_each.setdefault(outcome.handle.partition("://")[0], []).append(outcome)
        for name, outcomes in of_each.items():
            scheduler = self._engines.get(name)
            if len(outcomes) > 1 and self._on_log is None and scheduler.changed(()) is not None:
                yield outcomes, _Group(self, scheduler, outcomes).follow
            else:
                yield from (((each,), partial(self._follow, each)) for each in outcomes)

    def _join(self, waiting: Sequence[tuple[Sequence[Outcome], Thread]]) -> None:
        """Join the threads until the remaining ones wait for stranded apps."""
        looks, pause_s = _Stranded(self._engines), _LOOK_S
        while alive := [each for each in waiting if each[1].is_alive()]:
            left = [each for part, _ in alive for each in part if each.app_id not in self.ended]
            held = [app for app in _held(left) if app.app_id not in self._started]
            alive[0][1].join(pause_s if held else None)
            if held and alive[0][1].is_alive():
                began = monotonic()
                stranded = looks.look(held)
                pause_s = _pause_after(began)
                left = [each for each in left if each.app_id not in self.ended]
                if {each.app_id for each in left} <= stranded.keys():
                    for each in left:
                        app = copy(each.app)
                        if app is not None:
                            app.update(stranded[each.app_id])
                        self.stranded[each.app_id] = replace(each, app=app)
                    return

    def _start(self, work: Callable[[], None]) -> Thread:
        import threading

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def _follow(self, outcome: Outcome) -> None:
        """Copy the output first, so that the end of an app is reported after all of its output."""
        try:
            has_output = True
            if outcome.is_held:
                self._scheduler(outcome).wait_for_start(outcome.app_id)
                attempt = self.report_start(outcome)
                has_output = attempt is not None and (attempt.is_live or attempt.started_at is not None)
                if self._on_log is not None:  # its output is copied first
                    self.events.flush()
            if self._on_log is not None and has_output:
                self._copy(self._on_log, outcome)
        finally:
            self.follow_to_end(outcome)

    def _copy(self, on_log: OnLog, outcome: Outcome) -> None:
        from launcher.schedulers.logs import LogPart

        scheduler = self._scheduler(outcome)
        seen = scheduler.record(outcome.app_id)
        replicas = [(each.role, each.k) for each in seen.replicas] if seen is not None else []
        logs = scheduler.logs(outcome.app_id)
        logs.on_restart = partial(self.report_restart, outcome.app_id)
        try:
            for role, k, data in logs.chunks(replicas, LogPart(follow=True)):
                on_log(outcome.key, role, k, data)
        except SchedulerError as error:  # the outcome counts, even without the output
            self._unread[outcome.app_id] = str(error)

    def report_start(self, outcome: Outcome) -> Attempt | None:
        """Report that the holder of an attempt has started it; returns the attempt."""
        attempt = self._scheduler(outcome).attempt(outcome.app_id)
        self._note_start(outcome, attempt)
        return attempt

    def _note_start(self, outcome: Outcome, attempt: Attempt | None) -> None:
        self._started.add(outcome.app_id)
        if attempt is not None and attempt.started_at is not None:
            about = {"attempt": attempt.number, "app_id": attempt.app_id, "handle": attempt.handle}
            self.events.report("started", outcome.key, attempt.started_at, **about)

    def report_restart(self, app_id: str, restart: Restart) -> None:
        facts: dict[str, Any] = {
            "app_id": app_id,
            "role": restart.role,
            "replica": restart.k,
            "policy": restart.policy,
            "restart": restart.number,
            "max_retries": restart.most,
            "delay_s": restart.delay_s,
            "message": str(restart),
        }
        if self._on_log is None:
            self.events.report("restarting", self._keys[app_id], restart.at, **facts)
        else:
            self.events.emit("restarting", self._keys[app_id], at=restart.at, **facts)

    def _report_progress(self, done: Event) -> None:
        """Poll the apps for a terminal, as often as their schedulers allow, and once more at the end.

        Only the first of the held apps, which may be thousands, are polled as often as running ones.
        """
        assert self._on_progress is not None
        every_s = max(self._scheduler(outcome).describe_every_s for outcome in self._live)
        left, last, all_at = [*self._live], False, 0.0
        while not last:
            last = done.wait(every_s)
            began, ended = monotonic(), {*self.ended}
            held = [outcome for outcome in left if not self._has_news(outcome)]
            rare = set() if last or began >= all_at else {each.app_id for each in held[_SHOWN:]}
            for outcome in [each for each in left if each.app_id not in rare]:
                try:
                    seen = self._scheduler(outcome).record(outcome.app_id)
                except SchedulerError:
                    continue  # the thread that waits for the app reports an error that lasts
                if seen is not None:
                    self._on_progress(outcome.key, seen)
            if began >= all_at:
                all_at = monotonic() + (monotonic() - began) * _SHARE
            left = [outcome for outcome in left if outcome.app_id not in ended]

    def _has_news(self, outcome: Outcome) -> bool:
        """Return whether an app is running, or has run."""
        return not outcome.is_held or outcome.app_id in self._started or outcome.app_id in self.ended


class _Group:
    """Apps of a scheduler that reports changes, which share a thread."""

    def __init__(
        self, follower: _Follower, scheduler: StagedScheduler[Any], outcomes: Iterable[Outcome]
    ) -> None:
        self._follower = follower
        self._scheduler = scheduler
        self._left = {each.app_id: each for each in outcomes}
        self._held = {app.app_id for app in _held(self._left.values())}
        self._restarts: dict[str, int] = {}  # app id → the number of reported restarts
        self._all_at = self._running_at = monotonic() + _LOOK_S  # the times of the next looks

    def follow(self) -> None:
        """Report on the apps until all have ended. Raises the errors of the scheduler and of reports."""
        while self._left:
            left_s = min(self._all_at, self._running_at) - monotonic()
            changed = self._scheduler.changed(self._left.keys(), left_s) or ()
            with self._follower.events.together():
                over = [app_id for app_id in changed if self._has_ended(app_id)]
                over += self._dead()
                if over:
                    self._follower.ended_together([self._left.pop(app_id) for app_id in dict.fromkeys(over)])
            sleep(len(self._left) * _PAUSE_S)

    def _has_ended(self, app_id: str) -> bool:
        """Report the news of an app. Returns whether its record has an end, or cannot be read."""
        try:
            events = [*self._scheduler.logs(app_id).events()()]
        except LauncherError:
            return True
        kinds = {event["e"] for event in events}
        if app_id in self._held and "starting" in kinds:
            self._held.remove(app_id)
            if "ended" not in kinds or "restart" in kinds:
                self._follower.report_start(self._left[app_id])
        if "restart" in kinds:
            from launcher.schedulers.restarts import RestartReader

            found = [*RestartReader(lambda: events).read()]
            for restart in found[self._restarts.get(app_id, 0) :]:
                self._follower.report_restart(app_id, restart)
            self._restarts[app_id] = len(found)
        return not events or "ended" in kinds

    def _dead(self) -> list[str]:
        """Return the apps that have died without a record of it: a killed process reports no change.

        Looks when it is time.
        """
        began = monotonic()
        if began < self._running_at:
            return []
        wanted = [app_id for app_id in self._left if began >= self._all_at or app_id not in self._held]
        try:
            live = {app.app_id for app in self._scheduler.refresh(wanted) if app.is_live}
        except LauncherError:  # the next look follows soon
            live = {*wanted}
        self._running_at = monotonic() + _pause_after(began)
        if len(wanted) == len(self._left):
            self._all_at = self._running_at
        return [app_id for app_id in wanted if app_id not in live]


class _Stranded:
    """The present records of held apps and of the apps that they wait for, directly or not.

    An app counts as stranded after two such looks, since an apply may be replacing a dead holder.
    """

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._needs: dict[str, dict[str, str]] = {}  # app id → app id of each need → its scheduler
        self._before: frozenset[str] = frozenset()

    def look(self, apps: Iterable[AppRecord]) -> dict[str, AppRecord]:
        """Return the stranded apps among `apps`, with their present states, by app id."""
        wanted = {app.app_id: app.scheduler for app in apps}
        seen: dict[str, AppRecord] = {}
        every = self._with_needs(wanted)
        for scheduler in sorted(set(every.values())):
            of_it = [app_id for app_id, of in every.items() if of == scheduler]
            with suppress(LauncherError):  # an engine that cannot be reached now
                seen |= {app.app_id: app for app in self._engines.get(scheduler).refresh(of_it)}
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
        """Return app id → scheduler, for the apps and all apps that they wait for."""
        every: dict[str, str] = {}
        left = dict(wanted)
        while left:
            app_id, scheduler = left.popitem()
            every[app_id] = scheduler
            if app_id not in self._needs:
                try:
                    attempt = self._engines.get(scheduler).attempt(app_id)
                except LauncherError:  # as in `look`
                    continue
                needs = attempt.needs if attempt is not None else ()
                self._needs[app_id] = {need.app_id: need.scheduler for need in needs}
            left |= {need: of for need, of in self._needs[app_id].items() if need not in every}
        return every


def _removed(outcome: Outcome) -> Outcome:
    """Return the outcome of an app that has no record any more."""
    app = copy(outcome.app)
    if app is not None:
        app.state, app.message = "lost", "its records were removed while it was followed"
    return replace(outcome, app=app)


def _pause_after(began: float) -> float:
    """Return the seconds from now to the next look, after a look that began at this monotonic time."""
    return max(_LOOK_S, (monotonic() - began) * _SHARE)


def _held(outcomes: Iterable[Outcome]) -> list[AppRecord]:
    return [outcome.app for outcome in outcomes if outcome.app is not None and outcome.is_held]


def _cause(scheduler: StagedScheduler[Any], app_id: str) -> str:
    """The first error of a replica, in one line; "" when there is none, or it cannot be read."""
    try:
        seen = scheduler.record(app_id)
    except LauncherError:
        return ""  # the outcome is known and must not be lost
    return seen.cause if seen is not None else ""
