"""Workspaces: which files of local folders count, their digests, and how they are copied.

The public names are loaded on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.workspace.api import WorkspaceMixin
    from launcher.workspace.context import WorkspaceError, content_digest, walk_workspace
    from launcher.workspace.dir_workspace import DirWorkspaceMixin, TmpDirWorkspaceMixin
    from launcher.workspace.ignore import Ignore, read_ignore
    from launcher.workspace.inputs import trigger_digest
    from launcher.workspace.projects import Workspace

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
    "Workspace": "projects",
    "WorkspaceMixin": "api",
    "WorkspaceError": "context",
    "content_digest": "context",
    "read_ignore": "ignore",
    "trigger_digest": "inputs",
    "walk_workspace": "context",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
