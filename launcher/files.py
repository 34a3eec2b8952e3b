"""Find the project file above a folder, read files within limits, write them whole, hold many open."""

from __future__ import annotations

import errno
import os
import stat
import time
from _collections_abc import Iterator
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO


PROJECT_FILE = "launcher.toml"
MAX_JOB_FILE_BYTES = 1 << 20
GONE = (FileNotFoundError, NotADirectoryError)
"""The errors of a path whose file, or a folder above it, was removed."""

GIVEN = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""A path that a shell passes, such as `<(command)`: a pipe that the caller has opened."""

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_regular(path: str, limit: int = -1) -> bytes:
    """Return the first `limit` bytes of a regular file; all of them with -1.

    Raises OSError: also for a folder, pipe, socket or device, without opening it.
    """
    with open_regular(path) as file:
        # To read with a limit allocates memory for all of it, and takes longer for a small file.
        is_small = 0 < os.fstat(file.fileno()).st_size < limit
        return file.read(-1 if is_small else limit)


def open_regular(path: str) -> BinaryIO:
    """A regular file, opened for reading. Raises OSError as `read_regular` does."""
    _check(os.stat(path).st_mode, path)
    # A pipe may have replaced the file meanwhile, and opening a pipe waits for its writer.
    file = open(path, "rb", opener=_opener)  # noqa: SIM115  # the caller closes it
    try:
        _check(os.fstat(file.fileno()).st_mode, path)
        os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _check(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISREG(mode) or path.startswith(GIVEN):
        return
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")
    raise OSError(errno.EINVAL, f"it is {kind}", path)


def is_below(path: str, folder: str) -> bool:
    """Whether a real path equals another one, or lies below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def upwards(folder: str) -> Iterator[str]:
    """A folder (absolute, perhaps missing) and those above it, up to the top of its work tree, if any."""
    yield folder
    while not is_top(folder) and (parent := os.path.dirname(folder)) != folder:
        folder = parent
        yield folder


def is_top(folder: str) -> bool:
    """Whether a folder is the top of a work tree."""
    return os.path.exists(os.path.join(folder, ".git"))


def project_file(folder: str) -> str | None:
    """The launcher.toml in a folder or the nearest above it, no higher than the top of its work tree.

    `folder` is an absolute path; it need not exist.
    """
    paths = (os.path.join(each, PROJECT_FILE) for each in upwards(folder))
    return next(filter(os.path.isfile, paths), None)


def write_whole(
    path: str,
    text: str,
    *,
    mode: int = 0o666,
    errors: str = "strict",
    keeps_mode: bool = False,
    is_public: bool = False,
    tidies: bool = False,
) -> None:
    """Write a file by renaming one beside it: another process finds the old text or the new one.

    Args:
        mode: permissions of the new file, less the umask.
        keeps_mode: whether the new file gets the permissions of the old one, and its owner where allowed.
        is_public: whether all users may read the new file, whatever the umask.
        errors: how text that is not Unicode is encoded, as `open` takes it.
        tidies: whether to remove what killed processes left beside the file; see `remove_leftovers`.

    Raises OSError; the file is then as it was, and nothing is left beside it.
    """
    before, after = f"{path}.", ".new"
    beside = f"{before}{os.getpid()}-{get_ident()}{after}"
    if tidies:
        remove_leftovers(before, after)
    try:
        with open(new_file(beside, mode), "w", encoding="utf-8", errors=errors, newline="\n") as file:
            if keeps_mode and os.path.exists(path):
                make_like(path, beside)
            if is_public:
                os.chmod(beside, 0o644)
            file.write(text)
        os.replace(beside, path)
    except BaseException:
        try:
            os.unlink(beside)
        except OSError:
            pass
        raise


def remove_leftovers(before: str, after: str) -> None:
    """Remove the files that killed processes wrote to replace another: `before`, ids, `after`, a minute old.

    `before` has the folder and the beginning of the name, `after` its end.
    """
    folder, start = os.path.split(before)
    try:
        found = os.listdir(folder or ".")
    except OSError:
        return
    for name in found:
        path, ids = os.path.join(folder, name), name[len(start) : len(name) - len(after)]
        try:
            is_ours = name == start + ids + after and ids.replace("-", "").isdigit()
            if is_ours and time.time() - os.lstat(path).st_mtime > 60:  # no process writes it any more
                os.unlink(path)
        except OSError:
            pass  # the file is another user's, or another process has removed it


def make_like(path: str, beside: str) -> None:
    """Give the file `beside` the mode and, where we are allowed to, the owner of the file at `path`."""
    known = os.stat(path)
    try:
        os.chown(beside, known.st_uid, known.st_gid)
    except PermissionError:
        pass
    os.chmod(beside, stat.S_IMODE(known.st_mode))


def new_file(path: str, mode: int) -> int:
    """Return a descriptor of a file that this call makes, never of a file behind another user's link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileExistsError:  # a killed process with the same id has left it
        os.unlink(path)
        return os.open(path, flags, mode)


def allow_open_files(count: int) -> bool:
    """Make room for `count` files open at once; False when the hard limit forbids it.

    The soft limit is often 1024 for programs that use select(), which launcher does not.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 64  # this process opens some files for other purposes
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return True
    if hard != resource.RLIM_INFINITY and wanted > hard:
        return False
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return True
    except (OSError, ValueError):  # macOS has an additional limit
        return False
