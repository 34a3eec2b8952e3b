"""The digest of the files in an output folder. Python >= 3.6, the standard library alone.

Hashing takes as long as reading, and an app has not ended before its files are hashed. So the contents count
up to a certain size of the folder, and beyond it the sizes of the files alone; the prefix of a digest says
which. Times, owners, empty folders and most modes are left out, as in digests of workspaces.
"""

import hashlib
import os
import stat
import time
from typing import Callable, Iterable, Iterator, NamedTuple

CONTENTS = "ou1:sha256:"
"""The prefix of a digest of path, kind and content of every file."""
SIZES = "ou1:sizes:"
"""The prefix of a digest of path, kind and size of every file."""
MOST_BYTES = 256 << 20
MOST_FILES = 100000
MOST_S = 10.0
TOO_LARGE = f"it held more than {MOST_BYTES >> 20} MiB at the end, too much to hash on an engine"
TOO_MANY = f"it held more than {MOST_FILES:,} files at the end"
TOO_SLOW = f"reading it took longer than {MOST_S:g} s at the end"
_CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Entry(NamedTuple):
    """A file ("f"), a program ("x") or a link ("l"); its path is relative, with forward slashes."""

    path: bytes
    kind: bytes
    size: int


class NoDigest(Exception):
    """The reason, as a phrase, why the files of a folder have no digest."""


def is_digest(text: str) -> bool:
    """Whether a recorded text is a digest, and not the reason why there is none."""
    return text.startswith((CONTENTS, SIZES))


def output_digest(folder: str, most_s: float = MOST_S) -> str:
    """The digest of a folder's files, "" for no files; or why there is none. Reads for at most `most_s`."""
    deadline = time.monotonic() + most_s

    def check() -> None:
        if time.monotonic() > deadline:
            raise NoDigest(TOO_SLOW)

    try:
        found: list[Entry] = []
        for entry in _entries(os.fsencode(folder), b"", check):
            found.append(entry)
            if len(found) > MOST_FILES:
                raise NoDigest(TOO_MANY)
        if sum(entry.size for entry in found) > MOST_BYTES:
            return digest_of(SIZES, found, lambda entry: b"%d" % entry.size)
        return digest_of(CONTENTS, found, lambda entry: _content(os.fsencode(folder), entry, check))
    except NoDigest as error:
        return str(error)
    except RecursionError:
        return "its folders are too deep"
    except OSError as error:
        return f"it could not be read: {error.strerror}"


def digest_of(prefix: str, entries: Iterable[Entry], about: "Callable[[Entry], bytes]") -> str:
    """The digest of entries in any order, with the bytes that `about` returns for each; "" for no entry."""
    whole, is_empty = hashlib.sha256(), True
    for entry in sorted(entries):
        data = about(entry)
        whole.update(entry.kind + entry.path + b"\0" + b"%d:" % len(data) + data)
        is_empty = False
    return "" if is_empty else prefix + whole.hexdigest()


def _entries(folder: bytes, below: bytes, check: "Callable[[], None]") -> Iterator[Entry]:
    check()
    with os.scandir(os.path.join(folder, below)) as listed:
        for item in listed:
            path = below + item.name
            about = item.stat(follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                yield from _entries(folder, path + b"/", check)
            elif stat.S_ISLNK(about.st_mode):
                yield Entry(path, b"l", 0)
            elif stat.S_ISREG(about.st_mode):
                yield Entry(path, b"x" if about.st_mode & stat.S_IXUSR else b"f", about.st_size)


def _content(folder: bytes, entry: Entry, check: "Callable[[], None]") -> bytes:
    """The SHA-256 of the content of an entry."""
    path = os.path.join(folder, entry.path)
    if entry.kind == b"l":
        return hashlib.sha256(os.readlink(path)).digest()
    whole = hashlib.sha256()
    with os.fdopen(os.open(path, _FLAGS), "rb", buffering=0) as file:
        chunk = file.read(_CHUNK)
        while chunk:
            check()
            whole.update(chunk)
            chunk = file.read(_CHUNK)
    return whole.digest()
