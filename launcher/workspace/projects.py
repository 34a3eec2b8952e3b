"""The local projects of a workspace, and copying them into one folder."""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EISDIR
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from launcher.dataclass import dataclass
from launcher.looks import noted
from launcher.workspace.context import (
    PREFIX,
    ContextFile,
    changed,
    content_hash,
    fed,
    parts,
    unreadable,
)
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
        """A plain text is the path of one project; a YAML mapping holds several: "{./a: , ../b: lib}".

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
                f"`{text[:80]}` is no workspace", hint="want a folder, or {FROM: TO, …} for several"
            )
        return cls({str(source): "" if target is None else str(target) for source, target in found.items()})

    def is_unmapped_single_project(self) -> bool:
        """Whether one project becomes the whole workspace."""
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


def in_order(projects: Mapping[str, str]) -> Workspace:
    """Return a workspace that does not depend on the order of `projects` (path → target folder): a project
    inside the folder of another one is copied after it, and a file after its target folder."""
    ordered = sorted(projects, key=lambda path: (place_of(path, projects[path]), path))
    return Workspace({path: f"{target_path(projects[path]) or '.'}/" for path in ordered})


@noted
def place_of(path: str, target: str) -> str:
    """The place of a project with the target folder `target`: a folder becomes it, a file is put into it.

    Raises WorkspaceError for a target that leaves the workspace.
    """
    place = target_path(target)
    return place if os.path.isdir(path) else posixpath.join(place, os.path.basename(path))


def copy_into(workspace: Workspace, folder: str, digests: Mapping[str, str] = MappingProxyType({})) -> None:
    """Copy every project to its place below `folder`, in their order; later ones win.

    Contents, links as written, and whether a file may be executed are kept. Files that a project's
    ignore files name are not copied.

    Args:
        digests: source → expected digest (`project_digest`).

    Raises WorkspaceError, also when a copy does not match `digests`.
    """
    for source, target in workspace.projects.items():
        path = source_path(source)
        try:
            inside, found = parts(path)
            copies = _places(path, found, folder, target)
            for entry, copy in zip(found, copies, strict=True):
                _make_room(folder, copy)
                shutil.copy2(os.path.join(inside, entry.path), copy, follow_symlinks=False)
            if source in digests and _digest_of_copies(found, copies) != digests[source]:
                raise changed(path)
        except OSError as error:
            raise unreadable(error.filename or path, error) from error


@contextmanager
def merged(workspace: Workspace, digests: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """A temporary folder with all projects of a workspace, copied by `copy_into`."""
    folder = tempfile.mkdtemp(prefix=TMP_PREFIX)
    try:
        copy_into(workspace, folder, digests)
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


def _places(path: str, found: list[ContextFile], folder: str, target: str) -> list[str]:
    """Return the targets of a project's entries."""
    top = os.path.join(folder, target_path(target))
    is_file = not os.path.isdir(path)
    if is_file and target and not target.endswith("/") and not os.path.isdir(top):
        return [top]
    return [os.path.join(top, entry.path) for entry in found]


def _make_room(folder: str, path: str) -> None:
    """Make the folders of `path` below `folder`, and remove any link at it or on the way: a copy would be
    written through the link."""
    parts = os.path.relpath(path, folder).split(os.sep)
    for depth in range(1, len(parts) + 1):
        above = os.path.join(folder, *parts[:depth])
        if os.path.islink(above):
            os.unlink(above)
    if os.path.isdir(path):
        raise IsADirectoryError(EISDIR, "a folder of another project is where this file goes", path)
    os.makedirs(os.path.dirname(path), exist_ok=True)


def _digest_of_copies(found: list[ContextFile], copies: list[str]) -> str:
    whole = sha256()
    for entry, copy in zip(found, copies, strict=True):
        fed(whole, entry, content_hash(copy, entry))
    return PREFIX + whole.hexdigest()
