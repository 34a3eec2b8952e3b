"""The workspace that travels with an app, as an archive."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO

from launcher.schedulers.workspaces import BoundWorkspace
from launcher.specs.app import AppDef
from launcher.workspace.archive import archive

_PIECE = 1 << 18


class AppWithWorkspace(AppDef):
    """An app whose replicas run in a copy of a workspace. `workspace` is the digest of its files."""

    workspace = ""


def with_workspace(app: AppDef, workspace: BoundWorkspace) -> AppDef:
    """A new value; nothing is copied."""
    made = AppWithWorkspace(**{name: getattr(app, name) for name in ("name", "roles", "metadata")})
    made.workspace = workspace.digest
    return made


def digest_of(app: AppDef) -> str:
    """The digest of an app's workspace; "" for an app without one."""
    return app.workspace if isinstance(app, AppWithWorkspace) else ""


def packed(workspace: BoundWorkspace) -> IO[bytes]:
    """The archive of a workspace in a file without a name. Raises WorkspaceError."""
    file = TemporaryFile()  # noqa: SIM115, it outlives this function
    try:
        for piece in archive(workspace.folder, digest=workspace.digest):
            file.write(piece)
    except BaseException:
        file.close()
        raise
    return file


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """The whole file, each time from its beginning."""
    file.seek(0)
    yield from iter(lambda: file.read(_PIECE), b"")
