"""Open a SQLite file below LAUNCHER_HOME: private, durable, of a known version."""

from __future__ import annotations

import _sqlite3 as sqlite3  # `sqlite3` also loads datetime, which takes longer than a query
import errno
import os
import stat

from launcher import paths
from launcher.errors import DamagedError, FullDiskError, StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Fill = Callable[[sqlite3.Connection, int], None]

_BUSY_S = 30.0  # seconds that a writer waits for the writers before it
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "lustre", "gpfs", "ceph"}
)
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions of `sqlite3`; the second for a message with undecodable bytes of a damaged file."""

DAMAGE = (
    "not a database", "malformed", "unsupported file format", "no such column", "no such table", "decode",
)  # fmt: skip
"""Messages of SQLite and `sqlite3` that mean wrong bytes in a file's header, schema, pages or texts."""


def connect(
    path: str,
    schema: str,
    version: int,
    upgrades: Mapping[int, Sequence[str]] | None = None,
    *,
    readonly: bool,
    durable: bool = True,
    fill: Fill | None = None,
) -> sqlite3.Connection:
    """Open `path`, making it with `schema` when it is new, and bringing it up to date when it is older.

    Read-only, a missing file is an empty database, an older one is brought up to date in memory, and nothing
    is ever written. The connection is in autocommit mode and may pass from thread to thread; the caller must
    not use it from two threads at once.

    Args:
        version: of `schema`; stored in the file as its user_version.
        upgrades: SQL statements from each earlier version to the one after it.
        durable: every write is on disk when it returns. Otherwise a power cut may undo the last writes,
            though never a part of a write.
        fill: writes rows into a new database or one that was brought up to date, in the transaction that
            makes its tables; called with its former version, 0 for a new one. Read-only, `fill` writes into
            the database in memory that stands for a missing or older file.

    Raises DamagedError for a file that is no sound database, StateError for a file that cannot be used for
    another reason: unwritable, full, on a network file system, or written by a newer version.
    """
    try:
        if readonly:
            connection = _for_reading(path, schema, fill)
        else:
            connection = _for_writing(path, schema, version, durable, fill)
        connection = upgraded(connection, path, version, upgrades or {}, fill, readonly=readonly)
        found = version_of(connection)
    except DATABASE_ERRORS as error:
        raise explain(error, path) from error
    if found > version:
        connection.close()
        raise StateError(
            f"{path} was written by a newer launcher (schema {found}; this one knows up to {version})",
            hint=f"update launcher{_way_back(path, version)}",
        )
    return connection


def _way_back(path: str, version: int) -> str:
    """Return the hint on how to restore the copy that a newer version made before its upgrade."""
    import time
    from shlex import quote

    folder, name = os.path.split(path)
    backup = f"{name}.v{version}.bak"
    try:
        made_at = os.stat(os.path.join(folder, backup)).st_mtime
    except OSError:
        return ", or set LAUNCHER_HOME to another folder"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(made_at))
    return (
        f"; or go back to how it was on {when}, while nothing runs: what was recorded since is lost, so that"
        f" jobs which ended since may run again:\n"
        f"  cd {quote(folder)} && mkdir -m 700 newer && mv {quote(name)}* newer/"
        f" && cp -p newer/{quote(backup)} {quote(name)}"
    )


def explain(error: sqlite3.Error | UnicodeError, path: str) -> StateError:
    """Return the error for a message of SQLite about `path`. Python 3.10 has only texts, no error codes."""
    said = str(error)
    if "locked" in said:
        hint = "another process is writing to it and does not end"
        return StateError(f"{path} stayed locked for {_BUSY_S:g} s", hint=hint)
    if "unable to open" in said and (limit := paths.out_of_files()) is not None:
        return paths.unusable(limit, path)
    if ("unable to open" in said or "readonly" in said) and (beside := _unusable_beside(path)) is not None:
        hint = "make it a file that you can read and write, or remove it while nothing runs"
        return StateError(f"cannot use {beside.filename}: {beside.strerror}", hint=hint)
    if "full" in said or "disk I/O" in said or ("unable to open" in said and _is_full(os.path.dirname(path))):
        return FullDiskError(f"cannot use {path}: {said}")
    if any(sign in said for sign in DAMAGE):
        return DamagedError(f"{path} is damaged: {said}")
    return StateError(f"cannot use {path}: {said}", hint=paths.ELSEWHERE)


