"""The contract of schedulers that can run an app with local projects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from launcher.specs.app import AppDef, CfgVal, Role
from launcher.specs.runopts import runopts
from launcher.workspace.context import walk_workspace
from launcher.workspace.projects import Workspace, merged

__all__ = ["Workspace", "WorkspaceMixin", "walk_workspace"]

T = TypeVar("T")


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
        """The same for any workspace: several projects are copied into one temporary folder first."""
        given = Workspace.from_str(workspace) if isinstance(workspace, str) else workspace
        if given.is_unmapped_single_project():
            self.build_workspace_and_update_role(role, str(given), cfg)
            return
        with merged(given) as folder:
            self.build_workspace_and_update_role(role, folder, cfg)

    def build_workspace_and_update_roles(
        self, roles: Sequence[Role], workspace: Workspace | str, cfg: Mapping[str, CfgVal]
    ) -> None:
        """The same for all roles of an app; several projects are combined once."""
        given = Workspace.from_str(workspace) if isinstance(workspace, str) else workspace
        if given.is_unmapped_single_project():
            for role in roles:
                self.build_workspace_and_update_role2(role, given, cfg)
            return
        with merged(given) as folder:
            for role in roles:
                self.build_workspace_and_update_role2(role, Workspace({folder: ""}), cfg)

    def dryrun_push_images(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> T:
        """The images that `push_images` would push. Raises NotImplementedError if it pushes none."""
        raise NotImplementedError(f"{type(self).__name__} pushes no images")

    def push_images(self, images_to_push: T) -> None:
        """Push the images of `dryrun_push_images`."""
        raise NotImplementedError(f"{type(self).__name__} pushes no images")
