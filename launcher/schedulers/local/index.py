"""The index of local apps: one SQLite row each, so that listing stays flat in their number.

The app's folder is the truth; a row says that there is (or was about to be) one, and keeps how the app
ended so that nobody has to open the folder again. Only clients write here, never a supervisor.
"""

from __future__ import annotations

import os
import sqlite3

from launcher import paths
from launcher.errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from launcher.specs.launch import JobKey

VERSION = 1
_BUSY_S = 30.0
_BATCH = 300  # keys a query: SQLite of old refuses more than 999 parameters
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "lustre", "gpfs", "ceph"}
)

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

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._db = connection  # None: nothing was ever recorded

    @classmethod
    def open(cls, folder: str, *, readonly: bool = False) -> Index:
        """Raises StateError when the index cannot be used: unwritable, damaged, or of a newer version.

        Args:
            readonly: write nothing at all. What does not exist yet reads as empty.
        """
        path = os.path.join(folder, "index.db")
        try:
            return cls(_read_only(path) if readonly else _writable(folder, path))
        except sqlite3.Error as error:
            raise _unusable(error, path) from error

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Reading

    def _rows(self, where: str, values: Iterable[object] = ()) -> list[Row]:
        if self._db is None:
            return []
        try:
            found = self._db.execute(f"SELECT {_COLUMNS} FROM apps {where}", tuple(values))
            return [Row(*values) for values in found]
        except sqlite3.Error as error:
            raise _unusable(error, "the index of local apps") from error

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
        """Make a live row unless there is one. Committed to disk when this returns."""
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
        db = self._database()
        try:
            db.execute("BEGIN IMMEDIATE")
            gone = not os.path.isdir(app_dir)
            if gone:
                db.execute("DELETE FROM apps WHERE app_id = ?", (app_id,))
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise _unusable(error, "the index of local apps") from error
        return gone

    def _write(self, sql: str, values: tuple[object, ...]) -> bool:
        try:
            return self._database().execute(sql, values).rowcount > 0
        except sqlite3.Error as error:
            raise _unusable(error, "the index of local apps") from error

    def _database(self) -> sqlite3.Connection:
        if self._db is None:
            raise StateError("the index of local apps was opened for reading, or is closed")
        return self._db


def _writable(folder: str, path: str) -> sqlite3.Connection:
    new = not os.path.exists(path)
    if new:
        paths.ensure(folder)
        _refuse_network_disk(folder)
        _create_private(path)
    # isolation_level None: every statement is its own transaction unless we say BEGIN.
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    version = _version(db, path)
    if version < VERSION:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
    db.execute("PRAGMA synchronous = FULL")
    return db


def _create_private(path: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise paths.unusable(error, path) from error


def _read_only(path: str) -> sqlite3.Connection | None:
    if not os.path.exists(path):
        return None
    from urllib.parse import quote

    uri = f"file:{quote(path)}?mode=ro"
    if not os.access(os.path.dirname(path), os.W_OK):
        uri += "&immutable=1"  # WAL's -shm file cannot be made there; nobody can be writing either
    db = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
    if _version(db, path) == 0:
        db.close()
        return None  # somebody is just making it
    return db


def _version(db: sqlite3.Connection, path: str) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        db.close()
        raise StateError(
            f"{path} was written by a newer launcher (format {version}; this one reads up to {VERSION})",
            hint="upgrade launcher, or set LAUNCHER_HOME to another folder",
        )
    return version


def _refuse_network_disk(folder: str) -> None:
    """Raises StateError where file locks and WAL cannot be trusted."""
    kind = _file_system(os.path.realpath(folder))
    if kind in _NETWORK:
        raise StateError(
            f"{folder} lies on a network file system ({kind}), where locks cannot be trusted",
            hint="set LAUNCHER_HOME to a folder on a local disk",
        )


def _file_system(folder: str) -> str:
    """The type of the file system that holds `folder`, "" where nothing tells."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            fields = [line.split(" ") for line in mounts]
    except OSError:
        return ""
    best, kind = "", ""
    for _, raw, fstype, *_ in fields:
        point = raw.replace("\\040", " ").rstrip("/")
        if (folder == point or folder.startswith(point + "/")) and len(point) >= len(best):
            best, kind = point, fstype
    return kind


def _unusable(error: sqlite3.Error, path: str) -> StateError:
    return StateError(
        f"cannot use {path}: {error}",
        hint="disk full or read-only? set LAUNCHER_HOME to a folder on a local disk that you can write",
    )
