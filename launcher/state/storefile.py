"""The file of the store: open it, share it between threads, restore it from a backup when damaged."""

from __future__ import annotations

from _thread import allocate_lock

from launcher import database, paths
from launcher.errors import DamagedError, StateError
from launcher.state.rows import (
    APP_COLUMNS,
    ATTEMPT_RECORD,
    FIRST_WITH_APPS,
    INSERT_APP,
    SCHEMA,
    UPGRADES,
    VERSION,
    from_record,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    from launcher.state.records import AppRecord

    Source = Callable[[], Iterable[tuple[AppRecord, bool]]]
    S = TypeVar("S", bound="StoreFile")
    T = TypeVar("T")


class StoreFile:
    """An open store. A context manager; may be shared by threads.

    Every write is durable when the call returns, unless it was opened otherwise. Every method raises
    StateError when the file cannot be read or written: a full disk, a lock that is never released, damage.
    """

    def __init__(self, path: str, *, readonly: bool, durable: bool, source: Source | None) -> None:
        self.path = path
        self._readonly = readonly
        self._durable = durable
        self._source = source
        self._lock = allocate_lock()
        try:
            self._connection = self._connect(self._fill)
        except DamagedError as error:
            self._connection = self._recovered(error)

    @classmethod
    def open(
        cls: type[S], *, readonly: bool = False, durable: bool = True, source: Source | None = None
    ) -> S:
        """The store in LAUNCHER_HOME. Read-only, a missing store is not made.

        Args:
            durable: every write is on disk when its call returns. Otherwise a power cut may undo the last
                writes, which suits data that an engine still has.
            source: yields the existing apps, each with whether its end is still to be recorded: rows for a
                new file, or for one of an older version without rows of apps.

        Raises StateError when it cannot be used: see `database.connect`.
        """
        return cls(paths.ledger(), readonly=readonly, durable=durable, source=source)

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self, fill: database.Fill) -> sqlite3.Connection:
        return database.connect(
            self.path,
            SCHEMA,
            VERSION,
            UPGRADES,
            readonly=self._readonly,
            durable=self._durable,
            fill=fill,
        )

    def _fill(self, connection: sqlite3.Connection, version: int) -> None:
        if self._source is not None and version < FIRST_WITH_APPS:
            rows = (from_record(record, live=live) for record, live in self._source())
            connection.executemany(f"INSERT OR IGNORE {INSERT_APP}", rows)

    def _refill(self, connection: sqlite3.Connection, version: int) -> None:
        """Rebuild the rows of apps; rows of a backup may belong to apps that were removed since."""
        connection.execute("DELETE FROM apps")
        self._fill(connection, 0)

    def _recovered(self, error: DamagedError) -> sqlite3.Connection:
        """Restore a damaged file from its newest backup and the schedulers' rows; returns a connection.

        Read-only, the restored database is in memory; else it replaces the file, which is moved aside.
        """
        from launcher import database_backup

        if self._readonly:
            backup = database_backup.newest_backup(self.path)
            _notice(f"{error}; read instead: {_sources(backup)}")
            return database_backup.from_backup(self.path, SCHEMA, VERSION, UPGRADES, self._refill)
        replaced = database_backup.replace_damaged(self.path, VERSION, _PROBES)
        if replaced is None:
            return self._connect(self._fill)
        _notice(f"{error}; it was moved to {self.path}.damaged, and made again from {_sources(replaced)}")
        connection = self._connect(lambda db, version: None)
        connection.execute("BEGIN IMMEDIATE")
        self._refill(connection, 0)
        connection.execute("COMMIT")
        return connection

    def back_up(self, now: float) -> None:
        """Copy the file to `ledger.db.daily.bak`, at most once a day, and not on the first day.

        A failure is ignored: nothing is copied then.
        """
        from contextlib import suppress

        with suppress(StateError):
            ((first,),) = self._rows("SELECT min(created_at) FROM attempts")
            if first is not None and first < now - _DAY_S:
                from launcher import database_backup

                database_backup.back_up(self.path, "daily", older_than_s=_DAY_S)

    def close(self) -> None:
        self._connection.close()

    def _rows(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        return self._do(lambda db: db.execute(sql, values).fetchall())

    def _write(self, sql: str, values: Sequence[Any] | dict[str, Any]) -> int:
        """Run one statement as a transaction; return the number of changed rows."""
        return self._do(lambda db: db.execute(sql, values).rowcount)

    def _transact(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act` in one transaction; returns its result."""

        def whole(db: sqlite3.Connection) -> T:
            db.execute("BEGIN IMMEDIATE")
            try:
                result = act(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return result

        return self._do(whole)

    def _do(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act`, and once more if the file was damaged and has been replaced; returns its result."""
        with self._lock:
            try:
                return self._try(act)
            except DamagedError as error:
                self._connection.close()
                self._connection = self._recovered(error)
                return self._try(act)

    def _try(self, act: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return act(self._connection)
        except database.DATABASE_ERRORS as error:
            raise database.explain(error, self.path) from error


notices: dict[str, None] = {}
"""Descriptions of damaged files that this process has replaced; commands show them."""
_DAY_S = 86400.0
_PROBES = (
    f"SELECT {ATTEMPT_RECORD} FROM attempts WHERE app_id = ''",
    f"SELECT {', '.join(APP_COLUMNS)} FROM apps WHERE app_id = ''",
)


def _sources(backup: str) -> str:
    return f"{backup} and the records of the schedulers" if backup else "the records of the schedulers"


def _notice(text: str) -> None:
    """Log a notice once per process. Commands show it: see `notices`."""
    if text in notices:
        return
    import logging

    notices[text] = None
    logger = logging.getLogger("launcher")
    logger.addHandler(logging.NullHandler())  # for programs that configure logging
    logger.warning("%s", text)
