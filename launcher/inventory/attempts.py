"""Read the attempts of jobs from the ledger, and from engines that know others; select among them.

Selecting by job, number and time reads no more than index entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from launcher.errors import LauncherError, UsageError
from launcher.inventory import recorded
from launcher.inventory.find import Selected, find_parts
from launcher.inventory.listing import current, newest
from launcher.inventory.recorded import scheduler_of
from launcher.schedulers.registry import open_reader, open_store
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.attempt import Attempt
from launcher.specs.jobkey import JobKey, attempt_id
from launcher.state.records import UNSTARTED, AppRecord, as_seen, of_attempt

_BATCH = 200
_NOT_BEGUN = (*UNSTARTED, "skipped")

Ranges = Collection[tuple[int, int]]
"""The first and the last number of each range of attempts."""


class Candidate(NamedTuple):
    """An app that may have the wanted output.

    Attributes:
        is_kept: whether its scheduler still has its logs and other files, not only its outcome.
        app: the record of an app that only an engine knows; None for an app that is recorded here.
        part: the selected role and replicas; None for all.
    """

    created_at: float
    app_id: str
    is_kept: bool
    app: AppRecord | None = None
    part: Selected | None = None


def select(
    words: Sequence[str],
    *,
    target: str = "",
    project: str | None = None,
    numbers: Ranges = (),
    since: float | None = None,
) -> list[Candidate]:
    """Return the apps that may have run since a moment, the newest first.

    Args:
        words: names as `find_all` takes them. A job means all of its attempts; `JOB@2`, an app id or a handle
            means one. Without a name, all apps are selected.
        target, project: only jobs of these; "" and None for any.
        numbers: only attempts with these numbers; all when empty.
        since: epoch seconds; None for all.

    Raises UsageError, and LauncherError for an unknown name.
    """
    if not words:
        with open_reader() as store:
            found = store.since(since, project=project, target=target or None, numbers=numbers)
        return [Candidate(at, app_id, bool(kept)) for at, app_id, kept in found]
    selected: dict[str, Candidate] = {}
    for named in find_parts(words, target):
        for part in named.selected:
            if project in (None, part.app.project):
                selected |= {each.app_id: each for each in _of_part(part, numbers, since)}
    return sorted(selected.values(), key=lambda each: each.created_at, reverse=True)


def _of_part(part: Selected, numbers: Ranges, since: float | None) -> list[Candidate]:
    app = part.app
    if app.job and not part.is_attempt:
        return attempts_of_job(part, numbers, since)
    if numbers:
        raise UsageError(f"--attempt goes with the name of a job, and `{app.app_id}` is one attempt")
    return [Candidate(app.created_at or 0.0, app.app_id, is_kept=True, app=app, part=part)]


def attempts_of_job(part: Selected, numbers: Ranges, since: float | None = None) -> list[Candidate]:
    """Return the attempts of the job of an app, the newest first; see `select`."""
    app = part.app
    is_shared = bool(scheduler_of(app).shared_engine)
    with open_reader() as store:
        wanted = store.since(since, key=app.key, numbers=numbers)
        known = {app_id for _, app_id, _ in store.since(None, key=app.key)} if is_shared else set()
    found = [Candidate(at, app_id, bool(kept), None, part) for at, app_id, kept in wanted]
    if is_shared:  # the engine may know attempts of other state folders
        others: list[AppRecord] = []
        with suppress(LauncherError):  # the engine is unreachable; reading the recorded apps reports that
            others = [of_attempt(each) for each in attempts_of(app) if each.app_id not in known]
        found += [
            Candidate(each.created_at or 0.0, each.app_id, is_kept=True, app=each, part=part)
            for each in others
            if _is_wanted(each, numbers, since)
        ]
        found.sort(key=lambda each: each.created_at, reverse=True)
    return found


def present(
    candidates: Iterable[Candidate], on_removed: Callable[[str], None] | None = None
) -> Iterator[Selected]:
    """Yield the candidates that have begun to run, in their present state; reads a few at a time.

    Args:
        on_removed: called with the id of each app that has only its outcome left; such an app is not yielded.
    """
    left = iter(candidates)
    while batch := list(islice(left, _BATCH)):
        wanted = [each.app_id for each in batch if each.app is None and (each.is_kept or on_removed is None)]
        known = recorded.apps(wanted)
        known |= {app.app_id: app for app in current([app for app in known.values() if app.is_live])}
        for each in batch:
            app = each.app or known.get(each.app_id)
            if app is None and on_removed is not None:
                on_removed(each.app_id)
            elif app is not None and app.state not in _NOT_BEGUN:
                yield Selected(app, each.part.role, each.part.replicas) if each.part else Selected(app)


def _is_wanted(app: AppRecord, numbers: Ranges, since: float | None) -> bool:
    is_late = since is None or app.ended_at is None or app.ended_at >= since
    number = app.number or 0
    is_named = not numbers or any(first <= number <= last for first, last in numbers)
    return is_late and is_named and app.state != "skipped"


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
    seen = _seen(app)
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
        attempt = recorded_.get(app.app_id) or _seen(app)
        if attempt is not None:
            found.append(as_seen(attempt, app))
    return found


def _seen(app: AppRecord) -> Attempt | None:
    scheduler = scheduler_of(app)
    return scheduler.attempt(app.app_id) if isinstance(scheduler, StagedScheduler) else None


def _no_job(app: AppRecord) -> LauncherError:
    return LauncherError(
        f"{app.handle} has no attempts: no job file made it",
        hint="apply a job file: `launcher convert` prints that of a component",
    )
