"""Rows of the index, made again from the folders of apps."""

from __future__ import annotations

import os

from launcher.errors import StateError
from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from launcher.schedulers.local.appview import AppView
    from launcher.schedulers.local.attemptfile import Record

_OVER = frozenset({"succeeded", "failed", "cancelled"})
_SESSION = "launcher"  # of an app whose folder does not name one


def rows(state_dir: str, app_ids: list[str] | None = None) -> Iterator[tuple[Any, ...]]:
    """The values of `index.COLUMNS` for every app folder, or for those of `app_ids` that exist.

    An app whose owner has not written `attempt.json` yet gives a row without a job.
    """
    for app_id in folders(state_dir) if app_ids is None else app_ids:
        found = _row(state_dir, app_id)
        if found is not None:
            yield found


def folders(state_dir: str) -> list[str]:
    """The ids of the apps that have a folder."""
    try:
        names = os.listdir(rundir.apps_dir(state_dir))
    except OSError:
        return []
    return [name for name in names if not name.startswith(".")]


def _row(state_dir: str, app_id: str) -> tuple[Any, ...] | None:
    from launcher.schedulers.local import attemptfile

    app_dir = rundir.app_dir(state_dir, app_id)
    record = attemptfile.read(app_dir) or {}
    try:
        view = rundir.read_state(app_dir)
        made_at = os.stat(app_dir).st_mtime
    except (StateError, OSError):  # written by a newer version, or removed since it was listed
        return None
    if view is None:
        return None
    key = record.get("key")
    over = view.state in _OVER and not view.abandoned  # then its row stays live until its processes are gone
    return (
        app_id,
        record.get("scheduler") or view.handle.partition("://")[0] or "local_cwd",
        _session(record, view),
        key[2] if key else record.get("name", app_id),
        *(key or (None, None, None)),
        record.get("number"),
        record.get("created_at") or view.created_at or made_at,
        int(not over),
        *((view.state, view.ended_at, view.message, view.exit_code) if over else (None, None, None, None)),
    )


def _session(record: Record, view: AppView) -> str:
    if record.get("key"):
        from launcher.specs.jobkey import JobKey

        return JobKey(*record["key"]).session
    return view.handle.partition("://")[2].partition("/")[0] or _SESSION
