"""Docker apps by the records that are kept here of them. The engine is not asked."""

from __future__ import annotations

from launcher.schedulers.docker.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from launcher.schedulers.docker.records.journal import Journal


class Kept:
    """What a record says. `state` is the last that is known: reserved, running, or how it ended."""

    __slots__ = (
        "app_id",
        "created_at",
        "ended_at",
        "exit_code",
        "message",
        "name",
        "session",
        "started_at",
        "state",
    )

    def __init__(self, app_id: str, labels: Mapping[str, Any], journal: Journal | None) -> None:
        self.app_id = app_id
        self.session = str(labels.get("launcher.session", ""))
        self.name = str(labels.get("launcher.name", ""))
        self.created_at = _seconds(labels.get("launcher.created-at"))
        self.started_at = journal.going_at if journal is not None else None
        self.state = "reserved" if self.started_at is None else "running"
        self.ended_at: float | None = None
        self.message = ""
        self.exit_code: int | None = None
        if journal is not None and journal.outcome is not None:
            outcome = journal.outcome
            self.state, self.message, self.exit_code = outcome.state, outcome.message, outcome.code
            self.ended_at = outcome.at

    @property
    def is_tended(self) -> bool:
        """Whether somebody here, its watcher or whoever submits it, keeps the record up to date."""
        return record.is_locked(record.folder(self.app_id))


def kept(app_id: str) -> Kept | None:
    """None where there is no record of it."""
    if not app_id or app_id.startswith(".") or "/" in app_id or "\0" in app_id:
        return None
    app_dir = record.folder(app_id)
    told = record.read_attempt(app_dir)
    labels = told.get("labels") if told is not None else None
    return Kept(app_id, labels, record.journal(app_dir)) if isinstance(labels, dict) else None


def all_kept(without: Collection[str] = ()) -> list[Kept]:
    """Every app that has a record here, but for those in `without`, which are not read."""
    found = (kept(app_id) for app_id in record.app_ids() if app_id not in without)
    return [each for each in found if each is not None]


def _seconds(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return 0.0
