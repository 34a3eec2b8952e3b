"""All that `status` shows of one app, whichever scheduler it lives on. An end that is news is recorded."""

from __future__ import annotations

from launcher.cli.apps import App, scheduler_of
from launcher.cli.inventory import LOCAL, Item, finer, of_entry, of_row, refresh, settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from launcher.schedulers.local.appview import AppView
    from launcher.specs.replica_error import ReplicaError


_HERE = "localhost"  # as the local scheduler calls the host of its replicas


class Replica:
    """One replica; `state` in lower case, `structured_error_msg` what it left in its error file, or ""."""

    __slots__ = (
        "ended_at",
        "exit_code",
        "host",
        "k",
        "message",
        "num_restarts",
        "role",
        "started_at",
        "state",
        "structured_error_msg",
    )

    def __init__(self, role: str, k: int, state: str) -> None:
        self.role = role
        self.k = k
        self.state = state
        self.exit_code: int | None = None
        self.num_restarts = 0
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.message = ""
        self.host = ""
        self.structured_error_msg = ""

    @property
    def id(self) -> int:
        return self.k

    @property
    def error(self) -> ReplicaError | None:
        """What it says went wrong; its exit code and end stand in for what the file leaves out."""
        if not self.structured_error_msg:
            return None
        from launcher.specs.replica_error import read_error

        error = read_error(self.structured_error_msg)
        if error is None:
            return None
        return error._replace(
            exit_code=self.exit_code if error.exit_code is None else error.exit_code,
            time=self.ended_at if error.time is None else error.time,
        )

    def to_json(self) -> dict[str, Any]:
        from launcher.cli.render.values import iso

        return {
            "role": self.role,
            "replica": self.k,
            "state": "FAILED" if self.state == "lost" else self.state.upper(),
            "exit_code": self.exit_code,
            "num_restarts": self.num_restarts,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "message": self.message,
            "host": self.host or None,
            "error": self.error_json(),
        }

    def error_json(self) -> dict[str, Any] | None:
        error = self.error
        if error is None:
            return None
        from launcher.cli.render.values import iso

        return {**error._asdict(), "time": iso(error.time), "host": self.host or None}


class Inspected:
    """An app and its replicas. `replicas` is empty where only the ledger remembers the app."""

    __slots__ = ("item", "num_restarts", "replicas", "warnings")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.num_restarts = 0
        self.replicas: list[Replica] = []
        self.warnings: list[str] = []

    @property
    def root_cause(self) -> Replica | None:
        """The replica whose error came first; None when none left one."""
        left = [replica for replica in self.replicas if replica.structured_error_msg]
        if not left:
            return None
        from launcher.specs.status import root_cause

        return root_cause(left)

    @property
    def cause(self) -> str:
        """The error that came first, in one line; "" when no replica left one."""
        cause = self.root_cause
        error = cause.error if cause else None
        return f"{cause.role}/{cause.k}: {error.summary}" if cause and error else ""

    def to_json(self) -> dict[str, Any]:
        cause = self.root_cause
        return {
            **self.item.to_json(),
            "num_restarts": self.num_restarts,
            "warnings": self.warnings,
            "root_cause": cause and {"role": cause.role, "replica": cause.k, **(cause.error_json() or {})},
            "replicas": [replica.to_json() for replica in self.replicas],
        }


def inspect(app: App) -> Inspected:
    """The app as it is now. Raises UnknownAppException when neither an engine nor the ledger knows it."""
    item = on_record(app)
    found = Inspected(item)
    known = _from_local(app, found) if app.scheduler in LOCAL else _from_engine(app, found)
    if not known and item.state == "unknown":
        from launcher.specs.handle import UnknownAppException

        raise UnknownAppException(app.handle)
    return found


def on_record(app: App) -> Item:
    """What ledger or index know of it."""
    from launcher import paths
    from launcher.schedulers.local.index import Index
    from launcher.state.store import Store

    with Store.open(readonly=True) as store:
        entry = store.app(app.app_id)
    if entry is not None and entry.handle == app.handle:
        return of_entry(entry)
    if app.scheduler in LOCAL:
        with Index.open(paths.local(), readonly=True) as index:
            row = index.find(app.app_id)
        if row is not None and (row.scheduler, row.session) == (app.scheduler, app.session):
            return of_row(row)
    item = Item(app.scheduler, app.session, app.app_id)
    if app.job is not None:  # an engine told of it
        (item.project, item.target, item.job), item.attempt = app.job, app.number
    return item


def _from_local(app: App, found: Inspected) -> bool:
    item = found.item
    if item.state == "unknown":
        return False  # another session's, or nobody's: its handle names nothing
    scheduler = scheduler_of(app)
    view: AppView | None = scheduler.view(app.app_id)
    if view is None:
        if item.is_live:
            settle()
            found.item = on_record(app)
        return found.item.state != "unknown"
    if item.is_live and view.state not in ("reserved", "created", "running"):
        settle()
    refresh(item, view)
    found.num_restarts = view.num_restarts
    found.warnings = list(view.warnings)
    errors = scheduler.error_texts(app.app_id, view)
    for seen in view.replicas:
        replica = Replica(seen.role, seen.k, seen.state)
        replica.exit_code, replica.num_restarts = seen.exit_code, seen.num_restarts
        replica.started_at, replica.ended_at = seen.started_at, seen.ended_at
        replica.message = "out of memory" if seen.oom else f"signal {seen.signal}" if seen.signal else ""
        replica.host, replica.structured_error_msg = _HERE, errors.get((seen.role, seen.k), "")
        found.replicas.append(replica)
    return True


def _from_engine(app: App, found: Inspected) -> bool:
    """Ask a scheduler that we know nothing more of than its contract."""
    from launcher.specs.status import is_terminal

    answer = scheduler_of(app).describe(app.app_id)
    if found.item.is_live and (answer is None or is_terminal(answer.state)):
        settle((app.scheduler,))
        found.item = on_record(app)
    if answer is None:
        return found.item.state != "unknown"
    item = found.item
    item.state = finer(str(answer.state).lower(), item.state)
    item.name = item.name or answer.name
    item.message = "" if answer.msg == "<NONE>" else answer.msg
    item.exit_code, item.created_at = answer.exit_code, item.created_at or answer.created_at
    item.started_at, item.ended_at = answer.started_at, answer.ended_at
    found.num_restarts = max(0, answer.num_restarts)
    found.replicas = _replicas(answer.roles_statuses, item.state)
    return True


def _replicas(roles: Sequence[Any], app_state: str) -> list[Replica]:
    out = []
    for role in roles:
        for seen in role.replicas:
            state = str(seen.state).lower()
            is_lost = app_state == "lost" and state == "failed" and seen.exit_code is None
            replica = Replica(role.role, seen.id, "lost" if is_lost else state)
            replica.host = seen.hostname
            error = seen.structured_error_msg
            replica.structured_error_msg = "" if error == "<NONE>" else error
            replica.exit_code, replica.num_restarts = seen.exit_code, seen.num_restarts
            replica.started_at, replica.ended_at, replica.message = (
                seen.started_at,
                seen.ended_at,
                seen.message,
            )
            out.append(replica)
    return out
