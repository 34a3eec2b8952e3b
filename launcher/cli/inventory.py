"""The apps there are, as ledger, local index and the records of schedulers know them.

Light: nothing here loads the specs, unless an app has ended that nobody has recorded yet.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

    from launcher.schedulers.docker.records.kept import Kept
    from launcher.schedulers.local.appview import AppView
    from launcher.schedulers.local.index import Row
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord

LOCAL = ("local_cwd", "local_dir")
DOCKER = "local_docker"
LIVE = ("reserved", "created", "running")

_APP_STATES = {"reserved": "SUBMITTED", "created": "PENDING", "lost": "FAILED", "unknown": "UNKNOWN"}


class Item:
    """One app. `state` is an attempt's (reserved, created, running, succeeded, failed, cancelled, lost)."""

    __slots__ = (
        "app_id",
        "attempt",
        "created_at",
        "ended_at",
        "exit_code",
        "job",
        "message",
        "name",
        "project",
        "scheduler",
        "session",
        "started_at",
        "state",
        "target",
    )

    def __init__(self, scheduler: str, session: str, app_id: str) -> None:
        self.scheduler = scheduler
        self.session = session
        self.app_id = app_id
        self.name = ""
        self.project: str | None = None
        self.target: str | None = None
        self.job: str | None = None
        self.attempt: int | None = None
        self.state = "unknown"
        self.created_at: float | None = None
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.exit_code: int | None = None
        self.message = ""

    @property
    def handle(self) -> str:
        return f"{self.scheduler}://{self.session}/{self.app_id}"

    def take(self, other: Item) -> None:
        """Become what `other` says of the same app."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    def took(self, now: float) -> str:
        """From its start to its end; up to `now` while it lives; "" for what has not started.

        What it waited before, for an image or for an older attempt to stop, is no time of its own. The index
        of local apps keeps no start: there it is a moment after the app was made.
        """
        from launcher.cli.render.values import took

        start = self.started_at or (None if self.is_live else self.created_at)
        return took(start, self.ended_at, now if self.is_live else None)

    @property
    def app_state(self) -> str:
        """The name of the AppState."""
        return _APP_STATES.get(self.state, self.state.upper())

    def to_json(self) -> dict[str, Any]:
        from launcher.cli.render.values import iso

        return {
            "handle": self.handle,
            "app_id": self.app_id,
            "scheduler": self.scheduler,
            "session": self.session,
            "name": self.name,
            "project": self.project,
            "target": self.target,
            "job": self.job,
            "attempt": self.attempt,
            "state": self.app_state,
            "attempt_state": self.state,
            "created_at": iso(self.created_at),
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "exit_code": self.exit_code,
            "message": self.message,
        }


def live_on_record() -> list[Item]:
    """The apps that have no recorded end."""
    from launcher import paths
    from launcher.schedulers.local.index import Index
    from launcher.state.store import Store

    with Store.open(readonly=True) as store:
        entries = store.live()
        docker = [each for each in _kept_by_docker({e.app_id for e in entries}) if each.is_live]
        docker = [each for each in docker if store.app(each.app_id) is None]
    with Index.open(paths.local(), readonly=True) as index:
        rows = index.live()
    return _merged(entries, rows, docker)


def _merged(entries: Sequence[AppRecord], rows: Sequence[Row], docker: Iterable[Item] = ()) -> list[Item]:
    """One item per app, the newest first; what the ledger knows says more than index and records."""
    items = {entry.app_id: of_entry(entry) for entry in entries}
    for row in rows:
        items.setdefault(row.app_id, of_row(row))
    for item in docker:
        items.setdefault(item.app_id, item)
    return sorted(items.values(), key=lambda item: item.created_at or 0.0, reverse=True)


def recorded(limit: int | None, scheduler: str | None) -> list[Item]:
    """The newest apps, the newest first, as they were recorded. See `present.newest`."""
    from launcher import paths
    from launcher.schedulers.local.index import Index
    from launcher.state.store import Store

    with Store.open(readonly=True) as store:
        entries = store.newest(-1 if limit is None or scheduler else limit)
        docker = [] if scheduler else _kept_by_docker({entry.app_id for entry in entries})
        docker = [item for item in docker if store.app(item.app_id) is None]
    with Index.open(paths.local(), readonly=True) as index:
        rows = index.newest(limit, scheduler=scheduler)
    chosen = [entry for entry in entries if scheduler in (None, entry.scheduler)]
    return _merged(chosen, rows, docker)[:limit]


def of_entry(entry: AppRecord) -> Item:
    item = Item(entry.scheduler, entry.session, entry.app_id)
    item.name, item.project, item.target, item.job = entry.name, entry.project, entry.target, entry.job
    item.attempt, item.state, item.message, item.exit_code = (
        entry.number,
        entry.state,
        entry.message,
        entry.exit_code,
    )
    item.created_at, item.started_at, item.ended_at = entry.created_at, entry.started_at, entry.ended_at
    return item


def of_row(row: Row) -> Item:
    item = Item(row.scheduler, row.session, row.app_id)
    item.name, item.project, item.target, item.job = row.name, row.project, row.target, row.job
    item.attempt, item.state, item.message = row.number, row.state or "reserved", row.message
    item.created_at, item.ended_at, item.exit_code = row.created_at, row.ended_at, row.exit_code
    return item


def look(item: Item) -> bool:
    """Bring a live local app up to date by its record; True when it has ended and that is news."""
    view = local_view(item.app_id)
    if view is None:
        return True
    refresh(item, view)
    return not item.is_live


def look_docker(item: Item) -> bool:
    """Bring a live app up to date by what its watcher writes down; False when nobody does that here."""
    from launcher.schedulers.docker.records.kept import kept

    seen = kept(item.app_id)
    if seen is None:
        return False
    item.started_at = item.started_at or seen.started_at
    if seen.state not in LIVE:
        item.state, item.message, item.exit_code = seen.state, seen.message, seen.exit_code
        item.ended_at = seen.ended_at
        EndRecorder().record(item.app_id, item)
        return True
    if seen.started_at is not None:
        item.state, item.started_at = "running", item.started_at or seen.started_at
    return seen.is_tended


def _kept_by_docker(known: Collection[str]) -> list[Item]:
    """Apps of local_docker that no job file made: the ledger does not know them."""
    from os.path import isdir, join

    from launcher import paths

    if not isdir(join(paths.home(), "docker")):
        return []
    from launcher.schedulers.docker.records.kept import all_kept

    return [_of_kept(seen) for seen in all_kept(known)]


def _of_kept(seen: Kept) -> Item:
    item = Item(DOCKER, seen.session, seen.app_id)
    item.name, item.state, item.message, item.exit_code = seen.name, seen.state, seen.message, seen.exit_code
    item.created_at, item.started_at, item.ended_at = seen.created_at, seen.started_at, seen.ended_at
    return item


def local_view(app_id: str) -> AppView | None:
    """What the local scheduler's record says of an app. Writes nothing."""
    from launcher import paths
    from launcher.schedulers.local import rundir

    return rundir.read_state(rundir.app_dir(paths.local(), app_id))