def _unusable_beside(path: str) -> OSError | None:
    """The error of the -wal or -shm file that SQLite cannot open and does not name; None where it can."""
    for beside in (path + "-wal", path + "-shm"):
        if os.path.lexists(beside):
            code = _no_file(beside) if os.path.exists(beside) else errno.ENOENT
            code = code or (0 if os.access(beside, os.R_OK | os.W_OK) else errno.EACCES)
            if code:
                return OSError(code, os.strerror(code), beside)
    return None


def in_memory(schema: str, fill: Fill | None = None) -> sqlite3.Connection:
    """A read-only database in memory."""
    connection = open_file(":memory:")
    connection.executescript(schema)
    if fill is not None:
        fill(connection, 0)
    connection.execute("PRAGMA query_only=1")
    return connection


def uri_of(path: str) -> str:
    return "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _for_writing(
    path: str, schema: str, version: int, durable: bool, fill: Fill | None
) -> sqlite3.Connection:
    folder = paths.ensure(os.path.dirname(path))
    _refuse_network(folder)
    _refuse_unwritable(path)
    connection = open_file(path)
    try:
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        if version_of(connection) == 0:
            _create(connection, path, schema, version, fill)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_unwritable(path: str) -> None:
    """Raise StateError, with the system's reason, where SQLite would only say "unable to open".

    Asks by path and opens nothing: closing any descriptor of a database drops every POSIX lock that this
    process holds on it, and other processes then delete the WAL of a connection that is still open.
    Source: sqlite.org/howtocorrupt.html, 2.2.
    """
    inode, code = _inode(path), _no_file(path)
    asked, rights = (path, os.W_OK) if inode else (os.path.dirname(path), os.R_OK | os.W_OK | os.X_OK)
    if not os.access(asked, rights) and _inode(path) == inode:  # else another client has just moved it
        is_fixed = os.statvfs(os.path.dirname(path)).f_flag & os.ST_RDONLY
        code = code or (errno.EROFS if is_fixed else errno.EACCES)
    if code:
        raise paths.unusable(OSError(code, os.strerror(code)), path)


def _no_file(path: str) -> int:
    """The error number for anything but a file; 0 for a file or nothing. SQLite would wait for a pipe."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return 0
    if stat.S_ISREG(mode):
        return 0
    return errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL


def _inode(path: str) -> int:
    """Return the inode of a file; 0 for a missing file."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def upgraded(
    connection: sqlite3.Connection,
    path: str,
    version: int,
    upgrades: Mapping[int, Sequence[str]],
    fill: Fill | None,
    *,
    readonly: bool,
) -> sqlite3.Connection:
    """Return the database in the present schema: the file itself, or a copy in memory for readers."""
    if not 0 < version_of(connection) < version:
        return connection
    if readonly:
        present = open_file(":memory:")
        connection.backup(present)
        connection.close()
        connection = present
    try:
        connection.execute("BEGIN IMMEDIATE")  # another process may have upgraded it meanwhile
        found = version_of(connection)
        if not readonly and found < version:
            copy(path, f"{path}.v{found}.bak")
        for old in range(found, version):
            if old not in upgrades:
                raise StateError(f"{path} is of schema {old}, which this version cannot bring up to date")
            for statement in upgrades[old]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={old + 1}")
        if fill is not None and found < version:
            fill(connection, found)
        connection.execute("COMMIT")
        connection.execute(f"PRAGMA query_only={int(readonly)}")
    except BaseException:
        connection.close()  # closing rolls the transaction back
        raise
    return connection


