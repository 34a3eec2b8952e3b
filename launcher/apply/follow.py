"""Follow apps until they have ended: their outcomes, the states of their replicas, their output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from launcher.apply.engines import Engines
from launcher.apply.events import TOGETHER_S, Events, OnEvent, Outcome
from launcher.apply.submit import unrecorded
from launcher.errors import LauncherError, SchedulerError, StateError
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
    ended: dict[str, Outcome] = {}

    def begin(outcome: Outcome) -> None:
        if outcome.app is not None and outcome.app.is_held:
            _until_start(outcome, engines, events)
            if watching.on_log is not None:  # its output follows
                events.flush()

    def one(outcome: Outcome) -> None:
        if watching.on_log is None:  # else they are reported between the lines of the output
            for restart in _scheduler(outcome, engines).restarts(outcome.app_id):
                restarting(outcome.app_id, restart)
        ended[outcome.app_id] = _until_end(outcome, engines, store, events)

    def restarting(app_id: str, restart: Restart) -> None:
        facts = _facts(app_id, restart)
        if watching.on_log is None:
            events.report("restarting", keys[app_id], restart.at, **facts)
        else:
            events.emit("restarting", keys[app_id], at=restart.at, **facts)

    keys = {outcome.app_id: outcome.key for outcome in live}
    stranded: Mapping[str, AppRecord] = {}
    if len(live) == 1 and not _held(live) and watching.on_log is None and watching.on_progress is None:
        one(live[0])
    elif live:
        if watching.on_log is not None:
            for outcome in live:
                _scheduler(outcome, engines).on_restart = restarting
        events.together_s = TOGETHER_S if len(live) > 1 else 0.0
        try:
            stranded = _in_threads(live, begin, one, engines, watching.on_log, watching.on_progress)
        finally:
            events.flush()
    return tuple(
        ended.get(outcome.app_id) or _as_seen(outcome, stranded.get(outcome.app_id)) for outcome in outcomes
    )


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
    """Wait while its holder does not start the attempt, and report the start."""
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


def _in_threads(
    live: Sequence[Outcome],
    begin: Callable[[Outcome], None],
    one: Callable[[Outcome], None],
    engines: Engines,
    on_log: OnLog | None,
    on_progress: OnProgress | None,
) -> Mapping[str, AppRecord]:
    """One waiting thread per app, which also copies the app's output if requested.

    Daemon threads: they do not keep the process alive after an interrupt of the main thread, nor where they
    wait for the start of stranded apps, which are returned.
    """
    import threading

    failures: list[BaseException] = []
    done = threading.Event()

    def guarded(work: Callable[..., None], *args: Any) -> None:
        try:
            work(*args)
        except BaseException as error:
            failures.append(error)

    def to_the_end(outcome: Outcome) -> None:
        """Copy the output first, so that the end of an app is reported after all of its output."""
        try:
            begin(outcome)
            if on_log is not None:
                _copy(on_log, outcome, engines)
        finally:
            one(outcome)

    def start(work: Callable[..., None], *args: Any) -> Thread:
        thread = threading.Thread(target=guarded, args=(work, *args), daemon=True)
        thread.start()
        return thread

    before = threading.stack_size(_STACK_BYTES)
    try:
        for outcome in live:
            _scheduler(outcome, engines)  # made here, so that the threads only look schedulers up
        waiting = {outcome.app_id: start(to_the_end, outcome) for outcome in live}
        progress = start(_report, on_progress, live, engines, done) if on_progress is not None else None
    finally:
        threading.stack_size(before)
    stranded = _join(waiting, _held(live), engines)
    done.set()
    if progress is not None:
        progress.join()
    if failures:
        raise failures[0]
    return stranded


def _join(
    waiting: Mapping[str, Thread], held: Sequence[AppRecord], engines: Engines
) -> Mapping[str, AppRecord]:
    """Join the threads (by app id) until those left wait for stranded apps, which are returned."""
    from launcher.apply.stranded import LOOK_S, Stranded

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


def _copy(on_log: OnLog, outcome: Outcome, engines: Engines) -> None:
    scheduler = _scheduler(outcome, engines)
    seen = scheduler.describe(outcome.app_id)
    roles = seen.roles_statuses if seen is not None else []
    replicas = [(replica.role, replica.id) for role in roles for replica in role.replicas]
    for role, k, data in scheduler.log_chunks(outcome.app_id, replicas, follow=True):
        on_log(outcome.key, role, k, data)


def _report(on_progress: OnProgress, live: Sequence[Outcome], engines: Engines, done: Event) -> None:
    """Poll the apps for a terminal display, as often as their schedulers allow, and once more at the end."""
    every_s = max(_scheduler(outcome, engines).describe_every_s for outcome in live)
    last = False
    while not last:
        last = done.wait(every_s)
        for outcome in live:
            try:
                seen = _scheduler(outcome, engines).describe(outcome.app_id)
            except SchedulerError:
                continue  # the thread that waits for the app reports it, where it does not pass
            if seen is not None:
                on_progress(outcome.key, seen)


def _scheduler(outcome: Outcome, engines: Engines) -> StagedScheduler[Any]:
    return engines.get(outcome.handle.partition("://")[0])
