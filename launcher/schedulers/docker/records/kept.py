"""Docker apps by the records that this state folder has of them. The engine is not asked."""

from __future__ import annotations

from launcher.schedulers.docker.records import record
from launcher.state.records import AppRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

_SCHEDULER = "local_docker"


def read(app_id: str) -> AppRecord | None:
    """The app as last recorded: how it ended, or running, or reserved until it was started.

    None where there is no record of it.
    """
    if not app_id or app_id.startswith(".") or "/" in app_id or "\0" in app_id:
        return None
    app_dir = record.folder(app_id)
    labels = (record.read_attempt(app_dir) or {}).get("labels")
    if not isinstance(labels, dict):
        return None
    found = AppRecord(
        _SCHEDULER,
        str(labels.get("launcher.session", "")),
        app_id,
        name=str(labels.get("launcher.name", "")),
        state="reserved",
        created_at=_seconds(labels.get("launcher.created-at")),
    )
    journal = record.journal(app_dir)
    if journal is not None and journal.going_at is not None:
        found.state, found.started_at = "running", journal.going_at
    if journal is not None and journal.outcome is not None:
        outcome = journal.outcome
        found.state, found.message, found.exit_code = outcome.state, outcome.message, outcome.code
        found.ended_at = outcome.at
    return found


def is_tended(app_id: str) -> bool:
    """Whether a process here, its watcher or the client that submits it, keeps the record up to date."""
    return record.is_locked(record.folder(app_id))


def read_all(without: Collection[str] = ()) -> list[AppRecord]:
    """Every app that has a record here, but for those in `without`, which are not read."""
    found = (read(app_id) for app_id in record.app_ids() if app_id not in without)
    return [each for each in found if each is not None]


def _seconds(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return 0.0
