"""Rebuild the records of local apps from their folders, for a store that lost its rows."""

from __future__ import annotations

import os

from launcher import paths
from launcher.errors import StateError
from launcher.schedulers.local import attemptfile, rundir
from launcher.schedulers.record import row_of
from launcher.state.records import AppRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from launcher.schedulers.local.appview import AppView

SCHEDULERS = ("local_cwd", "local_dir")
_OVER = frozenset({"succeeded", "failed", "cancelled", "skipped"})
_SESSION = "launcher"  # of an app whose folder does not name a session


def apps(version: int = 0) -> Iterator[tuple[AppRecord, bool]]:
    """Every app that has a folder, as `appstore.every_app` yields them.

    Apps of release 0.1 are read from its own database, which is much faster.
    """
    known = set()
    for record, live in _of_first_release() if version else ():
        known.add(record.app_id)
        yield record, live
    state_dir = paths.local()
    yield from records(state_dir, [app_id for app_id in folders(state_dir) if app_id not in known])


def records(state_dir: str, app_ids: list[str]) -> Iterator[tuple[AppRecord, bool]]:
    """The records of the apps that have a folder, each with whether its end is still to be recorded.

    An app without `attempt.json` yet gives a record without a job.
    """
    for app_id in app_ids:
        found = _record(state_dir, app_id)
        if found is not None:
            yield found


def folders(state_dir: str) -> list[str]:
    """The ids of the apps that have a folder."""
    try:
        names = os.listdir(rundir.apps_dir(state_dir))
    except OSError:
        return []
    return [name for name in names if not name.startswith(".")]


def _record(state_dir: str, app_id: str) -> tuple[AppRecord, bool] | None:
    app_dir = rundir.app_dir(state_dir, app_id)
    recorded = attemptfile.read(app_dir) or {}
    try:
        view = rundir.read_state(app_dir)
        made_at = os.stat(app_dir).st_mtime
    except (StateError, OSError):  # written by a newer version, or removed since it was listed
        return None
    if view is None:
        return None
    over = view.state in _OVER and not view.abandoned  # else processes of the app may be running
    scheduler, _, rest = view.handle.partition("://")
    scheduler = recorded.get("scheduler") or scheduler or SCHEDULERS[0]
    made = row_of(scheduler, app_id, recorded, rest.partition("/")[0] or _SESSION)
    made.name = made.name or app_id
    made.created_at = made.created_at or view.created_at or made_at
    made.state, made.started_at = _state(view, over=over), view.started_at
    if over:
        made.ended_at, made.message, made.exit_code = view.ended_at, view.message, view.code
    return made, not over


def _state(view: AppView, *, over: bool) -> str:
    if over or view.state in rundir.WAITING:
        return view.state
    return "running" if view.started_at else "reserved"


def _of_first_release() -> list[tuple[AppRecord, bool]]:
    """The apps in release 0.1's `index.db`, which is not changed; nothing when it is missing or damaged."""
    from launcher import database

    path = os.path.join(paths.local(), "index.db")
    if not os.path.exists(path):
        return []
    sql = (
        "SELECT scheduler, session, app_id, name, project, target, job, number, created_at,"
        " live, state, ended_at, message, exit_code FROM apps"
    )
    try:
        connection = database.connect(path, "", 1, readonly=True)
        try:
            return [_of_row(*row) for row in connection.execute(sql)]
        finally:
            connection.close()
    except (StateError, *database.DATABASE_ERRORS):
        return []


def _of_row(
    scheduler: str,
    session: str,
    app_id: str,
    name: str,
    project: str | None,
    target: str | None,
    job: str | None,
    number: int | None,
    created_at: float,
    live: int,
    state: str | None,
    ended_at: float | None,
    message: str | None,
    exit_code: int | None,
) -> tuple[AppRecord, bool]:
    made = AppRecord(
        scheduler,
        session,
        app_id,
        name=name,
        key=(project or "", target or "", job) if job else None,
        number=number,
        state=state or "reserved",
        created_at=created_at,
        ended_at=ended_at,
        message=message or "",
        exit_code=exit_code,
    )
    return made, bool(live)
