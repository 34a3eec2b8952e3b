"""A cache folder for results that can be computed again: private, of bounded size, safe to delete.

A fault of the folder, such as a full disk, another owner or a damaged entry, is no error: nothing is cached
then.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from launcher.hashes import blake2b
from launcher.paths import xdg_folder

MOST_BYTES = 64 << 20
MOST_ENTRIES = 1000  # the least recently used ones are removed first
_LARGEST = 16 << 20
_KEY = "key"
_KEY_BYTES = 32
_SEAL_BYTES = 16
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FRESH_S = 3600  # an entry used within these seconds is not marked as used again


def path() -> str:
    """Return $XDG_CACHE_HOME/launcher, else ~/.cache/launcher; "" if neither is an absolute path."""
    cache = xdg_folder("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    return os.path.join(cache, "launcher") if os.path.isabs(cache) else ""


class CacheFolder:
    """The folder, held open: another folder in its place is never read or written.

    Attributes:
        key: random bytes that were made with the folder. Without the key, digests made with it reveal
            nothing. An entry that is not sealed with the key was not written by this user.
    """

    def __init__(self, descriptor: int, key: bytes) -> None:
        self._folder = descriptor
        self.key = key

    @classmethod
    def opened(cls) -> CacheFolder | None:
        """Return the folder, made if missing; None where it is unusable or other users could change it."""
        try:
            folder = _open_folder(where) if (where := path()) else -1
        except OSError:
            folder = -1
        if folder < 0:
            return None
        try:
            key = _key(folder)
        except OSError:
            key = b""
        if not key:
            os.close(folder)
        return cls(folder, key) if key else None

    def close(self) -> None:
        os.close(self._folder)

    def read(self, name: str) -> bytes | None:
        """Return the data of an entry; None for an entry that is missing, damaged or not the user's own."""
        try:
            found = _read(self._folder, name, _LARGEST)
        except OSError:
            return None
        seal, data = found[:_SEAL_BYTES], found[_SEAL_BYTES:]
        return data if seal == self._seal(name, data) else None

    def mark_used(self, name: str, now: float) -> None:
        """Record that an entry was used, so that entries used earlier are removed first."""
        try:
            if now - os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_mtime > _FRESH_S:
                os.utime(name, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            pass

    def write(self, name: str, data: bytes) -> None:
        """Keep the data of an entry: other processes find the old data or the new. Makes room for it."""
        if len(data) > _LARGEST:
            return
        try:
            self._make_room(len(data))
            _write(self._folder, name, self._seal(name, data) + data)
        except OSError:
            pass

    def _seal(self, name: str, data: bytes) -> bytes:
        whole = blake2b(name.encode(), digest_size=_SEAL_BYTES, key=self.key)
        whole.update(data)
        return whole.digest()

    def _make_room(self, size: int) -> None:
        found = sorted(self._entries())
        total = sum(each for _, each, _ in found) + size
        for at, (_, length, name) in enumerate(found):
            if total <= MOST_BYTES and len(found) - at < MOST_ENTRIES:
                return
            _remove(self._folder, name)
            total -= length

    def _entries(self) -> Iterator[tuple[float, int, str]]:
        """Yield (time of last use, size, name) of each entry and of each file that a killed writer left."""
        with os.scandir(self._folder) as items:
            for item in items:
                if item.name == _KEY:
                    continue
                try:
                    about = item.stat(follow_symlinks=False)
                except OSError:
                    continue
                yield about.st_mtime, about.st_size, item.name


def _open_folder(where: str) -> int:
    """Return a descriptor of the private folder. Raises OSError."""
    try:
        os.mkdir(where, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        os.makedirs(os.path.dirname(where), mode=0o700, exist_ok=True)
        os.mkdir(where, 0o700)
    folder = os.open(where, _OPEN | os.O_RDONLY | os.O_DIRECTORY)
    try:
        _check_own(os.fstat(folder))
    except OSError:
        os.close(folder)
        raise
    return folder


def _check_own(about: os.stat_result) -> None:
    """Raise PermissionError for a file or folder that another user owns or has rights to."""
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def _key(folder: int) -> bytes:
    """Return the key, made when it is missing or damaged; processes that race to make it get the same one."""
    try:
        found = _read(folder, _KEY, _KEY_BYTES)
    except FileNotFoundError:
        found = b""
    if len(found) == _KEY_BYTES:
        return found
    _write(folder, _KEY, os.urandom(_KEY_BYTES), replaces=bool(found))
    found = _read(folder, _KEY, _KEY_BYTES)
    return found if len(found) == _KEY_BYTES else b""


def _read(folder: int, name: str, limit: int) -> bytes:
    """Return the bytes of an entry. Raises OSError also for anything but the user's own regular file."""
    with open(os.open(name, _OPEN | os.O_RDONLY, dir_fd=folder), "rb", buffering=0) as file:
        about = os.fstat(file.fileno())
        _check_own(about)
        if not stat.S_ISREG(about.st_mode) or about.st_size > limit + _SEAL_BYTES:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
        return file.readall()


def _write(folder: int, name: str, data: bytes, *, replaces: bool = True) -> None:
    """Write a file whole, or raise OSError and change nothing. Without `replaces`, an existing file stays."""
    beside = f"{name}.{os.getpid()}-{os.urandom(4).hex()}.new"
    flags = _OPEN | os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with open(os.open(beside, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
        if replaces:
            os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            try:
                os.link(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except FileExistsError:
                pass
            _remove(folder, beside)
    except BaseException:
        _remove(folder, beside)
        raise


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass
