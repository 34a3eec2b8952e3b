"""The folder of an app: its lock, its files, decisions that are taken once, its removal. Python >= 3.6.

Every scheduler uses it, also on clusters, where no process holds a lock. Supervisors import this module when
they undo a submission, so it imports next to nothing.
"""

import errno
import os
import stat
import time

from launcher.filelock import is_at, is_file_locked, try_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GONE = ".gone-"
"""Prefix of the name of a folder that is being deleted."""

_PATIENCE_S = 0.2  # readers hold a lock for microseconds to test it
_AGAIN_S = 0.002
_PASSES = 8  # passes of a removal: other processes may still write into a folder that they have open


def is_id(app_id: str) -> bool:
    """Whether the text can be an app id: a folder name, neither a path nor hidden."""
    return bool(app_id) and "/" not in app_id and "\0" not in app_id and not app_id.startswith(".")


class AppFolder:
    """The folder of an app by its path; within `with` by a descriptor, which never means a later folder."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd: int | None = None

    def __enter__(self) -> "AppFolder":
        """Open the folder. Raises FileNotFoundError."""
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    @property
    def app_id(self) -> str:
        return os.path.basename(self.path)

    def _at(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self.path, name)

    # -- reading -------------------------------------------------------------------------------------------

    def names(self) -> "set[str]":
        """The names of its files and folders, by a listing: NFS caches the absence of a single name."""
        return set(os.listdir(self.path if self._fd is None else self._fd))

    def read(self, name: str) -> "bytes | None":
        """The bytes of a file; None where there is none. Raises OSError where it cannot be read."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # to open a pipe would wait for its writer
        try:
            fd = os.open(self._at(name), flags, dir_fd=self._fd)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with open(fd, "rb", buffering=0) as file:
            try:
                data = file.readall()
            except OSError as error:  # it has no file name, as for a folder
                error.filename = os.path.join(self.path, name)
                raise
            if not data and not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "it is no regular file", os.path.join(self.path, name))
            return data

    def text(self, name: str) -> "str | None":
        """The text of a file; None where there is none."""
        data = self.read(name)
        return None if data is None else data.decode("utf-8", "replace")

    def read_json(self, name: str) -> "dict[str, Any] | None":
        """The JSON object in a file; None where there is none, or the file is damaged."""
        data = self.read(name)
        return None if data is None else json_object(data)

    def age_s(self, name: str) -> float:
        """Seconds since a file was written; 0 for a missing file."""
        try:
            return time.time() - os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False).st_mtime
        except OSError:
            return 0.0

    # -- writing -------------------------------------------------------------------------------------------

    def add(self, name: str, text: "str | bytes", mode: int = 0o600, *, on_disk: bool = False) -> None:
        """Make a file that no other process reads before it is whole. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(self._at(name), flags, mode, dir_fd=self._fd)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
                if on_disk:
                    file.flush()
                    os.fsync(fd)
        except BaseException:
            self.unlink(name)
            raise

    def write(self, name: str, text: "str | bytes", mode: int = 0o600) -> None:
        """Replace a file as a whole; after an error the earlier one is still there. Raises OSError."""
        temp = f".{name}.{token()}"
        self.add(temp, text, mode)
        try:
            os.rename(self._at(temp), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            self.unlink(temp)
            raise

    def link(self, name: str, text: str) -> bool:
        """Make a file, on disk, unless it exists; returns whether this process made it."""
        temp = f".{name}.{token()}"
        self.add(temp, text, on_disk=True)
        try:
            try:
                os.link(self._at(temp), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except FileExistsError:
                pass
            # NFS may have lost the reply to a link that was made: the count of links decides.
            return os.stat(self._at(temp), dir_fd=self._fd).st_nlink == 2
        finally:
            self.unlink(temp)

    def link_to(self, source: str, name: str) -> bool:
        """Link an existing file, as `link` does; this also works on a full disk."""
        try:
            os.link(self._at(source), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except FileExistsError:
            pass
        made, wanted = (os.stat(self._at(each), dir_fd=self._fd) for each in (name, source))
        return os.path.samestat(made, wanted)

    def unlink(self, name: str) -> None:
        """Remove a file, if it is there and can be removed."""
        try:
            os.unlink(self._at(name), dir_fd=self._fd)
        except OSError:
            pass

    # -- its lock ------------------------------------------------------------------------------------------

    @property
    def lock(self) -> str:
        """The path of its lock."""
        return os.path.join(self.path, "lock")

    def is_locked(self) -> bool:
        """Whether a process holds its lock. Writes nothing; processes that take it meanwhile retry."""
        return is_file_locked(self.lock)

    def take_lock(self) -> int:
        """Take the lock; returns an open descriptor that holds it, also in processes that inherit it.

        Raises BlockingIOError while another process holds it, FileNotFoundError where the folder does not
        exist or was removed meanwhile, OSError where the lock file cannot be opened.
        """
        path = self.lock
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

    def make_and_lock(self) -> int:
        """As `take_lock`, after making a missing folder."""
        while True:
            try:
                os.makedirs(self.path, mode=0o700, exist_ok=True)
                return self.take_lock()
            except FileNotFoundError:  # another process removed it just now
                continue

    # -- its removal ---------------------------------------------------------------------------------------

    def remove(self) -> None:
        """Remove the folder with its contents; atomic for other processes, even if this process is killed."""
        folder, name = os.path.split(self.path)
        hidden = os.path.join(folder, GONE + name + "-" + token())
        try:
            os.rename(self.path, hidden)
        except FileNotFoundError:
            return
        if self._fd is not None and not self.is_in_place(hidden):
            # Another process had removed it and made a new one, just before the rename.
            try:
                os.rename(hidden, self.path)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise  # else a newer folder is there, as this folder's owner notices at its next step
        remove_tree(hidden)

    def is_in_place(self, path: str = "") -> bool:
        """Whether the open folder is still at its path; or whether it is at the given path."""
        try:
            return self._fd is not None and os.path.samestat(os.fstat(self._fd), os.stat(path or self.path))
        except OSError:
            return False


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
    for _ in range(_PASSES):
        folders = [top]
        for folder in folders:  # grows during the loop
            folders += _clear(folder)
        for folder in reversed(folders):
            try:
                os.rmdir(folder)
            except OSError:
                continue
        if not os.path.lexists(top):
            return
        time.sleep(_AGAIN_S)


def _clear(folder: str) -> "list[str]":
    """Remove the files in a folder; returns the paths of the folders in it."""
    found = []
    try:
        os.chmod(folder, 0o700)  # apps leave read-only folders behind
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    found.append(entry.path)
                else:
                    AppFolder(folder).unlink(entry.name)
    except OSError:
        pass
    return found


def json_object(data: bytes) -> "dict[str, Any] | None":
    """The JSON object in the bytes of a file; None where they are damaged."""
    from launcher.holding.journal import from_json

    try:
        found = from_json(data.decode("utf-8", "surrogateescape"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def token() -> str:
    """Text for a name that no other process uses."""
    return os.urandom(6).hex()
