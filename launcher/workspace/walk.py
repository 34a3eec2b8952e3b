"""The files of a workspace, folder by folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

from launcher.workspace.context import entries


def walk_workspace(path: str | os.PathLike[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """The files that count in a local folder, from the top: (folder, folders, files), like os.walk.

    Ignored files are left out, and so are folders without files that count. Links are
    among the files, as they are, and not followed. Names come in the order of their bytes; a folder that the
    caller removes from the list is not entered.

    Raises WorkspaceError for a folder that cannot be read, or a wrong ignore file.
    """
    top = os.path.abspath(os.path.expanduser(os.fspath(path)))
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


def _add(found: dict[str, tuple[list[str], list[str]]], folder: str) -> None:
    """Add the folder and those that hold it. A loop: folders may be nested deeper than calls may be."""
    missing = []
    while folder not in found:
        missing.append(folder)
        folder = folder.rpartition("/")[0]
    for path in reversed(missing):
        parent, _, name = path.rpartition("/")
        found[parent][0].append(name)
        found[path] = ([], [])