def copy(path: str, to: str) -> None:
    """Copy a database, through SQLite: a copy of the file would miss the WAL."""
    source, target = open_file(path), open_file(to + ".new")
    try:
        os.chmod(to + ".new", 0o600)
        source.backup(target)
    finally:
        source.close()
        target.close()
    os.replace(to + ".new", to)


def _create(connection: sqlite3.Connection, path: str, schema: str, version: int, fill: Fill | None) -> None:
    """Make the tables, one process at a time, because entering WAL mode does not wait for others."""
    lock = lock_folder(path)
    try:
        if version_of(connection) == 0:
            os.chmod(path, 0o600)  # made with the umask's mode; SQLite gives this one's to -wal and -shm
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(f"BEGIN IMMEDIATE; {schema}")
            if fill is not None:
                fill(connection, 0)
            connection.execute(f"PRAGMA user_version={version}")
            connection.execute("COMMIT")
    finally:
        os.close(lock)


def lock_folder(path: str) -> int:
    """A descriptor that holds the lock of the folder that `path` is in."""
    import fcntl

    lock = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _for_reading(path: str, schema: str, fill: Fill | None) -> sqlite3.Connection:
    try:
        os.stat(path)
    except FileNotFoundError:
        return in_memory(schema, fill)
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror or error}") from error
    if code := _no_file(path):
        raise StateError(f"cannot use {path}: {os.strerror(code)}", hint=paths.ELSEWHERE)
    uri = uri_of(path) + "?mode=ro"
    try:
        connection = _probed(uri)
    except sqlite3.OperationalError:
        # A reader of a WAL database needs its -shm file, which cannot be made in a folder without write
        # permission or on a full disk. Then no process writes there either, and the file does not change.
        folder = os.path.dirname(path)
        if os.access(folder, os.W_OK) and not _is_full(folder):
            raise
        _refuse_unread_log(path)
        connection = _probed(uri + "&immutable=1")
    if version_of(connection) == 0:  # another process is creating it now
        connection.close()
        return in_memory(schema, fill)
    connection.execute("PRAGMA query_only=1")
    return connection


def _probed(uri: str) -> sqlite3.Connection:
    """Return a connection after a first read: SQLite opens files only then."""
    connection = open_file(uri, uri=True)
    try:
        version_of(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_full(folder: str) -> bool:
    """Whether a disk has no room for data or for another file. Some file systems count no files."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return not disk.f_bavail or (disk.f_files > 0 and not disk.f_favail)


def _refuse_unread_log(path: str) -> None:
    """Raise StateError where the -wal file holds commits, which an immutable read would leave out."""
    try:
        size = os.stat(path + "-wal").st_size
    except OSError:
        return
    if size:
        raise StateError(
            f"cannot read {path}: its last entries are in {path}-wal, and the folder cannot be written",
            hint="copy both files to a folder that you can write, and set LAUNCHER_HOME to it",
        )


def open_file(database: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(database, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, uri=uri)


def version_of(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def _refuse_network(folder: str) -> None:
    """Raise StateError on a network file system: WAL's shared memory and flock do not span machines."""
    kind = _filesystem(folder)
    if kind in _NETWORK:
        raise StateError(
            f"{folder} is on a network file system ({kind}), where locks and SQLite are not safe",
            hint="set LAUNCHER_HOME to a folder on a local disk",
        )


def _filesystem(folder: str, mounts: str = "/proc/self/mountinfo") -> str:
    """The type of the file system that holds `folder`; "" when it is unknown.

    Source: proc(5), /proc/pid/mountinfo: field 3 is the device, the type comes after the lone hyphen.
    """
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.split(" ", 3)[2] == wanted:
                    return line.partition(" - ")[2].split(" ", 1)[0]
    except OSError:  # not Linux
        pass
    return ""
