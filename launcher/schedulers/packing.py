"""Pack an output folder as a tar stream, and unpack one as the workspace of an app.

On clusters the module runs as a program, which reads a line of JSON: Python 3.6 and its standard library.
"""

import json
import os
import shutil
import stat
import sys
import tarfile
from typing import IO, Iterator

BLOCK = 1 << 18
MAX_HEADER = 1 << 16
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def packed(folder: str, only: str = "") -> Iterator[bytes]:
    """The pieces of a tar archive of a folder's contents, or of one entry, a block in memory at a time.

    Links are packed as links. An entry that is removed meanwhile is left out; a growing file is packed with
    its first size. Raises OSError, and ValueError for an entry that is no file, folder or link, or is cut
    while it is read.
    """
    fd = os.open(folder, _FLAGS | os.O_DIRECTORY)
    try:
        yield from _below(fd, "", only)
    except RecursionError:
        raise ValueError("its folders are too deep") from None
    yield bytes(2 * tarfile.BLOCKSIZE)


def _below(fd: int, path: str, only: str = "") -> Iterator[bytes]:
    """The archive members of the folder open at `fd`; closes `fd`."""
    try:
        for name in [only] if only else sorted(os.listdir(fd)):
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                yield from _member(fd, name, path + name, found)
            except FileNotFoundError:
                continue
    finally:
        os.close(fd)


def _member(fd: int, name: str, path: str, found: os.stat_result) -> Iterator[bytes]:
    if stat.S_ISLNK(found.st_mode):
        yield _header(path, found, tarfile.SYMTYPE, link=os.readlink(name, dir_fd=fd))
    elif stat.S_ISDIR(found.st_mode):
        below = os.open(name, _FLAGS | os.O_DIRECTORY, dir_fd=fd)
        yield _header(path, found, tarfile.DIRTYPE)
        yield from _below(below, path + "/")
    elif stat.S_ISREG(found.st_mode):
        yield from _file(os.open(name, _FLAGS, dir_fd=fd), path)
    else:
        raise ValueError(f"{path!r} is no file, folder or link")


def _file(fd: int, path: str) -> Iterator[bytes]:
    with os.fdopen(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        left = found.st_size
        yield _header(path, found, tarfile.REGTYPE, left)
        while left:
            piece = file.read(min(left, BLOCK))
            if not piece:
                raise ValueError(f"{path!r} was cut while it was read")
            left -= len(piece)
            yield piece
        yield bytes(-found.st_size % tarfile.BLOCKSIZE)


def _header(path: str, found: os.stat_result, kind: bytes, size: int = 0, link: str = "") -> bytes:
    entry = tarfile.TarInfo(path)
    entry.type, entry.size, entry.linkname = kind, size, link
    entry.mode, entry.mtime = stat.S_IMODE(found.st_mode), max(0, int(found.st_mtime))
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def unpack(stream: IO[bytes], job_dir: str, app_id: str) -> None:
    """Unpack a workspace, whole or not at all. Raises ValueError for a name that would leave its folder."""
    folder = os.path.join(os.path.expanduser(job_dir), "apps", app_id)
    whole, part = os.path.join(folder, "workspace"), os.path.join(folder, f".workspace-{os.getpid()}")
    os.mkdir(part, 0o700)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                _check(member, part)
                archive.extract(member, part, numeric_owner=True)
        shutil.rmtree(whole, ignore_errors=True)
        os.rename(part, whole)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _check(member: tarfile.TarInfo, folder: str) -> None:
    name = os.path.normpath(member.name)
    if name.startswith(("/", "..")) or not (member.isreg() or member.isdir() or member.issym()):
        raise ValueError(f"unexpected member {member.name!r}")
    parent = os.path.realpath(os.path.join(folder, os.path.dirname(name)))
    root = os.path.realpath(folder)
    if parent != root and not parent.startswith(root + os.sep):
        raise ValueError(f"{member.name!r} is behind a link that leaves the workspace")
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    member.mode &= 0o755


def main() -> None:
    """Unpack the workspace of the app that the first line of the input names, or pack an output folder."""
    about = json.loads(sys.stdin.buffer.readline(MAX_HEADER).decode("utf-8", "surrogateescape"))
    try:
        if "app_id" in about:
            unpack(sys.stdin.buffer, about["job_dir"], about["app_id"])
            return
        folder = os.path.join(os.path.expanduser(about["job_dir"]), "outputs", about["name"])
        for piece in packed(folder, about["only"]):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except (OSError, ValueError, tarfile.TarError) as error:
        what = "unpack the workspace" if "app_id" in about else "read the output folder"
        sys.exit(f"cannot {what}: {error}")


if __name__ == "__main__":
    main()
