"""The index of local apps: one SQLite row each, so that listing stays flat in their number.

The app's folder is the truth; a row says that there is (or was about to be) one, and keeps how the app
ended so that nobody has to open the folder again. Only clients write here, never a supervisor.
"""

from __future__ import annotations

import os
import sqlite3

from launcher import database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from launcher.specs.launch import JobKey

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

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._path = path
        self._db = connection

    @classmethod
    def open(cls, folder: str, *, readonly: bool = False) -> Index:
        """Raises StateError when the index cannot be used: unwritable, damaged, or of a newer version.

        Args:
            readonly: write nothing at all. What does not exist yet reads as empty.
        """
        path = os.path.join(folder, "index.db")
        # Not durable: what a power cut takes from here, the apps' folders still say, and it ends all apps.
        return cls(path, database.connect(path, _SCHEMA, VERSION, readonly=readonly, durable=False))

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
        try:
            found = self._db.execute(f"SELECT {_COLUMNS} FROM apps {where}", tuple(values))
            return [Row(*values) for values in found]
        except sqlite3.Error as error:
            raise database.explain(error, self._path) from error

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
        """Make a live row unless there is one."""
        project, target, job = key or (None, None, None)
        self._write(
            "INSERT OR IGNORE INTO apps"
            " (app_id, scheduler, session, name, project, target, job, number, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            gone = not os.path.isdir(app_dir)
            if gone:
                db.execute("DELETE FROM apps WHERE app_id = ?", (app_id,))
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise database.explain(error, self._path) from error
        return gone

    def _write(self, sql: str, values: tuple[object, ...]) -> bool:
        try:
            return self._db.execute(sql, values).rowcount > 0
        except sqlite3.Error as error:
            raise database.explain(error, self._path) from error
