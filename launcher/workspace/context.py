"""The contents of a workspace: the files that count, in one order, and their digest.

Equal for equal contents in every checkout: paths, contents, links as written, and whether a file may
be executed. Owners, times, other modes, empty folders, sockets, pipes and devices do not count.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from launcher import paths
from launcher.files import GONE, open_regular
from launcher.hashes import sha256
from launcher.looks import noted
from launcher.workspace.ignore import Ignore, WorkspaceError, read_ignore
from launcher.workspace.manifest import File, remember

if TYPE_CHECKING:
    from hashlib import _Hash as Hash


def walk_workspace(path: str | os.PathLike[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the files that count in a local folder, from the top: (folder, folders, files), like os.walk.

    The folder is a path or a `file://` address. Ignored files and folders without files that count are left
    out; links are among the files, and not followed. Names come in the order of their bytes; a folder that
    the caller removes from the list is not entered. Raises WorkspaceError for a folder that does not exist
    or cannot be read, or a wrong ignore file.
    """
    top = source_path(os.fspath(path))
    found: dict[str, tuple[list[str], list[str]]] = {"": ([], [])}
    for entry in entries(top):
        folder, _, name = entry.path.rpartition("/")
        _add(found, folder)
        found[folder][1].append(name)
    pending = [""]
    while pending:
        folder = pending.pop()
        dirs, files = found[folder]
        yield os.path.join(top, folder) if folder else top, dirs, files
        pending += [f"{folder}/{name}" if folder else name for name in reversed(dirs)]


def source_path(source: str) -> str:
    """Return the absolute path of a project, from a path or a `file://` address.

    Raises WorkspaceError for another scheme, and for a path that does not exist.
    """
    scheme, address, rest = source.partition("://")
    if address and scheme != "file" and scheme.isalnum():
        message = f"a workspace cannot be read from {scheme}://: {source}"
        raise WorkspaceError(message, hint="it is made of local folders and files")
    path = os.path.abspath(os.path.expanduser(rest if address and scheme == "file" else source))
    if not os.path.lexists(path):
        raise WorkspaceError(f"there is no {path}", hint="a workspace is made of local folders and files")
    return path


def _add(found: dict[str, tuple[list[str], list[str]]], folder: str) -> None:
    """Add the folder and the folders above it. Uses a loop, since folders may be nested deeper than calls."""
    missing = []
    while folder not in found:
        missing.append(folder)
        folder = folder.rpartition("/")[0]
    for path in reversed(missing):
        parent, _, name = path.rpartition("/")
        found[parent][0].append(name)
        found[path] = ([], [])


PREFIX = "ws1:sha256:"
_MARKS = {"file": b"f", "program": b"x", "link": b"l"}
MAX_FILES = 250_000
MAX_BYTES = 64 << 30
"""Limits of a workspace: larger ones take minutes to read for every plan."""

_HASH_BYTES = 12  # bytes of a hash that identify contents in a manifest
_CHUNK = 1 << 20
_MANY_BYTES = 32 << 20  # number of files from which threads save more time than their import takes
_THREADS = 4


class ContextFile(NamedTuple):
    """A file that counts. `path` is relative, with forward slashes; `program`: it is executable."""

    path: str
    kind: Literal["file", "program", "link"]
    size: int


def content_digest(folder: str) -> str:
    """Return "ws1:sha256:<hex>" of the files of a folder. Raises WorkspaceError when it cannot be read."""
    return digest_of(folder, entries(folder))


@noted
def project_digest(path: str) -> str:
    """ "ws1:sha256:<hex>" of the files of a folder, or of a single file with its name.

    Raises WorkspaceError when it cannot be read.
    """
    return digest_of(*parts(path))


def digest_of(folder: str, found: list[ContextFile]) -> str:
    """Return "ws1:sha256:<hex>" of some entries of a folder."""
    whole = sha256()
    files: dict[str, File] = {}
    for entry, content in zip(found, _hashes(folder, found), strict=True):
        if content:  # otherwise another program has removed the file meanwhile
            fed(whole, entry, content)
            files[entry.path] = File(entry.kind, entry.size, content[:_HASH_BYTES].hex())
    digest = PREFIX + whole.hexdigest()
    remember(digest, files)
    return digest


def fed(whole: Hash, entry: ContextFile, content: bytes) -> None:
    """Add an entry, with the hash of its contents, to the hash of its workspace."""
    whole.update(_MARKS[entry.kind] + os.fsencode(entry.path) + b"\0" + content)


