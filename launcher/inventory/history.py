"""Read the attempts of jobs, from the ledger and from engines that know further ones."""

from __future__ import annotations

from launcher.errors import LauncherError
from launcher.inventory import recorded
from launcher.inventory.listing import newest
from launcher.inventory.recorded import scheduler_of
from launcher.schedulers.registry import open_store
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import JobKey, attempt_id
from launcher.state.records import AppRecord, as_seen


def attempts_of(app: AppRecord, limit: int | None = None) -> list[Attempt]:
    """The last `limit` attempts of the job of an app (all when None), the newest first.

    Raises LauncherError for an app of no job.
    """
    scheduler = scheduler_of(app)
    if app.job is None or not isinstance(scheduler, StagedScheduler):
        raise _no_job(app)
    key = JobKey(*app.key)
    with open_store(readonly=True) as store:
        found = {attempt.app_id: attempt for attempt in store.attempts(key, limit)}
    unknown: list[str] = []
    if scheduler.shared_engine:
        newest_ = [each.number for each in (*found.values(), *scheduler.attempts_of([key]))]
        numbers = range(max(newest_, default=0), 0, -1)[:limit]
        known = {each.number for each in found.values()}
        unknown = [attempt_id(key, number) for number in numbers if number not in known]
    going_on = [each.app_id for each in found.values() if each.is_live and each.scheduler == app.scheduler]
    for app_id in [*unknown, *going_on]:
        if (seen := scheduler.attempt(app_id)) is not None and seen.key == key:
            found[app_id] = seen
    return sorted(found.values(), key=lambda each: each.number, reverse=True)[:limit]


def attempt_of(app: AppRecord) -> Attempt:
    """The attempt of an app, from the ledger or its engine. Raises LauncherError for an app of no job."""
    attempt = recorded.attempt(app.app_id)
    if attempt is not None and attempt.handle == app.handle:
        return attempt
    seen = _of_engine(app)
    if seen is None or seen.handle != app.handle:
        raise _no_job(app)
    return seen


def newest_attempts(limit: int | None, project: str | None) -> list[Attempt]:
    """Return the newest attempts of all jobs in the ledger, or of a project's jobs, engines included."""
    apps = [app for app in newest(limit, project=project) if app.job is not None]
    with open_store(readonly=True) as store:
        recorded_ = store.by_app_ids(app.app_id for app in apps)
    found = []
    for app in apps:
        attempt = recorded_.get(app.app_id) or _of_engine(app)
        if attempt is not None:
            found.append(as_seen(attempt, app))
    return found


def _of_engine(app: AppRecord) -> Attempt | None:
    scheduler = scheduler_of(app)
    return scheduler.attempt(app.app_id) if isinstance(scheduler, StagedScheduler) else None


def _no_job(app: AppRecord) -> LauncherError:
    return LauncherError(
        f"{app.handle} has no attempts: no job file made it",
        hint="apply a job file: `launcher convert` prints that of a component",
    )
