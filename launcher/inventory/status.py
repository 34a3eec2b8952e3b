"""Read the status of an app with its details, wait for its end, or stop it. Records new outcomes."""

from __future__ import annotations

import time

from launcher.errors import LauncherError
from launcher.inventory import recorded
from launcher.inventory.listing import EndRecorder, current, record_ends, say_why_held
from launcher.inventory.recorded import scheduler_of
from launcher.state.records import WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from launcher.inventory.listing import Warn
    from launcher.schedulers.api import OnWait
    from launcher.state.records import AppRecord


def inspect(app: AppRecord) -> AppRecord:
    """Return the app in its present state, with its replicas; without them if only the record knows it.

    Raises UnknownAppException if neither its scheduler nor the record knows it.
    """
    seen = scheduler_of(app).record(app.app_id)
    if seen is not None and seen.handle != app.handle:
        seen = None  # the id belongs to an app of another session
    found: AppRecord | None = app
    if app.is_live and (seen is None or not seen.is_live):
        found = recorded.app(app.app_id, app.handle)
        if found is None or found.is_live:
            record_ends((app.scheduler,))
            found = recorded.app(app.app_id, app.handle)
    if seen is not None:
        found = found or app
        found.update(seen)
        _mark_lost(found)
        say_why_held([found])
    elif found is None or found.state == "unknown":
        from launcher.specs.jobkey import UnknownAppException

        raise UnknownAppException(app.handle)
    else:  # only the store knows the app
        _look_for_logs(found)
    return found


def _look_for_logs(app: AppRecord) -> None:
    """Note whether the logs of an app that its scheduler lacks were removed, or are on another machine."""
    if not app.has_ended or app.started_at is None:
        return
    try:
        scheduler_of(app).check_logs(app.app_id)
        app.logs_removed = True
    except LauncherError as error:
        app.warnings = (str(error),)


def inspect_all(apps: Sequence[AppRecord], warn: Warn) -> Iterator[AppRecord]:
    """`inspect` of several apps, whose ends are recorded together.

    An app whose scheduler cannot be asked is returned as recorded, with a warning to `warn`.
    """
    seen_now = current(apps, warn=warn)
    say_why_held(seen_now)
    found = _details(seen_now)
    for app in seen_now:
        seen = found.get(app.handle)
        if isinstance(seen, LauncherError):
            warn(f"{app.handle} is shown in its last known state: {seen}")
        elif seen is not None and seen.handle == app.handle:
            reason = app.message
            app.update(seen)
            app.message = reason if app.is_held else app.message
            _mark_lost(app)
        yield app


def _details(apps: Sequence[AppRecord]) -> dict[str, AppRecord | LauncherError | None]:
    """Return handle → the app with its replicas, as its scheduler reads it, or the error if it cannot."""
    groups: dict[tuple[str, str], list[AppRecord]] = {}
    for app in apps:
        groups.setdefault((app.scheduler, app.session), []).append(app)
    found: dict[str, AppRecord | LauncherError | None] = {}
    for group in groups.values():
        handles = {app.app_id: app.handle for app in group}
        try:
            found |= {handles[app_id]: seen for app_id, seen in scheduler_of(group[0]).details(handles)}
        except LauncherError as error:
            found |= dict.fromkeys(handles.values(), error)
    return found


def wait_for(app: AppRecord, timeout_s: float | None, recorder: EndRecorder | None = None) -> AppRecord:
    """Wait until the app has ended or the timeout has passed; return its state then.

    Args:
        recorder: records the end; by default one for this app.

    Raises UnknownAppException.
    """
    scheduler = scheduler_of(app)
    if not app.has_ended:  # opened now, so that no time is lost between the end and the return
        recorder = recorder or EndRecorder()
    seen = scheduler.wait_record(app.app_id, timeout_s)
    if seen is None:
        return inspect(app)
    if seen.has_ended and recorder is not None:
        recorder.record(seen)
    app.update(seen)
    return app


_LOOK_S = 1.0


def wait_for_all(
    apps: Sequence[AppRecord], timeout_s: float | None
) -> Iterator[tuple[AppRecord, LauncherError | None]]:
    """Wait for several apps; yield each once it has ended and, after the timeout, the remaining ones.

    All are inspected together, at first and after each long wait. Each app comes with the error if it cannot
    be waited for, else None.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    recorder = EndRecorder()
    left = list(apps)
    while left:
        seen = current(left)
        yield from ((app, None) for app in seen if app.has_ended)
        left = [app for app in seen if not app.has_ended]
        looked_at = time.monotonic()
        while left and time.monotonic() < looked_at + _LOOK_S:
            looked_at = time.monotonic()
            remaining = None if deadline is None else deadline - looked_at
            if remaining is not None and remaining <= 0:
                say_why_held(left)
                yield from ((app, None) for app in left)
                return
            try:
                app, error = wait_for(left[0], remaining, recorder), None
            except LauncherError as found:
                app, error = left[0], found
            if error is not None or not app.is_live:
                left.pop(0)
                yield app, error


def stop(
    apps: Sequence[AppRecord], grace_s: float | None, on_wait: OnWait
) -> Iterator[tuple[AppRecord, LauncherError | None]]:
    """Stop apps: ask all of them to end, then wait for each; yield each once it has ended.

    Apps that wait are asked first, and the newest before the others, so that no app starts because an app
    before it in line has ended.

    Args:
        grace_s, on_wait: see `Scheduler.cancel` and `Scheduler.on_wait`.

    Yields with an app the error if it cannot be stopped.
    """
    from launcher.schedulers.many import as_they_come

    known = {app.app_id: app for app in apps}
    of_each: dict[str, list[AppRecord]] = {}
    for app in sorted(apps, key=lambda each: (each.state in WAITING, each.created_at or 0.0), reverse=True):
        of_each.setdefault(app.scheduler, []).append(app)
    asked: list[Iterable[tuple[str, LauncherError | None]]] = []
    for each in of_each.values():
        ids = [app.app_id for app in each]
        try:
            scheduler = scheduler_of(each[0])
        except LauncherError as error:
            asked.append([(app_id, error) for app_id in ids])
        else:
            scheduler.on_wait = on_wait
            asked.append(scheduler.cancel_all(ids, grace_s))
    return ((known[app_id], error) for app_id, error in as_they_come(asked))


def _mark_lost(app: AppRecord) -> None:
    """Mark replicas of a lost app as lost if their exit code is unknown."""
    for replica in app.replicas:
        if app.state == "lost" and replica.state == "failed" and replica.exit_code is None:
            replica.state = "lost"


def about(app: AppRecord) -> Mapping[str, Any]:
    """Return the origin and the document of an app, see `Attempt.about`; empty if unknown."""
    attempt = recorded.attempt(app.app_id)
    if attempt is not None and attempt.handle == app.handle:
        return attempt.about()
    return scheduler_of(app).about(app.app_id)
