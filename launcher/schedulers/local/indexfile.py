"""Opening the SQLite file of the index: private, durable, of a version that we know, on a disk with locks."""

from __future__ import annotations

import os
import sqlite3

from launcher import paths
from launcher.errors import StateError

_BUSY_S = 30.0
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "lustre", "gpfs", "ceph"}
)


def connect(folder: str, schema: str, version: int, *, readonly: bool) -> sqlite3.Connection | None:
    """The database in `folder`, made with `schema` when it is new; None where there is none to read.

    Raises StateError when it cannot be used: unwritable, damaged, or of a newer version.
    """
    path = os.path.join(folder, "index.db")
    try:
        return _read_only(path, version) if readonly else _writable(folder, path, schema, version)
    except sqlite3.Error as error:
        raise unusable(error, path) from error


def _writable(folder: str, path: str, schema: str, version: int) -> sqlite3.Connection:
    new = not os.path.exists(path)
    if new:
        paths.ensure(folder)
        _refuse_network_disk(folder)
        _create_private(path)
    # isolation_level None: every statement is its own transaction unless we say BEGIN.
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    if _version(db, path, version) < version:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(f"BEGIN IMMEDIATE; {schema} PRAGMA user_version = {version}; COMMIT;")
    db.execute("PRAGMA synchronous = FULL")
    return db


def _create_private(path: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise paths.unusable(error, path) from error


def _read_only(path: str, version: int) -> sqlite3.Connection | None:
    if not os.path.exists(path):
        return None
    # By hand: urllib.parse takes longer to load than sqlite3 does.
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    uri = f"file:{quoted}?mode=ro"
    as_it_is = f"{uri}&immutable=1"
    if not os.access(os.path.dirname(path), os.W_OK):
        return _opened(
            as_it_is, path, version
        )  # WAL's -shm file cannot be made there; nobody can be writing either
    try:
        return _opened(uri, path, version)
    except sqlite3.OperationalError:  # the disk is full: no -shm file either
        return _opened(as_it_is, path, version)


def _opened(uri: str, path: str, version: int) -> sqlite3.Connection | None:
    db = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
    try:
        found = _version(db, path, version)
    except sqlite3.Error:
        db.close()
        raise
    if found == 0:
        db.close()
        return None  # somebody is just making it
    return db


def _version(db: sqlite3.Connection, path: str, version: int) -> int:
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > version:
        db.close()
        raise StateError(
            f"{path} was written by a newer launcher (format {found}; this one reads up to {version})",
            hint="upgrade launcher, or set LAUNCHER_HOME to another folder",
        )
    return found


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


def unusable(error: sqlite3.Error, path: str) -> StateError:
    return StateError(
        f"cannot use {path}: {error}",
        hint="disk full or read-only? set LAUNCHER_HOME to a folder on a local disk that you can write",
    )
