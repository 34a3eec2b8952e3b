"""Directory workspaces: the projects of a workspace copied into a folder that roles run from."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence

from launcher.specs.app import CfgVal, Role
from launcher.specs.runopts import InvalidRunConfigException, runopts
from launcher.workspace.api import TMP_PREFIX, Workspace, WorkspaceMixin, copy_into
from launcher.workspace.ignore import WorkspaceError


class _OneFolder(WorkspaceMixin[None]):
    """All roles of an app share one copy of the workspace."""

    def build_workspace_and_update_roles(
        self, roles: Sequence[Role], workspace: Workspace | str, cfg: Mapping[str, CfgVal]
    ) -> None:
        for first in roles[:1]:
            before = first.image
            self.build_workspace_and_update_role2(first, workspace, cfg)
            for other in roles[1:]:
                other.image = first.image if first.image != before else other.image

    def _copy(self, role: Role, workspace: str, folder: str) -> None:
        """Copy the workspace into a new folder, which the role runs from; remove the folder on failure."""
        try:
            copy_into(Workspace({workspace: ""}), folder)
        except WorkspaceError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        role.image = folder


class DirWorkspaceMixin(_OneFolder):
    """Copies the workspace into the folder that the option `job_dir` names; roles run from there."""

    def workspace_opts(self) -> runopts:
        opts = runopts()
        opts.add("job_dir", str, "folder that the workspace is copied into; it must not be there yet")
        return opts

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Copy the workspace into `job_dir`; without `job_dir`, copy nothing and leave the role as it is.

        Raises InvalidRunConfigException for a folder that exists.
        """
        job_dir = cfg.get("job_dir")
        if job_dir is None:
            return
        folder = os.path.abspath(os.path.expanduser(str(job_dir)))
        try:
            os.mkdir(folder)
        except OSError as error:
            raise InvalidRunConfigException(
                f"cannot make {folder}: {error.strerror or error}", "job_dir", cfg, hint="name a new folder"
            ) from error
        self._copy(role, workspace, folder)


class TmpDirWorkspaceMixin(_OneFolder):
    """Copies the workspace into a new temporary folder, which the caller removes."""

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        self._copy(role, workspace, tempfile.mkdtemp(prefix=TMP_PREFIX))
