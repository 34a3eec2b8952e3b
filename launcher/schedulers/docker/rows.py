"""Rows of Docker apps in the store. Clients write them; a watcher writes the record only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from launcher.errors import StateError
from launcher.schedulers.appstore import open_store
from launcher.schedulers.docker import record, recorded
from launcher.schedulers.docker.labels import APP_ID, SCHEDULER, Labels
from launcher.state.records import AppRecord


def apps(version: int = 0) -> Iterator[tuple[AppRecord, bool]]:
    """Every app that has a record here, as `appstore.every_app` yields them."""
    yield from _records(record.app_ids())


def add(labels: Mapping[str, str]) -> None:
    """Add the row of an app. Its record must exist: a row without one is void. Raises StateError."""
    with open_store(durable=False) as store:
        store.add(recorded.of_labels(labels[APP_ID], Labels(labels)))


def remove(app_id: str) -> None:
    """Remove the row of an app, unless it has a record (again)."""
    try:
        with open_store(durable=False) as store:
            store.remove_void(app_id, record.folder(app_id))
    except StateError:
        return  # it is void, and the next call of `match_records` removes it


def end(app: AppRecord, *, durable: bool) -> None:
    """Write how an app ended into its row. Where the store cannot be written, the record has it."""
    try:
        with open_store(durable=durable) as store:
            store.end_and_tidy(app)
    except StateError:
        return


def match_records() -> None:
    """Add the missing rows of records, and remove the rows whose record was removed."""
    ids = record.app_ids()
    with open_store(readonly=True) as store:
        known = set(store.app_ids([SCHEDULER]))
    if known == set(ids):
        return
    try:
        with open_store(durable=False) as store:
            store.add_all(_records([app_id for app_id in ids if app_id not in known]))
            for app_id in known.difference(ids):
                store.remove_void(app_id, record.folder(app_id))
    except StateError:
        return


def _records(app_ids: list[str]) -> Iterator[tuple[AppRecord, bool]]:
    for app_id in app_ids:
        found = recorded.read(app_id)
        if found is not None:
            journal = record.journal(record.folder(app_id))
            yield found, journal is None or not journal.end_recorded
