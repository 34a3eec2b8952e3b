"""Content hashes of files, each file read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import time_ns
from typing import NamedTuple

from launcher.workspace.context import file_hash

_SETTLED_NS = 2_000_000_000
"""How much older than a record a change must be: some file systems count in steps of two seconds."""


class Stamp(NamedTuple):
    """The hash of a file, and how the file looked just before it was read, at `read_ns`."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    read_ns: int
    content: str

    def is_of(self, found: os.stat_result) -> bool:
        """Whether the file is as it was, and had come to rest before it was read."""
        same = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) == self[:4]
        return same and max(self.mtime_ns, self.ctime_ns) + _SETTLED_NS < self.read_ns


_stamps: dict[str, Stamp] = {}
"""Path → what this process read there: a second plan, or the check before a start, need not read it again."""


class FileHashes:
    """The hashes of the files that one plan looks at. Each file is read once, however many jobs name it."""

    def __init__(self, stamps: Mapping[str, Stamp] | None = None) -> None:
        """`stamps` are those of an earlier reader; those of this process where left out."""
        self._stamps = _stamps if stamps is None else dict(stamps)
        self._known: dict[str, str] = {}

    def digest(self, path: str) -> str:
        """SHA-256 (hex) of what a regular file holds. Raises OSError, also for a pipe, socket or device."""
        if path not in self._known:
            self._known[path] = self._content(path)
        return self._known[path]

    def stamp(self, path: str) -> Stamp:
        """How the file looked when `digest` read it."""
        return self._stamps[path]

    def _content(self, path: str) -> str:
        found = os.stat(path)
        stamp = self._stamps.get(path)
        if stamp is None or not stamp.is_of(found):
            read_ns = time_ns()
            content = file_hash(path).hex()
            stamp = Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, read_ns, content)
            self._stamps[path] = stamp
        return stamp.content
