"""Take and test locks of files (flock), which the kernel releases when their holder dies.

Supervisors import this module, so it imports next to nothing.
"""

import errno
import fcntl
import os


def is_file_locked(path: str) -> bool:
    """Whether a process holds the lock of a file; another user's file counts as locked."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
    """Return whether the locked file is still at `path`, rather than in a removed folder."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False
