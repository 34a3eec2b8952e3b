"""The folder of an app on this machine: its lock and its removal, as every scheduler that keeps one does it.

Supervisors run on this, so it loads next to nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

GONE = ".gone-"
"""How the name of a folder begins that is being deleted."""


def lock(app_dir: str) -> str:
    return os.path.join(app_dir, "lock")


def is_locked(app_dir: str) -> bool:
    """Whether somebody works on the app. Writes nothing; whoever takes the lock meanwhile must try again."""
    return is_file_locked(lock(app_dir))


def is_file_locked(path: str) -> bool:
    """Whether a process holds the lock of a file; another user's file counts as locked."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # another user's: whoever may not look must not act either
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
    """Take the lock that is open at `fd`; False when somebody has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def is_at(fd: int, path: str) -> bool:
    """Whether the file that we locked is still the one at `path`, and not one of a folder just removed."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def remove(app_dir: str) -> None:
    """Remove the folder of an app: at once for everybody else, even if we are killed while deleting."""
    folder, name = os.path.split(app_dir)
    hidden = os.path.join(folder, f"{GONE}{name}-{os.getpid()}-{time.time_ns()}")
    try:
        os.rename(app_dir, hidden)
    except FileNotFoundError:
        return
    remove_tree(hidden)


def sweep(apps_dir: str) -> None:
    """Finish the removals that somebody was killed in."""
    try:
        names = os.listdir(apps_dir)
    except OSError:
        return
    for name in names:
        if name.startswith(GONE):
            remove_tree(os.path.join(apps_dir, name))


def remove_tree(top: str) -> None:
    """Delete a folder and what is in it, following no links. What is not ours to delete stays."""
    folders = [top]
    for folder in folders:  # grows while we walk it
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
