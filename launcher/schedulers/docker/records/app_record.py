"""The `AppRecord` of a Docker app, read from its record in this state folder. The engine is not asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.schedulers.docker.records import record
from launcher.state.records import AppRecord

_SCHEDULER = "local_docker"


def of_labels(app_id: str, labels: Mapping[str, Any]) -> AppRecord:
    """The app as it was reserved, from the labels of its containers."""
    key = tuple(str(labels.get(f"launcher.{name}", "")) for name in ("project", "target", "job"))
    number = str(labels.get("launcher.attempt", ""))
    return AppRecord(
        _SCHEDULER,
        str(labels.get("launcher.session", "")),
        app_id,
        name=str(labels.get("launcher.name", "")),
        key=(key[0], key[1], key[2]) if key[2] else None,
        number=int(number) if key[2] and number.isdecimal() else None,
        state="reserved",
        created_at=_seconds(labels.get("launcher.created-at")),
    )


def read(app_id: str) -> AppRecord | None:
    """The app as last recorded: reserved until it was started, running, or with its outcome.

    None where there is no record of it.
    """
    if not app_id or app_id.startswith(".") or "/" in app_id or "\0" in app_id:
        return None
    app_dir = record.folder(app_id)
    labels = (record.read_attempt(app_dir) or {}).get("labels")
    if not isinstance(labels, dict):
        return None
    found = of_labels(app_id, labels)
    journal = record.journal(app_dir)
    if journal is not None and journal.going_at is not None:
        found.state, found.started_at = "running", journal.going_at
    if journal is not None and journal.outcome is not None:
        outcome = journal.outcome
        found.state, found.message, found.exit_code = outcome.state, outcome.message, outcome.code
        found.ended_at = outcome.at
    return found


def is_locked(app_id: str) -> bool:
    """Whether a process here, the watcher or the submitting client, keeps the record up to date."""
    return record.is_locked(record.folder(app_id))


def _seconds(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return 0.0
