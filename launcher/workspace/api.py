"""Workspaces: local projects, their copy in one folder, the contract of schedulers that run apps with them.

The import path of workspaces in TorchX, too.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import EISDIR
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from launcher.dataclass import dataclass
from launcher.looks import noted
from launcher.specs.app import AppDef, CfgVal, Role
from launcher.specs.runopts import runopts
from launcher.workspace.context import (
    PREFIX,
    changed,
    content_hash,
    fed,
    parts,
    source_path,
    unreadable,
    walk_workspace,
)
from launcher.workspace.ignore import WorkspaceError

__all__ = ["Workspace", "WorkspaceMixin", "walk_workspace"]

T = TypeVar("T")

TMP_PREFIX = "launcher_workspace_"


@dataclass
class Workspace:
    """Local projects and where they go: path on this machine → path in the workspace, "" for its root.

    `Workspace({"~/lib": "lib", ".": ""})`. A project is a folder, or a single file.
    """

    projects: dict[str, str]

    @classmethod
    def from_str(cls, workspace: str) -> Workspace:
        """Read a text: the path of one project, or a YAML mapping of several, "{./a: , ../b: lib}".

        Raises WorkspaceError for anything else.
        """
        text = workspace.strip() if isinstance(workspace, str) else ""
        if not text:
            raise WorkspaceError("a workspace names at least one folder", hint="`.` is the current one")
        if not (text.startswith("{") or ":" in text):
            return cls({text: ""})
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            found: Any = YAML(typ="safe", pure=True).load(text)
        except YAMLError as error:
            raise WorkspaceError(f"`{text[:80]}` is no workspace: {error}") from error
        if isinstance(found, str):
            return cls({found: ""})
        if not isinstance(found, Mapping) or not found or not all(map(_is_scalar, [*found, *found.values()])):
            hint = "want a folder, or {FROM: TO, …} for several"
            raise WorkspaceError(f"`{text[:80]}` is no workspace", hint=hint)
        return cls({str(source): "" if target is None else str(target) for source, target in found.items()})

    def is_unmapped_single_project(self) -> bool:
        """Whether a single project forms the whole workspace."""
        return len(self.projects) == 1 and not next(iter(self.projects.values()))

    def __str__(self) -> str:
        """The path of a single project, else `source:target` joined by `;`, for messages."""
        if self.is_unmapped_single_project():
            return next(iter(self.projects))
        pairs = self.projects.items()
        return ";".join(f"{source}:{target}" if target else source for source, target in pairs)

    def __bool__(self) -> bool:
        return bool(self.projects)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def in_order(projects: Mapping[str, str]) -> Workspace:
    """Return a workspace that does not depend on the order of `projects` (path → target folder): a project
    inside the folder of another one is copied after it, and a file after its target folder."""
    ordered = sorted(projects, key=lambda path: (place_of(path, projects[path]), path))
    return Workspace({path: f"{target_path(projects[path]) or '.'}/" for path in ordered})


@noted
def place_of(path: str, target: str) -> str:
    """Return the place of a project with the target folder `target`: a folder replaces it, a file goes in.

    Raises WorkspaceError for a target that leaves the workspace.
    """
    place = target_path(target)
    return place if os.path.isdir(path) else posixpath.join(place, os.path.basename(path))


def copy_into(workspace: Workspace, folder: str, digests: Mapping[str, str] = MappingProxyType({})) -> None:
    """Copy every project to its place below `folder`, in their order; later ones win.

    Contents, links as written, and whether a file may be executed are kept; ignored files are left out.
    `digests`: source → expected digest (`project_digest`). Raises WorkspaceError, also when a digest differs.
    """
    for source, target in workspace.projects.items():
        path = source_path(source)
        try:
            inside, found = parts(path)
            top = os.path.join(folder, target_path(target))
            copies = [os.path.join(top, entry.path) for entry in found]
            is_renamed = bool(target) and not target.endswith("/") and not os.path.isdir(top)
            if is_renamed and not os.path.isdir(path):
                copies = [top]
            for entry, copy in zip(found, copies, strict=True):
                _make_room(folder, copy)
                shutil.copy2(os.path.join(inside, entry.path), copy, follow_symlinks=False)
            if source in digests:
                whole = sha256()
                for entry, copy in zip(found, copies, strict=True):
                    fed(whole, entry, content_hash(copy, entry))
                if PREFIX + whole.hexdigest() != digests[source]:
                    raise changed(path)
        except OSError as error:
            raise unreadable(error.filename or path, error) from error


@contextmanager
def merged(workspace: Workspace, digests: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Return a temporary folder with all projects of a workspace, copied by `copy_into`."""
    folder = tempfile.mkdtemp(prefix=TMP_PREFIX)
    try:
        copy_into(workspace, folder, digests)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def one_folder(workspace: Workspace | str) -> Iterator[str]:
    """The path of a single project as it is given, else of a temporary folder with all projects."""
    given = Workspace.from_str(workspace) if isinstance(workspace, str) else workspace
    if given.is_unmapped_single_project():
        yield str(given)
        return
    with merged(given) as folder:
        yield folder


def target_path(target: str) -> str:
    """A project's place in the workspace: relative, with forward slashes, "" for the root.

    Raises WorkspaceError for one that leaves the workspace.
    """
    clean = posixpath.normpath(target) if target else "."
    if clean.startswith(("/", "../")) or clean == ".." or "\0" in clean:
        raise WorkspaceError(f"`{target}` lies outside of the workspace", hint="targets are relative paths")
    return "" if clean == "." else clean


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


class WorkspaceMixin(Generic[T]):
    """Mixin of schedulers that can run an app with a workspace.

    The role that `build_workspace_and_update_role` edits is a copy, never the caller's.
    `T` is the type that `dryrun_push_images` passes to `push_images`.
    """

    def workspace_opts(self) -> runopts:
        """The run options of the workspace."""
        return runopts()

    @abstractmethod
    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Build one local folder into an image, or copy it, and set `role.image`."""

    def build_workspace_and_update_role2(
        self, role: Role, workspace: Workspace | str, cfg: Mapping[str, CfgVal]
    ) -> None:
        """Build any workspace into the role's image; several projects are first copied into one folder."""
        with one_folder(workspace) as folder:
            self.build_workspace_and_update_role(role, folder, cfg)

    def build_workspace_and_update_roles(
        self, roles: Sequence[Role], workspace: Workspace | str, cfg: Mapping[str, CfgVal]
    ) -> None:
        """Build the workspace into the images of all roles of an app; several projects are combined once."""
        with one_folder(workspace) as folder:
            for role in roles:
                self.build_workspace_and_update_role2(role, Workspace({folder: ""}), cfg)

    def dryrun_push_images(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> T:
        """Return the images that `push_images` would push. Raises NotImplementedError if it pushes none."""
        raise NotImplementedError(f"{type(self).__name__} pushes no images")

    def push_images(self, images_to_push: T) -> None:
        """Push the images that `dryrun_push_images` returned."""
        raise NotImplementedError(f"{type(self).__name__} pushes no images")
