"""A workspace bound to the folder of its files."""

from __future__ import annotations

import os

from launcher.errors import SchedulerError
from launcher.workspace import content_digest


class BoundWorkspace:
    """A folder of files that travels with an app.

    Attributes:
        folder: absolute.
        digest: of its contents (`launcher.workspace.content_digest`).
    """

    __slots__ = ("digest", "folder")

    def __init__(self, folder: str, digest: str) -> None:
        self.folder = folder
        self.digest = digest


def bind_workspace(workspace: object) -> BoundWorkspace:
    """A folder, absolute or relative to the current one, with the digest of its contents.

    Raises WorkspaceError when it cannot be read, SchedulerError when it is not the path of a folder.
    """
    if isinstance(workspace, BoundWorkspace):
        return workspace
    if not isinstance(workspace, (str, os.PathLike)):
        raise SchedulerError(f"a workspace is the path of a folder, not {workspace!r}")
    folder = os.path.abspath(os.path.expanduser(os.fspath(workspace)))
    return BoundWorkspace(folder, content_digest(folder))
