"""An app directory: files that appear whole, and decisions by one link each."""

import errno
import json
import os
import re
import time
from typing import Any, Dict, List, Optional, Set, Tuple, Union

from launcher.holding.journal import read_events

Json = Dict[str, Any]
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,199}\Z")
"""Of app ids, role folders, output folders and files: no path, no option, no hidden file."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class OpError(Exception):
    """kind: reserved, refused, no-slurm, unreachable, full-disk, state, unknown-app, live, after."""

    def __init__(self, kind: str, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.detail = detail


class Folder:
    """An open app directory. Another one that replaces it under its name is not touched through this one."""

    def __init__(self, path: str) -> None:
        """Raises FileNotFoundError."""
        self.path = path
        self.app_id = os.path.basename(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self._fd)

    def names(self) -> Set[str]:
        """Listed, not probed one by one: NFS caches that a name is missing."""
        return set(os.listdir(self._fd))

    def text(self, name: str) -> Optional[str]:
        try:
            fd = os.open(name, os.O_RDONLY, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read().decode("utf-8", "replace")

    def json(self, name: str) -> Optional[Json]:
        """Raises OpError state for anything but a JSON object."""
        text = self.text(name)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise OpError("state", f"{os.path.join(self.path, name)} is damaged")
        return found

    def events(self) -> List[Json]:
        """The events of the app's record."""
        try:
            fd = os.open("events", os.O_RDONLY, dir_fd=self._fd)
        except FileNotFoundError:
            return []
        with os.fdopen(fd, "rb") as file:
            return read_events(file.read())

    def write(self, name: str, text: Union[str, bytes], mode: int = 0o600) -> None:
        """Replace a file as a whole; after an error the earlier one is still there."""
        temp = self._temporary(name, text, mode)
        try:
            os.rename(temp, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            self.unlink(temp)
            raise

    def link(self, name: str, text: str) -> bool:
        """Make a file that only the first writer makes; whether this was the first one."""
        temp = self._temporary(name, text, 0o600)
        try:
            try:
                os.link(temp, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except FileExistsError:
                pass
            # NFS may have lost the reply to a link that was made: the count of links decides.
            return os.stat(temp, dir_fd=self._fd).st_nlink == 2
        finally:
            self.unlink(temp)

    def link_to(self, source: str, name: str) -> bool:
        """Like `link`, with an existing file: it also works when the disk is full."""
        try:
            os.link(source, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except FileExistsError:
            pass
        made, wanted = os.stat(name, dir_fd=self._fd), os.stat(source, dir_fd=self._fd)
        return (made.st_dev, made.st_ino) == (wanted.st_dev, wanted.st_ino)

    def unlink(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._fd)
        except OSError:
            pass

    def is_at(self, path: str) -> bool:
        """Whether this is the directory of that path now."""
        mine = os.fstat(self._fd)
        try:
            there = os.stat(path)
        except OSError:
            return False
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def age_s(self, name: str) -> float:
        """Seconds since it was written, 0 when it has gone."""
        try:
            return time.time() - os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_mtime
        except OSError:
            return 0.0

    def owner(self) -> Tuple[Optional[Json], str, str]:
        """The present owner, the name of its file, and the name of its successor's."""
        owner: Optional[Json] = None
        at, name = "", "owner"
        while True:
            found = self.json(name)
            if found is None:
                return owner, at, name
            owner, at, name = found, name, "owner." + checked(str(found.get("nonce")))

    def _temporary(self, name: str, text: Union[str, bytes], mode: int) -> str:
        temp = f".{name}.{token()}"
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=self._fd)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
        except BaseException:
            self.unlink(temp)
            raise
        return temp


def token() -> str:
    return os.urandom(6).hex()


def checked(name: Any) -> str:
    """Raises OpError state for a name that may lead out of its directory."""
    if not isinstance(name, str) or not NAME.match(name):
        raise OpError("state", f"{name!r} is no name of an app, a folder or a file")
    return name


def replace(path: str, text: str) -> None:
    """Write a cache as a whole; it stays as it is where it cannot be written."""
    temp = f"{path}.{token()}"
    try:
        with open(temp, "w") as file:
            file.write(text)
        os.rename(temp, path)
    except OSError:
        try:
            os.unlink(temp)
        except OSError:
            pass
