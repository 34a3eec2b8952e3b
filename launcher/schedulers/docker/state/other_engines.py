"""Apps with a record here that run at another engine, since DOCKER_HOST or the docker context was changed.

This engine does not know them, so their state is the last recorded one: they are never lost, and cannot be
stopped through this engine.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from launcher.errors import SchedulerError
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.labels import read_labels
from launcher.schedulers.docker.records import record
from launcher.specs.attempt import Attempt, AttemptState
from launcher.specs.launch import JobKey


def attempt(engine: EngineView, app_id: str) -> Attempt | None:
    """The attempt by its record; None for an app without a job, of this engine, or without an outcome."""
    app_dir = record.folder(app_id)
    recorded = record.read_attempt(app_dir)
    if recorded is None or recorded.get("engine") in (None, engine.engine_id()):
        return None
    labels = read_labels(recorded.get("labels") or {})
    found = labels.attempt if labels is not None else None
    if found is None:
        return None
    journal = record.journal(app_dir)
    outcome = journal.outcome if journal is not None else None
    if journal is not None and journal.end_recorded and outcome is None:
        return None  # it has ended, and only the ledger has the outcome
    if outcome is not None:
        return replace(
            found, state=outcome.state, message=outcome.message, exit_code=outcome.code, ended_at=outcome.at
        )
    going_at = journal.going_at if journal is not None else None
    state: AttemptState = "created" if going_at is None else "running"
    host = str(recorded.get("host"))
    return replace(found, state=state, started_at=going_at, message=f"at the engine {host}", elsewhere=host)


def observe(engine: EngineView, keys: Collection[JobKey], settled: Collection[str]) -> list[Attempt]:
    """The live attempts of these jobs at other engines."""
    wanted, known = set(keys), set(settled)
    found = (attempt(engine, app_id) for app_id in record.app_ids() if app_id not in known)
    return [each for each in found if each is not None and each.key in wanted and each.is_live]


def refuse(engine: EngineView, app_id: str) -> None:
    """Raises SchedulerError, with the engine's address, for a live app of another engine."""
    found = attempt(engine, app_id)
    if found is not None and found.is_live:
        host = (record.read_attempt(record.folder(app_id)) or {}).get("host")
        raise SchedulerError(
            f"{app_id} is at the engine {host}, and this is {engine.host}",
            hint=f"DOCKER_HOST={host} says which engine to ask",
        )
