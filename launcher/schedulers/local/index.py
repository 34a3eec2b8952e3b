"""The index of local apps: one SQLite row each, so that listing stays flat in their number.

The app's folder is the authority; a row says that there is (or was about to be) one, and how the app ended,
so that no reader has to open the folder again. An index that is missing or damaged is made again from the
folders. Only clients write here, never a supervisor.
"""

from __future__ import annotations

import os
import sqlite3

from launcher import database
from launcher.errors import DamagedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import TypeVar

    from launcher.specs.launch import JobKey

    _T = TypeVar("_T")

VERSION = 1
_BATCH = 300  # keys a query: SQLite of old refuses more than 999 parameters

_SCHEMA = """
CREATE TABLE IF NOT EXISTS apps (
    app_id TEXT PRIMARY KEY,
    scheduler TEXT NOT NULL,
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    project TEXT, target TEXT, job TEXT, number INTEGER,  -- NULL for apps that no job file made
    created_at REAL NOT NULL,
    live INTEGER NOT NULL DEFAULT 1,                      -- 0 once the end is written here
    state TEXT, ended_at REAL, message TEXT, exit_code INTEGER
);
CREATE INDEX IF NOT EXISTS apps_created ON apps (created_at);
CREATE INDEX IF NOT EXISTS apps_of_scheduler ON apps (scheduler, created_at);
CREATE INDEX IF NOT EXISTS apps_live ON apps (live) WHERE live;
CREATE INDEX IF NOT EXISTS apps_job ON apps (project, target, job, number);
"""

_COLUMNS = (
    "app_id, scheduler, session, name, project, target, job, number, created_at,"
    " live, state, ended_at, message, exit_code"
)

_KEY = ("scheduler", "session", "name", "project", "target", "job", "number")
_ADD = f"""
INSERT INTO apps (app_id, {", ".join(_KEY)}, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (app_id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _KEY)}
WHERE apps.job IS NULL AND excluded.job IS NOT NULL
"""


class Row:
    """One app as the index has it. `state` and what follows are None while `live`."""

    __slots__ = (
        "app_id",
        "created_at",
        "ended_at",
        "exit_code",
        "job",
        "live",
        "message",
        "name",
        "number",
        "project",
        "scheduler",
        "session",
        "state",
        "target",
    )

    def __init__(
        self,
        app_id: str,
        scheduler: str,
        session: str,
        name: str,
        project: str | None,
        target: str | None,
        job: str | None,
        number: int | None,
        created_at: float,
        live: int,
        state: str | None,
        ended_at: float | None,
        message: str | None,
        exit_code: int | None,
    ) -> None:
        self.app_id = app_id
        self.scheduler = scheduler
        self.session = session
        self.name = name
        self.project = project
        self.target = target
        self.job = job
        self.number = number
        self.created_at = created_at
        self.live = bool(live)
        self.state = state
        self.ended_at = ended_at
        self.message = message or ""
        self.exit_code = exit_code


