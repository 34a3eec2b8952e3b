"""Unpack a tar stream into a new folder, whole or not at all, and never outside of the folder.

The archive comes from another user or machine, so nothing in it is trusted.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from posixpath import normpath
from shutil import rmtree
from typing import Any, NamedTuple

from launcher.errors import LauncherError
from launcher.filelock import is_at, try_lock

_BLOCK = 1 << 20


class UnpackError(LauncherError):
    """The archive has a member that cannot be unpacked, or a file cannot be written."""


class Unpacked(NamedTuple):
    """The number of files that were unpacked, and of their bytes."""

    files: int
    size: int


class PieceReader(io.RawIOBase):
    """A readable file over pieces of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held and (piece := next(self._pieces, None)) is not None:
            self._held = piece
        count = min(len(buffer), len(self._held))
        buffer[:count], self._held = self._held[:count], self._held[count:]
        return count


def unpack(pieces: Iterator[bytes], folder: str, *, top: str = "") -> Unpacked:
    """Unpack an archive into `folder`, which does not exist or is empty, by one rename at the end.

    A process that is killed leaves a hidden folder beside it, which the next one removes.

    Args:
        top: the folder of the archive that becomes `folder`; "" for all of it.

    Raises UnpackError, what `pieces` raises, and LauncherError for a folder with something in it.
    """
    folder = os.path.realpath(folder)
    check_free(folder)
    try:
        with _beside(folder) as part:
            done = _Unpacking(part, top).run(pieces)
            check_free(folder)
            os.rename(part, folder)
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else folder
        raise UnpackError(f"cannot write {where}: {error.strerror or error}") from error
    return done


class ArchiveMember(NamedTuple):
    """A file of an archive, with the time of its last change in seconds since the epoch."""

    data: bytes
    changed_at: float


def first_file(pieces: Iterator[bytes], name: str, most: int) -> ArchiveMember | None:
    """The first member of an archive; None unless it is a file of that name with at most `most` bytes.

    Raises UnpackError, and what `pieces` raises.
    """
    try:
        with tarfile.open(fileobj=io.BufferedReader(PieceReader(pieces), _BLOCK), mode="r|") as archive:
            found = archive.next()
            if found is None or not found.isreg() or found.name != name or found.size > most:
                return None
            source = archive.extractfile(found)
            return None if source is None else ArchiveMember(source.read(), float(found.mtime))
    except tarfile.TarError as error:
        raise UnpackError(f"the archive is damaged: {error}") from error


def check_free(folder: str) -> None:
    """Raise LauncherError unless nothing would be overwritten in `folder`."""
    hint = "name a folder that does not exist, or is empty"
    try:
        if os.listdir(folder):
            raise LauncherError(f"{folder} is not empty", hint=hint)
        if os.path.samefile(folder, os.curdir):
            raise LauncherError(f"{folder} is the current folder, which cannot be replaced", hint=hint)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LauncherError(f"cannot write {folder}: {error.strerror}", hint=hint) from error


@contextmanager
def _beside(folder: str) -> Iterator[str]:
    """Make a folder on the same disk, in a hidden folder that is locked while this process lives."""
    parent, name = os.path.split(folder)
    made = []  # the deepest folder comes first
    missing = parent
    while not os.path.lexists(missing):
        made.append(missing)
        missing = os.path.dirname(missing)
    os.makedirs(parent, exist_ok=True)
    prefix = f".{name}.launcher-"
    _remove_dead(parent, prefix)
    hidden, fd = _locked(parent, prefix)
    part = os.path.join(hidden, "files")
    try:
        os.mkdir(part)
        yield part
    finally:
        rmtree(hidden, ignore_errors=True)
        os.close(fd)
        for each in made:
            with suppress(OSError):  # the folder contains files now
                os.rmdir(each)


def _locked(parent: str, prefix: str) -> tuple[str, int]:
    for _ in range(100):
        hidden = os.path.join(parent, f"{prefix}{os.urandom(6).hex()}")
        os.mkdir(hidden, 0o700)
        fd = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if try_lock(fd) and is_at(fd, hidden):
            return hidden, fd
        os.close(fd)  # another process believed that the folder's owner had died
    raise UnpackError(f"other processes remove the folders that this one makes in {parent}")


def _remove_dead(parent: str, prefix: str) -> None:
    """Remove the folders that killed processes left."""
    for name in os.listdir(parent):
        if not name.startswith(prefix):
            continue
        path = os.path.join(parent, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if try_lock(fd):
                rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)


