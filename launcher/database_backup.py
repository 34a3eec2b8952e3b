"""Back databases up, and put a backup in the place of a damaged one."""

from __future__ import annotations

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

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from launcher.database import Fill


def replace_damaged(path: str, version: int, probes: Sequence[str]) -> str | None:
    """Move a damaged database to `path`.damaged, and put its newest sound backup in its place.

    Returns the path of the backup; "" where there is none, and `path` is then free; None where the database
    is sound, because another process was faster. One process at a time. The -wal and -shm files go first:
    beside the next database of that name, SQLite would replay them into it. A process that has the old file
    open goes on with it and, since SQLite sees that the file was moved, does not touch the new file's -wal
    and -shm when it ends.

    Args:
        probes: statements that a sound database of `version` can run.
    """
    lock = lock_folder(path)
    try:
        if not os.path.exists(path) or _is_sound(open_file(path), version, probes, in_doubt=True):
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


def from_backup(
    path: str, schema: str, version: int, upgrades: Mapping[int, Sequence[str]], fill: Fill
) -> sqlite3.Connection:
    """The newest sound backup, in memory, read-only and filled; an empty database without one."""
    backup = newest_backup(path)
    if not backup:
        return in_memory(schema, fill)
    source, restored = open_file(_immutable(backup), uri=True), open_file(":memory:")
    source.backup(restored)
    source.close()
    if version_of(restored) == version:
        fill(restored, version)
        restored.execute("PRAGMA query_only=1")
    return upgraded(restored, path, version, upgrades, fill, readonly=True)


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


def _is_sound(
    connection: sqlite3.Connection, version: int = 0, probes: Sequence[str] = (), *, in_doubt: bool
) -> bool:
    """Whether SQLite finds no fault with a database, and it has the tables of `version`. Closes it.

    `in_doubt` is the answer where that cannot be found out: a lock, a limit of open files, a failing disk.
    """
    try:
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            return False
        if version_of(connection) == version:
            for probe in probes:
                connection.execute(probe).fetchall()
        return True
    except DATABASE_ERRORS as error:
        return in_doubt and not any(sign in str(error) for sign in DAMAGE)
    finally:
        connection.close()
