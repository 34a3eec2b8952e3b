"""A workspace as a tar stream of the files in its digest: equal bytes for equal digests.

Times and owners are zero, modes are 644 or 755, and links stay links. The stream is hashed while
it is sent, so that a folder that changes meanwhile never becomes an image with the old digest.
"""

from __future__ import annotations

import io
import os
import posixpath
import tarfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from hashlib import sha256

from launcher.workspace.context import PREFIX, ContextFile, changed, entries, fed, unreadable
from launcher.workspace.ignore import WorkspaceError

_READ = 1 << 18
_BLOCK = 1 << 18  # bytes of a piece: a request sends each piece separately
_PAD = tarfile.BLOCKSIZE


def archive(
    folder: str, *, digest: str | None = None, below: str = "", extra: Mapping[str, bytes] | None = None
) -> Iterator[bytes]:
    """Yield a tar archive, with the files in its folder `below`; only a few pieces are in memory at a time.

    Args:
        digest: the expected digest of the folder (`content_digest`).
        extra: files to add at these paths in the archive, unless the workspace puts one there.

    Raises WorkspaceError when the folder cannot be read or does not match; the archive is then incomplete.
    """
    return _blocks(_archive(folder, digest, below, extra or {}))


def _archive(folder: str, digest: str | None, below: str, extra: Mapping[str, bytes]) -> Iterator[bytes]:
    found = entries(folder)
    whole = sha256()
    made: set[str] = set()
    if below:
        yield from _folders(f"{below}/x", made)
    for entry in found:
        name = posixpath.join(below, entry.path)
        yield from _folders(name, made)
        content = yield from _member(folder, entry, name)
        fed(whole, entry, content)
    if digest is not None and PREFIX + whole.hexdigest() != digest:
        raise changed(folder)
    there = {posixpath.join(below, entry.path) for entry in found}
    for name in sorted(extra.keys() - there):
        yield from _file(name, io.BytesIO(extra[name]), len(extra[name]), program=False)
    yield bytes(2 * _PAD)


def _member(folder: str, entry: ContextFile, name: str) -> Generator[bytes, None, bytes]:
    """Add one file or link; returns the hash of its contents."""
    path = os.path.join(folder, entry.path)
    try:
        if entry.kind == "link":
            target = os.readlink(path)
            yield _header(name, tarfile.SYMTYPE, 0o777, link=target)
            return sha256(os.fsencode(target)).digest()
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            return (yield from _file(name, file, size, program=entry.kind == "program"))
    except FileNotFoundError:
        raise WorkspaceError(f"{path} went away while it was read", hint="try again") from None
    except OSError as error:
        raise unreadable(path, error) from error


def _file(
    name: str, file: io.RawIOBase | io.BytesIO, size: int, *, program: bool
) -> Generator[bytes, None, bytes]:
    """Yield a file's contents in pieces; returns the hash of the contents."""
    yield _header(name, tarfile.REGTYPE, 0o755 if program else 0o644, size=size)
    content, left = sha256(), size
    while left:
        piece = file.read(min(_READ, left))
        if not piece:
            raise WorkspaceError(f"{name} became shorter while it was read", hint="try again")
        content.update(piece)
        left -= len(piece)
        yield piece
    yield bytes(-size % _PAD)
    return content.digest()


def _folders(name: str, made: set[str]) -> Iterator[bytes]:
    """Add missing parent folders of a file, so that their modes do not depend on the reader."""
    parts = name.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        if folder not in made:
            made.add(folder)
            yield _header(f"{folder}/", tarfile.DIRTYPE, 0o755)


def _header(name: str, kind: bytes, mode: int, *, size: int = 0, link: str = "") -> bytes:
    about = tarfile.TarInfo(name)
    about.type, about.mode, about.size, about.linkname = kind, mode, size, link
    return about.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in larger pieces, to save system calls."""
    held, size = [], 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)