def refresh(item: Item, view: AppView) -> None:
    item.state, item.message, item.exit_code = view.state, view.message, view.exit_code
    item.started_at, item.ended_at = view.started_at, view.ended_at
    item.created_at = item.created_at or view.created_at


class EndRecorder:
    """Writes into the ledger how apps ended, at the price of one statement.

    `settle` does that and more; this is for whoever is in a hurry and has the app's record at hand: it is
    not closed (the process ends anyway), and what a power cut takes back is settled again.
    Where the state folder cannot be written nothing is recorded: looking must still work.
    """

    def __init__(self) -> None:
        from launcher.errors import StateError
        from launcher.state.store import Store

        try:
            self._store: Store | None = Store.open(durable=False)
        except StateError:
            self._store = None

    def record(self, app_id: str, view: AppView | Attempt | Item) -> None:
        """`view` is of an app that has ended. An end that is known already stays as it is."""
        from launcher.errors import StateError

        if self._store is None:
            return
        try:
            end: Any = view.state
            self._store.end(
                app_id, end, view.ended_at, view.message, view.exit_code, started_at=view.started_at
            )
        except StateError:
            self._store.close()
            self._store = None


def settle(schedulers: Sequence[str] = LOCAL) -> Sequence[Any]:
    """Record what has ended and remove what dead supervisors left; the attempts whose end is news.

    Where the state folder cannot be written nothing is recorded: looking must still work.
    """
    from launcher.apply.engines import Engines
    from launcher.apply.settle import settle as record
    from launcher.errors import StateError
    from launcher.state.store import Store

    try:
        with Store.open() as store, Engines() as engines:
            return record(store, engines, schedulers)
    except StateError:
        return ()


def finer(state: str, recorded: str) -> str:
    """An AppState in an attempt's words: lost and reserved are finer than what it can say."""
    if recorded == "lost" and state == "failed":
        return recorded
    return {"submitted": "reserved", "pending": "created", "unsubmitted": "reserved"}.get(state, state)
