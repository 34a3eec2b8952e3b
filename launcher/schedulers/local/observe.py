"""What the state folder says of its apps, and settling those that have ended."""

from __future__ import annotations

import os

from launcher.errors import StateError
from launcher.schedulers.local import rebuild, rundir
from launcher.schedulers.local.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from launcher.schedulers.local.appview import AppView
    from launcher.schedulers.local.index import Row
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey

ENDED = frozenset({"succeeded", "failed", "cancelled", "lost"})


def observe(state_dir: str, keys: Collection[JobKey], settled: Collection[str] = ()) -> list[Attempt]:
    """Every live attempt of a job and the latest one of each of `keys`, without those in `settled`.

    An attempt of `keys` whose row was lost is found by the name of its folder. Writes nothing.
    """
    known = set(settled)
    with Index.open(state_dir, readonly=True) as index:
        live = [row for row in index.live() if row.job is not None]
        of_jobs = index.of_jobs(keys)
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
    state_dir: str, keys: Collection[JobKey], rows: list[Row], settled: Collection[str]
) -> list[Row]:
    """Rows for the attempts that follow the latest known one of each job and have a folder, highest first.

    App ids are deterministic: this looks at one path for each job, however many apps there are.
    """
    from launcher.schedulers.local import rebuild
    from launcher.schedulers.local.index import Row
    from launcher.specs.jobkey import attempt_id

    known: dict[tuple[str, str], int] = {}  # (job, hash of project and target) → the highest number
    for app_id in (*settled, *(row.app_id for row in rows)):
        job, text, scope = ("", "", *app_id.rsplit("-", 2))[-3:]
        if text.isdecimal():
            known[job, scope] = max(int(text), known.get((job, scope), 0))
    out: list[Row] = []
    for key in keys:
        number = known.get((key.job, attempt_id(key, 0).rpartition("-")[2]), 0) + 1
        while os.path.isdir(rundir.app_dir(state_dir, app_id := attempt_id(key, number))):
            out += [Row(*values) for values in rebuild.rows(state_dir, [app_id])]
            number += 1
    return [row for row in reversed(out) if row.job is not None]


def _latest(
    state_dir: str, rows: list[Row], settled: Collection[str], found: dict[str, Attempt]
) -> dict[str, Attempt]:
    """Of each job the attempt with the highest number that is there; `rows` come with the highest first."""
    out: dict[str, Attempt] = {}
    done = set()
    for row in rows:
        key = (row.project, row.target, row.job)
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


def _attempt(state_dir: str, row: Row) -> Attempt | None:
    from launcher.schedulers.local import attemptfile

    app_dir = rundir.app_dir(state_dir, row.app_id)
    view = rundir.read_state(app_dir)
    if view is None:
        return None
    record = attemptfile.read(app_dir)
    return attemptfile.attempt_of(record, view) if record else _blank_attempt(row, view)


def _blank_attempt(row: Row, view: AppView) -> Attempt:
    """An attempt whose folder was made and whose record was not written: it has no document."""
    from launcher.specs.attempt import Attempt
    from launcher.specs.launch import JobKey

    return Attempt(
        key=JobKey(row.project or "", row.target or "", row.job or ""),
        number=row.number or 0,
        app_id=row.app_id,
        scheduler=row.scheduler,
        digest="",
        document={},
        created_at=row.created_at,
        state=view.state,
        owner=view.owner,
    )


def present_rows(state_dir: str, limit: int | None = None, scheduler: str | None = None) -> list[Row]:
    """The newest apps; what the index does not know to have ended is looked up in its folder."""
    with Index.open(state_dir, readonly=True) as index:
        rows = index.newest(limit, scheduler=scheduler)
    out = []
    for row in rows:
        if row.live:
            view = rundir.read_state(rundir.app_dir(state_dir, row.app_id))
            if view is None:
                continue
            row.state, row.ended_at, row.message, row.exit_code = (
                view.state,
                view.ended_at,
                view.message,
                view.exit_code,
            )
        out.append(row)
    return out


def reap(state_dir: str) -> list[Attempt]:
    """Write into the index how apps ended, and remove what the dead left: processes, folders, void rows.

    Returns the attempts of jobs whose end was not in the index before.
    """
    apps_dir = rundir.apps_dir(state_dir)
    if not os.path.isdir(apps_dir):
        return []
    rundir.sweep(apps_dir)
    with Index.open(state_dir, readonly=True) as index:
        complete = index.count() >= len(rebuild.folders(state_dir))
        live = index.live()
    if not complete:
        with Index.open(state_dir) as index:
            index.add_missing()
            live = index.live()
    return [attempt for row in live if (attempt := _settle(state_dir, row)) is not None]


def _settle(state_dir: str, row: Row) -> Attempt | None:
    app_dir = rundir.app_dir(state_dir, row.app_id)
    view = rundir.read_state(app_dir)
    if view is None:
        with Index.open(state_dir) as index:
            index.remove_void(row.app_id, app_dir)
        return None
    if view.state in ENDED:
        first = bury(state_dir, row.app_id, view)
        return _attempt(state_dir, row) if first and row.job is not None else None
    if view.state in ("reserved", "created") and not view.lock_held and row.job is None:
        # An attempt of a job is resumed or removed by the next apply; nobody comes back for this one.
        from launcher.schedulers.local.claim import discard_ownerless

        discard_ownerless(state_dir, app_dir)
    return None


def bury(state_dir: str, app_id: str, view: AppView) -> bool:
    """Note in the index how an app ended; what a dead supervisor left of it is killed first.

    True when it was not noted before. A state folder that cannot be written keeps nobody from reading.
    """
    with Index.open(state_dir, readonly=True) as index:
        row = index.find(app_id)
    if row is not None and not row.live:
        return False
    if view.abandoned:
        from launcher.schedulers.local import process

        process.kill_leftovers(rundir.app_dir(state_dir, app_id), view)
    try:
        with Index.open(state_dir) as index:
            return index.settle(app_id, view.state, view.ended_at, view.message, view.exit_code)
    except StateError:
        return False
