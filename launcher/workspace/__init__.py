"""Workspaces: which files of local folders count, their digests, and copies. Names load on first use."""

from __future__ import annotations

from launcher import hand_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.workspace.api import Workspace as Workspace, WorkspaceMixin as WorkspaceMixin
    from launcher.workspace.context import content_digest as content_digest, walk_workspace as walk_workspace
    from launcher.workspace.dir_workspace import (
        DirWorkspaceMixin as DirWorkspaceMixin,
        TmpDirWorkspaceMixin as TmpDirWorkspaceMixin,
    )
    from launcher.workspace.ignore import (
        Ignore as Ignore,
        WorkspaceError as WorkspaceError,
        read_ignore as read_ignore,
    )
    from launcher.workspace.inputs import trigger_digest as trigger_digest


__getattr__, __dir__, __all__ = hand_on(
    __name__,
    {
        "api": "Workspace WorkspaceMixin",
        "context": "content_digest walk_workspace",
        "dir_workspace": "DirWorkspaceMixin TmpDirWorkspaceMixin",
        "ignore": "Ignore WorkspaceError read_ignore",
        "inputs": "trigger_digest",
    },
)
