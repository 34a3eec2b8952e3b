"""Manifests: the files of a workspace, for plans that show which files changed, and which ones make it large.

A manifest is identified by the digest of its workspace; the lists of input files are kept beside them. This
process has the manifests of the workspaces that it has hashed; `keep` stores a manifest in LAUNCHER_HOME for
later plans. Without manifests, plans show less and decide the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from launcher import paths
from launcher.errors import StateError
from launcher.files import read_regular, write_whole
from launcher.text import plural

MOST_FILES = 50_000
"""The most files of a stored manifest: a larger one takes megabytes."""

MOST_KEPT = 100
"""The most manifests in LAUNCHER_HOME; the least recently used one is removed first."""

LARGE_BYTES = 100_000_000
LARGE_FILES = 10_000
"""The number of files from which plans note a workspace, as every plan reads all of them."""

_VERSION = 1
_MOST_BYTES = 64 << 20


class File(NamedTuple):
    """`kind` is "file", "program" or "link"; `content` is a hash of its contents."""

    kind: str
    size: int
    content: str


Manifest = Mapping[str, File]
"""Path relative to the workspace, with forward slashes → its entry."""

_known: dict[str, Manifest] = {}


def remember(digest: str, files: Manifest) -> None:
    """Remember the manifest of a workspace that was just hashed."""
    _known[digest] = files


def known(digest: str) -> Manifest | None:
    """The files of the workspace with this digest; None when they are not recorded."""
    if digest not in _known:
        with suppress(TypeError, AttributeError):
            files = stored(digest, "files")
            if files is not None:
                _known[digest] = {path: File(*about) for path, about in files.items()}
    return _known.get(digest)


def keep(digest: str) -> None:
    """Store the manifest of a workspace for later plans, private to the user.

    Without effect when it cannot be written.
    """
    files = _known.get(digest)
    if files is not None and len(files) <= MOST_FILES:
        store(digest, {"files": files})


def stored(digest: str, field: str) -> Any:
    """Return a field of the stored list of files with this digest; None when there is none."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        found = json.loads(read_regular(_path(digest), _MOST_BYTES))
        if (found["version"], found["digest"]) == (_VERSION, digest):
            return found[field]
    return None


def store(digest: str, fields: Mapping[str, Any]) -> None:
    """Store a list of files under its digest. Without effect when it cannot be written."""
    path = _path(digest)
    with suppress(OSError, StateError):
        if os.path.exists(path):
            os.utime(path)
            return
        paths.ensure(paths.workspaces())
        write_whole(path, json.dumps({"version": _VERSION, "digest": digest, **fields}), mode=0o600)
        with os.scandir(paths.workspaces()) as found:
            # All kinds of files count here, since leftovers of killed processes grow old as well.
            by_age = sorted((item.stat().st_mtime, item.path) for item in found)
        for _, old in by_age[:-MOST_KEPT]:
            with suppress(FileNotFoundError):
                os.unlink(old)


def _path(digest: str) -> str:
    return os.path.join(paths.workspaces(), digest.replace(":", "-") + ".json")


def changed_files(old: Manifest, new: Manifest) -> list[tuple[Literal["+", "-", "~"], str]]:
    """Return the changes of a workspace's files, by path."""
    differing = sorted(path for path in {*old, *new} if old.get(path) != new.get(path))
    return [("+" if path not in old else "-" if path not in new else "~", path) for path in differing]


def changed_paths(old: str, new: str) -> list[str]:
    """Return the paths of the files in which two digests differ; [] unless the files of both are known."""
    before, after = known(old), known(new)
    if before is None or after is None:
        return []
    return [path for _, path in changed_files(before, after)]


def amount(files: Manifest) -> str:
    """ "45 files, 1.2 MB"."""
    return f"{plural(len(files), 'file')}, {_bytes(_size(files))}"


def is_large(files: Manifest) -> bool:
    return len(files) >= LARGE_FILES or _size(files) >= LARGE_BYTES


def largest(files: Manifest) -> tuple[str, str]:
    """Return the largest file or folder at the top of a workspace, and the line that ignores it.

    By bytes, or by the number of files when those make it large: (".venv/ (820 MB)", ".venv").
    """
    by_size = _size(files) >= LARGE_BYTES
    parts: dict[str, int] = {}
    for path, file in files.items():
        top, slash, _ = path.partition("/")
        parts[top + slash] = parts.get(top + slash, 0) + (file.size if by_size else 1)
    name = max(parts, key=lambda part: parts[part])
    much = _bytes(parts[name]) if by_size else f"{parts[name]:,} files"
    return f"{name} ({much})", ignore_line(name.rstrip("/"))


def ignore_line(name: str) -> str:
    """Return a line of an ignore file that matches only this path and everything below it."""
    text = "".join(f"\\{char}" if char in "*?[\\" else char for char in name)
    return f"\\{text}" if text.startswith(("#", "!")) else text


def _size(files: Manifest) -> int:
    return sum(file.size for file in files.values())


def _bytes(size: int) -> str:
    """`0 B`, `999 B`, `1.2 kB`, `967 MB`."""
    if size < 1000:
        return f"{size} B"
    amount, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount >= 999.5:
            amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"
