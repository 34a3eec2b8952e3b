"""Which local projects make up a workspace, and putting them into one folder."""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from launcher.workspace.context import entries, unreadable
from launcher.workspace.ignore import WorkspaceError

TMP_PREFIX = "launcher_workspace_"


@dataclass
class Workspace:
    """Local projects and where they go: path on this machine → path in the workspace, "" for its root.

    `Workspace({"~/lib": "lib", ".": ""})`. A project is a folder, or a single file.
    """

    projects: dict[str, str]

    @classmethod
    def from_str(cls, workspace: str) -> Workspace:
        """A plain text is the path of one project; a YAML mapping has several: "{./a: , ../b: lib}".

        Raises WorkspaceError for anything else.
        """
        text = workspace.strip()
        if not text:
            raise WorkspaceError("a workspace names at least one folder", hint="`.` is the current one")
        if not (text.startswith("{") or ":" in text):
            return cls({text: ""})
        found = _read_yaml(text)
        if isinstance(found, str):
            return cls({found: ""})
        if not isinstance(found, Mapping) or not found:
            raise WorkspaceError(
                f"`{text[:80]}` is no workspace", hint="want a folder, or {FOLDER: TARGET, …}"
            )
        return cls({str(source): "" if target is None else str(target) for source, target in found.items()})

    def is_unmapped_single_project(self) -> bool:
        """One project that becomes the whole workspace."""
        return len(self.projects) == 1 and not next(iter(self.projects.values()))

    def __str__(self) -> str:
        """For messages: the path of a single project, else `source:target` joined by `;`."""
        if self.is_unmapped_single_project():
            return next(iter(self.projects))
        return ";".join(
            f"{source}:{target}" if target else source for source, target in self.projects.items()
        )

    def __bool__(self) -> bool:
        return bool(self.projects)


def copy_into(workspace: Workspace, folder: str) -> None:
    """Copy every project to its place below `folder`, in their order; later ones win.

    Contents, links as written, and whether a file may be executed are kept. What the ignore files of a
    project name stays behind. Raises WorkspaceError.
    """
    for source, target in workspace.projects.items():
        path, place = source_path(source), os.path.join(folder, target_path(target))
        try:
            if os.path.isdir(path):
                _copy_folder(path, place)
            else:
                is_folder = not target or target.endswith("/") or os.path.isdir(place)
                _copy_file(path, os.path.join(place, os.path.basename(path)) if is_folder else place)
        except OSError as error:
            raise unreadable(error.filename or path, error) from error


@contextmanager
def merged(workspace: Workspace) -> Iterator[str]:
    """One folder with all projects of a workspace, gone again afterwards."""
    folder = tempfile.mkdtemp(prefix=TMP_PREFIX)
    try:
        copy_into(workspace, folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def target_path(target: str) -> str:
    """A project's place in the workspace: relative, with forward slashes, "" for the root.

    Raises WorkspaceError for one that leaves the workspace.
    """
    clean = posixpath.normpath(target) if target else "."
    if clean.startswith(("/", "../")) or clean == ".." or "\0" in clean:
        raise WorkspaceError(f"`{target}` lies outside of the workspace", hint="targets are relative paths")
    return "" if clean == "." else clean


def source_path(source: str) -> str:
    """The absolute path of a project: of a path or a `file://` address.

    Raises WorkspaceError for another scheme, and when there is nothing.
    """
    scheme, address, rest = source.partition("://")
    if address and scheme != "file" and scheme.isalnum():
        raise WorkspaceError(
            f"a workspace cannot be read from {scheme}://: {source}",
            hint="it is made of local folders and files",
        )
    path = os.path.abspath(os.path.expanduser(rest if address and scheme == "file" else source))
    if not os.path.lexists(path):
        raise WorkspaceError(f"there is no {path}", hint="a workspace is made of local folders and files")
    return path


def _read_yaml(text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise WorkspaceError(f"`{text[:80]}` is no workspace: {error}") from error


def _copy_folder(source: str, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for entry in entries(source):
        _copy_file(os.path.join(source, entry.path), os.path.join(folder, entry.path))


def _copy_file(source: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.islink(path):
        os.unlink(path)  # a copy would write through it, to wherever it points
    shutil.copy2(source, path, follow_symlinks=False)
