"""What travels with an app: its workspace as an archive, and its record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from tempfile import TemporaryFile
from typing import IO, Any

from launcher.schedulers.bound import BoundWorkspace
from launcher.schedulers.slurm.known import SLURM
from launcher.schedulers.slurm.state import Facts
from launcher.specs.app import AppDef, CfgVal
from launcher.specs.canonical import app_from_document, document_of
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


def record_of_app(app: AppDef, cfg: Mapping[str, CfgVal], app_id: str, session: str) -> dict[str, Any]:
    """What `attempt.json` holds of an app that no job file made."""
    return {
        "key": None,
        "name": app.name,
        "session": session,
        "app_id": app_id,
        "scheduler": SLURM,
        "document": document_of(app, cfg, SLURM),
        "metadata": {str(name): str(value) for name, value in app.metadata.items()},
        "created_at": time.time(),
    }


def app_of(facts: Facts) -> AppDef:
    """The app as it was submitted."""
    recorded = facts["attempt"]
    name = recorded["key"][2] if recorded.get("key") else recorded["name"]
    return app_from_document(recorded["document"], name, recorded.get("metadata") or {})
