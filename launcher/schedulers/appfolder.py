"""The folder of an app on this machine: its lock and its removal, the same for every scheduler.

Supervisors import this module, so it imports next to nothing.
"""

from __future__ import annotations

import errno
import os
import time

from launcher.filelock import is_at, is_file_locked, try_lock

GONE = ".gone-"
"""Prefix of the name of a folder that is being deleted."""

_PATIENCE_S = 0.2  # readers hold a lock for microseconds to test it
_AGAIN_S = 0.002


def is_id(app_id: str) -> bool:
    """Whether it can be an app id: a folder name, neither a path nor hidden."""
    return bool(app_id) and "/" not in app_id and "\0" not in app_id and not app_id.startswith(".")


def lock(app_dir: str) -> str:
    return os.path.join(app_dir, "lock")


def is_locked(app_dir: str) -> bool:
    """Whether a process holds the app's lock. Writes nothing; processes that take it meanwhile retry."""
    return is_file_locked(lock(app_dir))


def take_lock(app_dir: str) -> int:
    """Take the lock of an app's folder: an open descriptor that holds it, also in processes that inherit it.

    Raises BlockingIOError while another process holds it, FileNotFoundError where the folder does not exist
    or was removed meanwhile, OSError where the lock file cannot be opened.
    """
    path = lock(app_dir)
    deadline = time.monotonic() + _PATIENCE_S
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            taken = try_lock(fd)
            if not is_at(fd, path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            if taken:
                return fd
            if time.monotonic() > deadline:
                raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
            time.sleep(_AGAIN_S)
    except BaseException:
        os.close(fd)
        raise


def make_and_lock(app_dir: str) -> int:
    """`take_lock`, of a folder that is made where there is none."""
    while True:
        try:
            os.makedirs(app_dir, mode=0o700, exist_ok=True)
            return take_lock(app_dir)
        except FileNotFoundError:  # removed just now
            continue


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
