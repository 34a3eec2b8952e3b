"""Back up the store, and replace a damaged file by a backup."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

from launcher import paths
from launcher.database import (
    DAMAGE,
    DATABASE_ERRORS,
    copy,
    explain,
    in_memory,
    lock_folder,
    open_file,
    upgraded,
    uri_of,
    version_of,
)
from launcher.errors import DamagedError
from launcher.state.rows import APP_COLUMNS, ATTEMPT_RECORD, SCHEMA, UPGRADES, VERSION

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from launcher.database import Fill

notices: dict[str, None] = {}
"""Descriptions of damaged files that this process has replaced; commands show them."""
_PROBES = (
    f"SELECT {ATTEMPT_RECORD} FROM attempts WHERE app_id = ''",
    f"SELECT {', '.join(APP_COLUMNS)} FROM apps WHERE app_id = ''",
)
"""Statements that a sound file of this version can run."""


def recovered(
    path: str, error: DamagedError, connect: Callable[..., sqlite3.Connection], fill: Fill, *, readonly: bool
) -> sqlite3.Connection:
    """Restore a damaged file from its newest backup and the schedulers' rows; returns a connection.

    Read-only, the restored database is in memory; else it replaces the file, which is moved aside.

    Args:
        connect: opens the file; unless `filled` is false, a new one with the schedulers' rows.
        fill: writes these rows.
    """

    def refill(connection: sqlite3.Connection, version: int) -> None:
        """Rebuild the rows of apps; rows of a backup may belong to apps that were removed since."""
        connection.execute("DELETE FROM apps")
        fill(connection, 0)

    if readonly:
        backup = newest_backup(path)
        _notice(f"{error}; read instead: {_sources(backup)}")
        return _from_backup(path, backup, refill)
    replaced = replace_damaged(path)
    if replaced is None:
        return connect()
    _notice(f"{error}; it was moved to {path}.damaged, and made again from {_sources(replaced)}")
    connection = connect(filled=False)
    connection.execute("BEGIN IMMEDIATE")
    refill(connection, 0)
    connection.execute("COMMIT")
    return connection


def _sources(backup: str) -> str:
    return f"{backup} and the records of the schedulers" if backup else "the records of the schedulers"


def _notice(text: str) -> None:
    """Log a notice once per process. Commands show it: see `notices`."""
    if text not in notices:
        notices[text] = None
        logger = logging.getLogger("launcher")
        logger.addHandler(logging.NullHandler())  # for programs that configure logging
        logger.warning("%s", text)


def replace_damaged(path: str) -> str | None:
    """Move a damaged database to `path`.damaged, and put its newest sound backup in its place.

    Returns the path of the backup; "" where there is none, and `path` is then free; None where the database
    is sound, because another process was faster. One process at a time. The -wal and -shm files go first:
    beside the next database of that name, SQLite would replay them into it. A process that has the old file
    open goes on with it and, since SQLite sees that the file was moved, does not touch the new file's -wal
    and -shm when it ends.
    """
    lock = lock_folder(path)
    try:
        if not os.path.exists(path) or _is_sound(open_file(path), in_doubt=True):
            return None
        backup = newest_backup(path)
        for suffix in ("-wal", "-shm"):
            if os.path.exists(path + suffix):
                os.unlink(path + suffix)
        os.replace(path, path + ".damaged")
        if backup:
            copy(backup, path)
        return backup
    except OSError as error:
        raise paths.unusable(error, path) from error
    finally:
        os.close(lock)


def _from_backup(path: str, backup: str, refill: Fill) -> sqlite3.Connection:
    """The backup in memory, read-only and refilled; an empty database for ""."""
    if not backup:
        return in_memory(SCHEMA, refill)
    source, restored = open_file(_immutable(backup), uri=True), open_file(":memory:")
    source.backup(restored)
    source.close()
    if version_of(restored) == VERSION:
        refill(restored, VERSION)
        restored.execute("PRAGMA query_only=1")
    return upgraded(restored, path, VERSION, UPGRADES, refill, readonly=True)


def newest_backup(path: str) -> str:
    """The path of the newest sound backup, "" without one."""
    folder = os.path.dirname(path)
    found = [os.path.join(folder, each) for each in os.listdir(folder)]
    found = [each for each in found if each.startswith(path + ".") and each.endswith(".bak")]
    for backup in sorted(found, key=os.path.getmtime, reverse=True):
        if _is_sound(open_file(_immutable(backup), uri=True), in_doubt=False):
            return backup
    return ""


def back_up(path: str, name: str, *, older_than_s: float) -> None:
    """Copy a database to `path`.<name>.bak, unless it has a backup that is younger."""
    backup = f"{path}.{name}.bak"
    lock = lock_folder(path)
    try:
        if not os.path.exists(backup) or os.path.getmtime(backup) < time.time() - older_than_s:
            copy(path, backup)
            os.utime(backup)
    except DATABASE_ERRORS as error:
        raise explain(error, path) from error
    except OSError as error:
        raise paths.unusable(error, backup) from error
    finally:
        os.close(lock)


def _immutable(path: str) -> str:
    """The URI of a file that no process changes: SQLite makes no -wal and -shm beside it."""
    return uri_of(path) + "?immutable=1"


def _is_sound(connection: sqlite3.Connection, *, in_doubt: bool) -> bool:
    """Whether SQLite finds no fault with a database, and one of this version has its tables. Closes it.

    `in_doubt` is the answer where that cannot be found out: a lock, a limit of open files, a failing disk.
    """
    try:
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            return False
        if version_of(connection) == VERSION:
            for probe in _PROBES:
                connection.execute(probe).fetchall()
        return True
    except DATABASE_ERRORS as error:
        return in_doubt and not any(sign in str(error) for sign in DAMAGE)
    finally:
        connection.close()