class _Unpacking:
    """One archive on its way into an empty folder.

    Args:
        top: as in `unpack`.
    """

    def __init__(self, folder: str, top: str) -> None:
        self._folder = folder
        self._top = top
        self._last_parent = folder
        self._has_links = False
        self._files = self._size = 0

    def run(self, pieces: Iterator[bytes]) -> Unpacked:
        try:
            with tarfile.open(fileobj=io.BufferedReader(PieceReader(pieces), _BLOCK), mode="r|") as archive:
                while (member := archive.next()) is not None:
                    self._add(archive, member)
                    archive.members.clear()  # type: ignore[attr-defined]  # else it remembers them all
            for _ in pieces:  # an error after the archive's end means that the archive is incomplete
                continue
        except tarfile.TarError as error:
            raise UnpackError(f"the archive is damaged: {error}") from error
        if self._has_links:
            self._check_links()
        return Unpacked(self._files, self._size)

    def _add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = self._place(member.name)
        if path == self._folder:
            if not member.isdir():
                raise self._refused(member.name, "is not a folder")
        elif member.isdir():
            with suppress(FileExistsError):
                os.mkdir(path)
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise self._refused(member.name, "is there twice")
        elif member.isreg():
            self._file(archive, member, path)
        elif member.issym():
            self._link(member, path)
        elif member.islnk():
            self._hard_link(member, path)
        else:
            raise self._refused(member.name, "is a device or a pipe")

    def _place(self, name: str) -> str:
        """The absolute path of a member, in a folder that exists. Raises UnpackError for one outside."""
        if name.startswith("/"):
            raise self._refused(name, "is an absolute path")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self._refused(name, "leaves the folder")
        if self._top:
            if parts[:1] != [self._top]:
                raise self._refused(name, f"is not below {self._top}")
            del parts[0]
        if not parts:
            return self._folder
        parent = os.path.join(self._folder, *parts[:-1])
        if parent != self._last_parent:
            if os.path.realpath(parent) != parent:
                raise self._refused(name, "is behind a link")
            os.makedirs(parent, exist_ok=True)
            self._last_parent = parent
        return os.path.join(parent, parts[-1])

    def _file(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        source = archive.extractfile(member)
        assert source is not None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o777 if member.mode & 0o100 else 0o666)
        except FileExistsError:
            raise self._refused(member.name, "is there twice") from None
        with open(fd, "wb", buffering=0) as file:
            for piece in iter(lambda: source.read(_BLOCK), b""):
                while piece:
                    piece = piece[file.write(piece) :]
            with suppress(OSError, OverflowError, ValueError):
                os.utime(fd, (member.mtime, member.mtime))
        self._files += 1
        self._size += member.size

    def _link(self, member: tarfile.TarInfo, path: str) -> None:
        inside = os.path.relpath(os.path.dirname(path), self._folder)
        if member.linkname.startswith("/") or normpath(f"{inside}/{member.linkname}").split("/")[0] == "..":
            raise self._refused(member.name, f"is a link that leaves the folder, to {member.linkname!r}")
        try:
            os.symlink(member.linkname, path)
        except FileExistsError:
            raise self._refused(member.name, "is there twice") from None
        self._has_links = True
        self._last_parent = self._folder  # the path may have been a link

    def _hard_link(self, member: tarfile.TarInfo, path: str) -> None:
        source = self._place(member.linkname)
        if not os.path.lexists(source) or not stat.S_ISREG(os.lstat(source).st_mode):
            why = f"is a link to {member.linkname!r}, which is no file of the folder"
            raise self._refused(member.name, why)
        try:
            os.link(source, path, follow_symlinks=False)
        except FileExistsError:
            raise self._refused(member.name, "is there twice") from None
        self._files += 1

    def _check_links(self) -> None:
        """Refuse links that leave the folder through other links."""
        for parent, folders, files in os.walk(self._folder):
            for name in (*folders, *files):
                path = os.path.join(parent, name)
                if not os.path.islink(path):
                    continue
                found = os.path.realpath(path)
                if found != self._folder and not found.startswith(self._folder + os.sep):
                    inside = os.path.relpath(path, self._folder)
                    raise self._refused(inside, f"is a link that leaves the folder, to {os.readlink(path)!r}")

    def _refused(self, name: str, why: str) -> UnpackError:
        inside = name.removeprefix(f"{self._top}/") if self._top else name
        hint = "nothing was copied; remove it there, or copy the files by hand"
        return UnpackError(f"{inside!r} {why}", hint=hint)