class Index:
    """The index in `folder` (LAUNCHER_HOME/local). Use as a context manager, or close it."""

    def __init__(self, folder: str, *, readonly: bool) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "index.db")
        self._readonly = readonly
        try:
            self._db = self._connect()
        except DamagedError as error:
            self._db = self._remade(error)

    @classmethod
    def open(cls, folder: str, *, readonly: bool = False) -> Index:
        """Raises StateError when the index cannot be used: unwritable, or of a newer version.

        Args:
            readonly: write nothing at all. What does not exist yet is read from the folders of apps.
        """
        return cls(folder, readonly=readonly)

    def _connect(self) -> sqlite3.Connection:
        # Not durable: what a power cut takes from here, the apps' folders still say, and it ends all apps.
        return database.connect(
            self._path, _SCHEMA, VERSION, readonly=self._readonly, durable=False, fill=self._fill_new
        )

    def _fill_new(self, connection: sqlite3.Connection, version: int) -> None:
        self._fill(connection)

    def _fill(self, connection: sqlite3.Connection, app_ids: list[str] | None = None) -> None:
        from launcher.schedulers.local import rebuild

        connection.executemany(
            f"INSERT OR IGNORE INTO apps ({_COLUMNS}) VALUES ({', '.join('?' * 14)})",
            rebuild.rows(self._folder, app_ids),
        )

    def _remade(self, error: DamagedError) -> sqlite3.Connection:
        """A connection to an index with the rows of all folders, in place of the damaged one."""
        import logging

        logger = logging.getLogger("launcher")
        logger.addHandler(logging.NullHandler())  # for programs that log; a command has nothing to say of it
        logger.warning("%s; made again from the folders of the apps", error)
        if self._readonly:
            return database.in_memory(_SCHEMA, self._fill_new)
        database.set_aside(self._path)
        return self._connect()

    def _do(self, act: Callable[[sqlite3.Connection], _T]) -> _T:
        """`act` on the connection; once more on a new index where this one turns out to be damaged."""
        try:
            return self._try(act)
        except DamagedError as error:
            self._db.close()
            self._db = self._remade(error)
            return self._try(act)

    def _try(self, act: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            return act(self._db)
        except database.DATABASE_ERRORS as error:
            raise database.explain(error, self._path) from error

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Reading

    def _rows(self, where: str, values: Iterable[object] = ()) -> list[Row]:
        given = tuple(values)
        found = self._do(lambda db: db.execute(f"SELECT {_COLUMNS} FROM apps {where}", given).fetchall())
        return [Row(*columns) for columns in found]

    def find(self, app_id: str) -> Row | None:
        rows = self._rows("WHERE app_id = ?", (app_id,))
        return rows[0] if rows else None

    def newest(self, limit: int | None = None, *, scheduler: str | None = None) -> list[Row]:
        """Rows, the newest first."""
        where = "" if scheduler is None else "WHERE scheduler = ? "
        values: tuple[object, ...] = () if scheduler is None else (scheduler,)
        return self._rows(
            f"{where}ORDER BY created_at DESC, app_id LIMIT ?", (*values, -1 if limit is None else limit)
        )

    def live(self) -> list[Row]:
        """Rows of apps whose end was not written here yet."""
        return self._rows("WHERE live ORDER BY created_at")

    def count(self) -> int:
        (found,) = self._do(lambda db: db.execute("SELECT count(*) FROM apps").fetchone())
        return int(found)

    def of_jobs(self, keys: Iterable[JobKey]) -> list[Row]:
        """The rows of the jobs, of each job the latest attempt first."""
        wanted = list(keys)
        out: list[Row] = []
        for at in range(0, len(wanted), _BATCH):
            batch = wanted[at : at + _BATCH]
            holes = ", ".join(["(?, ?, ?)"] * len(batch))
            values = [part for key in batch for part in key]
            out += self._rows(
                f"WHERE (project, target, job) IN (VALUES {holes}) ORDER BY number DESC", values
            )
        return out

    # Writing

    def add(
        self,
        app_id: str,
        *,
        scheduler: str,
        session: str,
        name: str,
        created_at: float,
        key: JobKey | None = None,
        number: int | None = None,
    ) -> None:
        """Make a live row unless there is one; a row made from a folder without a record gets its job."""
        project, target, job = key or (None, None, None)
        self._write(
            _ADD,
            (app_id, scheduler, session, name, project, target, job, number, created_at),
        )

    def settle(
        self, app_id: str, state: str, ended_at: float | None, message: str, exit_code: int | None
    ) -> bool:
        """Write how an app ended. False when somebody had written it before."""
        return self._write(
            "UPDATE apps SET live = 0, state = ?, ended_at = ?, message = ?, exit_code = ?"
            " WHERE app_id = ? AND live",
            (state, ended_at, message, exit_code, app_id),
        )

    def remove(self, app_id: str) -> None:
        self._write("DELETE FROM apps WHERE app_id = ?", (app_id,))

    def remove_void(self, app_id: str, app_dir: str) -> bool:
        """Remove the row unless its folder exists.

        One transaction: whoever reserves writes row, folder, row in this order, so that either the folder
        is seen here or the second row is written after our removal.
        """

        def act(db: sqlite3.Connection) -> bool:
            db.execute("BEGIN IMMEDIATE")
            try:
                gone = not os.path.isdir(app_dir)
                if gone:
                    db.execute("DELETE FROM apps WHERE app_id = ?", (app_id,))
            finally:
                db.execute("COMMIT")
            return gone

        return self._do(act)

    def add_missing(self) -> None:
        """Make the rows of folders that have none: a row can be lost with an index that was deleted."""
        from launcher.schedulers.local import rebuild

        known = {
            app_id for (app_id,) in self._do(lambda db: db.execute("SELECT app_id FROM apps").fetchall())
        }
        missing = [app_id for app_id in rebuild.folders(self._folder) if app_id not in known]
        if missing:
            self._do(lambda db: self._fill(db, missing))

    def _write(self, sql: str, values: tuple[object, ...]) -> bool:
        return self._do(lambda db: db.execute(sql, values).rowcount > 0)
