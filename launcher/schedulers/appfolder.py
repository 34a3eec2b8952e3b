"""The folder of an app on this machine: its lock and its removal, the same for every scheduler.

Supervisors import this module, so it imports next to nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

GONE = ".gone-"
"""Prefix of the name of a folder that is being deleted."""


def lock(app_dir: str) -> str:
    return os.path.join(app_dir, "lock")


def is_locked(app_dir: str) -> bool:
    """Whether a process holds the app's lock. Writes nothing; processes that take it meanwhile retry."""
    return is_file_locked(lock(app_dir))


def is_file_locked(path: str) -> bool:
    """Whether a process holds the lock of a file; another user's file counts as locked."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # another user's file: treated as locked
        return True
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def try_lock(fd: int) -> bool:
    """Take the lock of the file open at `fd`; False when another process holds it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def is_at(fd: int, path: str) -> bool:
    """Whether the locked file is still the one at `path`, and not one of a removed folder."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def remove(app_dir: str) -> None:
    """Remove the folder of an app: atomically for other processes, even when this one is killed meanwhile."""
    folder, name = os.path.split(app_dir)
    hidden = os.path.join(folder, f"{GONE}{name}-{os.getpid()}-{time.time_ns()}")
    try:
        os.rename(app_dir, hidden)
    except FileNotFoundError:
        return
    remove_tree(hidden)


def sweep(apps_dir: str) -> None:
    """Finish interrupted removals."""
    try:
        names = os.listdir(apps_dir)
    except OSError:
        return
    for name in names:
        if name.startswith(GONE):
            remove_tree(os.path.join(apps_dir, name))


def remove_tree(top: str) -> None:
    """Delete a folder with its contents, following no links. Files of other users may remain."""
    folders = [top]
    for folder in folders:  # grows during the loop
        try:
            os.chmod(folder, 0o700)  # apps leave read-only folders behind
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        os.unlink(entry.path)
        except OSError:
            continue
    for folder in reversed(folders):
        try:
            os.rmdir(folder)
        except OSError:
            continue