def entries(folder: str) -> list[ContextFile]:
    """The files that count in a folder, by path. Raises WorkspaceError."""
    return sorted(files_below(folder, read_ignore(folder)), key=lambda entry: os.fsencode(entry.path))


def files_below(folder: str, ignore: Ignore) -> Iterator[ContextFile]:
    """The files and links below a folder that `ignore` leaves, in no order. Links are not followed.

    Raises WorkspaceError for a folder that holds more than MAX_FILES or MAX_BYTES.
    """
    # Launcher's own records, if LAUNCHER_HOME is here: they change with every apply.
    state = os.path.relpath(os.path.realpath(paths.home()), os.path.realpath(folder))
    waiting, seen, size = [""], 0, 0
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(os.path.join(folder, inside)) as found:
                scanned = list(found)
        except OSError as error:
            if isinstance(error, GONE) and inside:
                continue  # removed since its parent was listed
            raise unreadable(os.path.join(folder, inside), error) from error
        seen += len(scanned)
        if seen > MAX_FILES:
            raise too_large(folder)
        for item in scanned:
            path = f"{inside}{item.name}"
            if item.is_dir(follow_symlinks=False):
                if path != state and not ignore.ignores_all_below(path):
                    waiting.append(f"{path}/")
            elif not ignore.ignores(path) and (entry := _looked_at(path, item)):
                size += entry.size
                if size > MAX_BYTES:
                    raise too_large(folder)
                yield entry


def parts(path: str) -> tuple[str, list[ContextFile]]:
    """Return a project as entries of a folder: all files that count, or the project's single file or link.

    Raises WorkspaceError for anything else.
    """
    if os.path.isdir(path):
        return path, entries(path)
    folder, name = os.path.split(path)
    try:
        entry = _entry(name, os.lstat(path))
    except OSError as error:
        raise unreadable(path, error) from error
    if entry is None:
        raise WorkspaceError(f"{path} is neither file nor folder", hint="leave it out")
    return folder, [entry]


def content_hash(path: str, entry: ContextFile) -> bytes:
    """SHA-256 of the contents of the entry at `path`. Raises OSError."""
    if entry.kind == "link":
        return sha256(os.fsencode(os.readlink(path))).digest()
    return file_hash(path)


def file_hash(path: str) -> bytes:
    """SHA-256 of a regular file. Raises OSError."""
    import hashlib

    whole = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            whole.update(chunk)
    return whole.digest()


def _looked_at(path: str, item: os.DirEntry[str]) -> ContextFile | None:
    """Return the entry; None if it is neither file nor link, or a file that was just removed."""
    try:
        return _entry(path, item.stat(follow_symlinks=False))
    except FileNotFoundError:
        return None


def _entry(path: str, about: os.stat_result) -> ContextFile | None:
    if stat.S_ISLNK(about.st_mode):
        return ContextFile(path, "link", 0)
    if not stat.S_ISREG(about.st_mode):
        return None
    return ContextFile(path, "program" if about.st_mode & stat.S_IXUSR else "file", about.st_size)


def _hashes(folder: str, found: list[ContextFile]) -> Iterator[bytes]:
    """Yield the hash of each entry in order; b"" for a file that was just removed."""

    def one(entry: ContextFile) -> bytes:
        path = os.path.join(folder, entry.path)
        try:
            return content_hash(path, entry)
        except GONE:
            return b""
        except OSError as error:
            raise unreadable(path, error) from error

    if len(found) < 2 or sum(entry.size for entry in found) < _MANY_BYTES:
        yield from map(one, found)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as pool:  # hashing and reading release the interpreter lock
        yield from pool.map(one, found)


def too_large(what: str) -> WorkspaceError:
    return WorkspaceError(
        f"{what} holds more than {MAX_FILES:,} files, or more than {MAX_BYTES >> 30} GiB",
        hint="name a smaller folder, or leave data out with lines in .launcherignore",
    )


def changed(path: str) -> WorkspaceError:
    return WorkspaceError(
        f"the workspace {path} has changed since launcher listed it",
        hint="plan and apply again when no program writes to it",
    )


def unreadable(path: str, error: OSError) -> WorkspaceError:
    hint = None
    if isinstance(error, PermissionError):
        hint = "leave it out with a line in .launcherignore, or make it readable"
    return WorkspaceError(f"cannot read {path}: {error.strerror or error}", hint=hint)
