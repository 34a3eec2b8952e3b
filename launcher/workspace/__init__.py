"""Workspaces: which files of local folders count, their digests, and copies. Names load on first use."""

from __future__ import annotations

from launcher import hand_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.workspace.api import Workspace, WorkspaceMixin
    from launcher.workspace.context import content_digest, walk_workspace
    from launcher.workspace.dir_workspace import DirWorkspaceMixin, TmpDirWorkspaceMixin
    from launcher.workspace.ignore import Ignore, WorkspaceError, read_ignore
    from launcher.workspace.inputs import trigger_digest

__all__ = [
    "DirWorkspaceMixin",
    "Ignore",
    "TmpDirWorkspaceMixin",
    "Workspace",
    "WorkspaceError",
    "WorkspaceMixin",
    "content_digest",
    "read_ignore",
    "trigger_digest",
    "walk_workspace",
]

_HOMES = {
    "DirWorkspaceMixin": "dir_workspace",
    "Ignore": "ignore",
    "TmpDirWorkspaceMixin": "dir_workspace",
    "Workspace": "api",
    "WorkspaceMixin": "api",
    "WorkspaceError": "ignore",
    "content_digest": "context",
    "read_ignore": "ignore",
    "trigger_digest": "inputs",
    "walk_workspace": "context",
}

__getattr__, __dir__ = hand_on(__name__, _HOMES)
