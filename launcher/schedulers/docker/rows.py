"""Docker apps as their records in this state folder show them, and their rows in the store.

Clients write rows; a watcher writes only the record. When DOCKER_HOST or the docker context was changed, apps
at the other engine are known only from their records here: they never count as lost, and cannot be stopped
through this engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from launcher.dataclass import replace
from launcher.errors import SchedulerError, StateError
from launcher.schedulers.appfolder import is_id
from launcher.schedulers.docker import record
from launcher.schedulers.docker.labels import APP_ID, SCHEDULER, Labels, read_labels
from launcher.schedulers.record import SeenApp, row_of
from launcher.schedulers.registry import open_store
from launcher.state.records import AppRecord, as_seen, of_attempt

if TYPE_CHECKING:
    from collections.abc import Collection

    from launcher.schedulers.docker.client.view import EngineView
    from launcher.specs.attempt import Attempt
    from launcher.specs.jobkey import JobKey


def apps() -> Iterator[tuple[AppRecord, bool]]:
    """Every app that has a record here, as `registry.every_app` yields them."""
    yield from _records(record.app_ids())


def add(labels: Mapping[str, str]) -> None:
    """Add the row of an app. Its record must exist: a row without one is void. Raises StateError."""
    with open_store(durable=False) as store:
        store.add(of_labels(labels[APP_ID], Labels(labels)))


def remove(app_id: str) -> None:
    """Remove the row of an app, unless it has a record (again)."""
    # A row that stays is void, and the next call of `match_records` removes it.
    with suppress(StateError), open_store(durable=False) as store:
        store.remove_void(app_id, record.folder(app_id))


def end(app: AppRecord, *, durable: bool) -> None:
    """Write the end of an app into its row. Where the store cannot be written, the record has the end."""
    with suppress(StateError), open_store(durable=durable) as store:
        store.end_and_tidy(app)


def match_records() -> None:
    """Add missing rows for records, and remove rows whose record was removed."""
    ids = record.app_ids()
    with open_store(readonly=True) as store:
        known = set(store.app_ids([SCHEDULER]))
    if known == set(ids):
        return
    with suppress(StateError), open_store(durable=False) as store:
        store.add_all(_records([app_id for app_id in ids if app_id not in known]))
        for app_id in known.difference(ids):
            store.remove_void(app_id, record.folder(app_id))


def _records(app_ids: list[str]) -> Iterator[tuple[AppRecord, bool]]:
    for app_id in app_ids:
        found = read(app_id)
        if found is not None:
            journal = record.journal(record.folder(app_id))
            yield found, journal is None or not journal.end_recorded


def of_labels(app_id: str, labels: Labels) -> AppRecord:
    """The app as it was reserved, from the labels of its containers."""
    recorded = {name: labels.text(name) for name in ("session", "name", "digest", "commit", "actor")}
    key = tuple(labels.text(name) for name in ("project", "target", "job"))
    about = {
        "key": key if key[2] else None,
        "number": labels.attempt_number,
        "created_at": labels.created_at,
        "output": labels.output,
    }
    return row_of(SCHEDULER, app_id, {**recorded, **about})


def read(app_id: str) -> AppRecord | None:
    """The app as last recorded: reserved until it was started, running, or with its outcome.

    None where there is no record of it.
    """
    if not is_id(app_id):
        return None
    app_dir = record.folder(app_id)
    labels = (record.read_attempt(app_dir) or {}).get("labels")
    if not isinstance(labels, dict):
        return None
    found = of_labels(app_id, Labels(labels))
    journal = record.journal(app_dir)
    if journal is not None and journal.app.started_at is not None:
        found.state, found.started_at = "running", journal.app.started_at
    elif journal is not None and journal.held is not None:
        found.state, found.message = journal.held
    if journal is not None and journal.outcome is not None:
        outcome = journal.outcome
        found.state, found.message, found.exit_code = outcome.state, outcome.message, outcome.code
        found.ended_at = outcome.at
        found.inputs_changed = outcome.inputs_changed or journal.app.inputs_changed
        found.used, found.output_digest = journal.app.used, journal.app.output_digest
    return found


def attempt_here(app_id: str) -> Attempt | None:
    """The attempt of an app, by its record in this state folder alone."""
    app, facts = read(app_id), record.read_attempt(record.folder(app_id)) or {}
    labels = read_labels(facts.get("labels") or {})
    found = labels.attempt if labels is not None else None
    return None if found is None or app is None else as_seen(found, app)


def attempt_elsewhere(engine: EngineView, app_id: str) -> Attempt | None:
    """The attempt of an app at another engine, as last recorded.

    None for an app without a job, of this engine, or without an outcome.
    """
    facts = record.read_attempt(record.folder(app_id))
    if facts is None or facts.get("engine") in (None, engine.engine_id()):
        return None
    found = attempt_here(app_id)
    if found is None or not found.is_live:
        return found
    journal = record.journal(record.folder(app_id))
    if journal is not None and journal.end_recorded:
        return None  # the attempt has ended, and only the ledger has the outcome
    host, state = str(facts.get("host")), "created" if found.state == "reserved" else found.state
    return replace(found, state=state, message=f"at the engine {host}", elsewhere=host)


def elsewhere(engine: EngineView, app_id: str) -> SeenApp | None:
    """The app of `attempt_elsewhere`."""
    attempt = attempt_elsewhere(engine, app_id)
    return None if attempt is None else SeenApp(of_attempt(attempt), attempt.to_json(), attempt.owner)


def live_elsewhere(engine: EngineView, keys: Collection[JobKey], settled: Collection[str]) -> list[Attempt]:
    """The live attempts of these jobs at other engines."""
    there = (attempt_elsewhere(engine, app_id) for app_id in record.app_ids() if app_id not in settled)
    return [each for each in there if each is not None and each.key in keys and each.is_live]


def refuse_elsewhere(engine: EngineView, app_id: str) -> None:
    """Raise SchedulerError, with the engine's address, for a live app of another engine."""
    found = attempt_elsewhere(engine, app_id)
    if found is not None and found.is_live:
        raise SchedulerError(
            f"{app_id} is at the engine {found.elsewhere}, and this is {engine.host}",
            hint=f"DOCKER_HOST={found.elsewhere} says which engine to ask",
        )
