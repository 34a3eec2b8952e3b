"""Observe the apps of the state folder, and record the ends of those that have ended."""

from __future__ import annotations

import os

from launcher.errors import StateError
from launcher.holding.state import ENDED_STATES
from launcher.schedulers.appstore import open_store
from launcher.schedulers.local import rebuild, rundir
from launcher.schedulers.local.apprecord import LocalApp, app_record
from launcher.schedulers.local.rebuild import SCHEDULERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from launcher.schedulers.local.appview import AppView
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey
    from launcher.state.records import AppRecord
    from launcher.state.store import Store


def observe(state_dir: str, keys: Collection[JobKey], settled: Collection[str] = ()) -> list[Attempt]:
    """Every live attempt of a job and the latest one of each of `keys`, without those in `settled`.

    Finds an attempt of `keys` without a row by the name of its folder. Writes nothing.
    """
    known = set(settled)
    with open_store(readonly=True) as store:
        live = [app for app in store.to_tidy(SCHEDULERS) if app.job is not None]
        of_jobs = store.of_jobs(keys, SCHEDULERS)
    of_jobs = [*_without_rows(state_dir, keys, of_jobs, known), *of_jobs]
    found: dict[str, Attempt] = {}
    for row in live:
        attempt = None if row.app_id in known else _attempt(state_dir, row)
        if attempt is not None:
            found[row.app_id] = attempt
    for app_id, attempt in _latest(state_dir, of_jobs, known, found).items():
        found[app_id] = attempt
    return list(found.values())


def _without_rows(
    state_dir: str, keys: Collection[JobKey], rows: list[AppRecord], settled: Collection[str]
) -> list[AppRecord]:
    """Rows for the attempts that follow the latest known one of each job and have a folder, highest first.

    App ids are deterministic: this checks one path per job, however many apps there are.
    """
    from launcher.specs.jobkey import attempt_id

    known: dict[tuple[str, str], int] = {}  # (job, hash of project and target) → the highest number
    for app_id in (*settled, *(row.app_id for row in rows)):
        job, text, scope = ("", "", *app_id.rsplit("-", 2))[-3:]
        if text.isdecimal():
            known[job, scope] = max(int(text), known.get((job, scope), 0))
    out: list[AppRecord] = []
    for key in keys:
        number = known.get((key.job, attempt_id(key, 0).rpartition("-")[2]), 0) + 1
        while os.path.isdir(rundir.app_dir(state_dir, app_id := attempt_id(key, number))):
            out += [app for app, _ in rebuild.records(state_dir, [app_id])]
            number += 1
    return [row for row in reversed(out) if row.job is not None]


def _latest(
    state_dir: str, rows: list[AppRecord], settled: Collection[str], found: dict[str, Attempt]
) -> dict[str, Attempt]:
    """Each job's existing attempt with the highest number; `rows` are sorted with the highest first."""
    out: dict[str, Attempt] = {}
    done = set()
    for row in rows:
        key = row.key
        if key in done:
            continue
        if row.app_id in settled:
            done.add(key)
            continue
        attempt = found.get(row.app_id) or _attempt(state_dir, row)
        if attempt is not None:  # a row without a folder is void: an older attempt is the latest
            done.add(key)
            out[row.app_id] = attempt
    return out


def _attempt(state_dir: str, row: AppRecord) -> Attempt | None:
    app_dir = rundir.app_dir(state_dir, row.app_id)
    view = rundir.read_state(app_dir)
    return None if view is None else LocalApp(app_dir, view).attempt() or _blank_attempt(row, view)


def _blank_attempt(row: AppRecord, view: AppView) -> Attempt:
    """An attempt whose folder was made before its record was written: it has no document."""
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey

    return Attempt(
        key=JobKey(*row.key),
        number=row.number or 0,
        app_id=row.app_id,
        scheduler=row.scheduler,
        digest="",
        document={},
        created_at=row.created_at or 0.0,
        state=view.state,
        owner=view.owner,
    )


def present(state_dir: str, scheduler: str, limit: int | None = None) -> list[AppRecord]:
    """The newest apps of a scheduler; those without a recorded end are read from their folders."""
    with open_store(readonly=True) as store:
        apps = store.apps(scheduler, limit)
    out = []
    for app in apps:
        if app.is_live:
            view = rundir.read_state(rundir.app_dir(state_dir, app.app_id))
            if view is None:
                continue
            app.state, app.message, app.exit_code = view.state, view.message, view.code
            app.started_at, app.ended_at = view.started_at, view.ended_at
        out.append(app)
    return out


def reap(state_dir: str) -> list[Attempt]:
    """Record the ends of apps, and remove what dead owners left: processes, folders, void rows.

    Returns the attempts of jobs whose end was recorded by this call.
    """
    apps_dir = rundir.apps_dir(state_dir)
    if not os.path.isdir(apps_dir):
        return []
    rundir.sweep(apps_dir)
    with open_store(readonly=True) as store:
        complete = store.count(SCHEDULERS) >= len(rebuild.folders(state_dir))
        live = store.to_tidy(SCHEDULERS)
    if not complete:
        with open_store(durable=False) as store:
            add_missing(store, state_dir)
            live = store.to_tidy(SCHEDULERS)
    return [attempt for app in live if (attempt := _record_or_remove(state_dir, app)) is not None]


def add_missing(store: Store, state_dir: str) -> None:
    """Add rows for folders without one: rows are lost when the database is deleted."""
    known = set(store.app_ids(SCHEDULERS))
    missing = [app_id for app_id in rebuild.folders(state_dir) if app_id not in known]
    store.add_all(rebuild.records(state_dir, missing))


def _record_or_remove(state_dir: str, app: AppRecord) -> Attempt | None:
    app_dir = rundir.app_dir(state_dir, app.app_id)
    view = rundir.read_state(app_dir)
    if view is None:
        with open_store(durable=False) as store:
            store.remove_void(app.app_id, app_dir)
        return None
    if view.state in ENDED_STATES:
        first = record_end(state_dir, app.app_id, view, durable=app.job is not None)
        return _attempt(state_dir, app) if first and app.job is not None else None
    if view.state in ("reserved", "created") and not view.lock_held and app.job is None:
        # The next apply resumes or removes an attempt of a job; an app without a job is removed here.
        from launcher.schedulers.local.claim import discard_ownerless

        discard_ownerless(state_dir, app_dir)
    return None


def record_end(state_dir: str, app_id: str, view: AppView, *, durable: bool = False) -> bool:
    """Record the end of an app, after killing the processes that a dead supervisor left.

    True the first time. Without effect where the state folder cannot be written.
    """
    with open_store(readonly=True) as store:
        if store.is_tidied(app_id):
            return False
    if view.abandoned:
        from launcher.schedulers.local import process

        process.kill_leftovers(rundir.app_dir(state_dir, app_id), view)
    try:
        with open_store(durable=durable) as store:
            return store.end_and_tidy(app_record("", "", app_id, view))
    except StateError:
        return False
