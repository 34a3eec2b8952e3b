"""attempt.json: the reserved attempt of an app. The client writes it once, before anything else is made.

An app without a job has the same fields as far as they apply, with "key" null.
"""

from __future__ import annotations

import json
import os

from launcher import paths
from launcher.schedulers.appfolder import AppFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from launcher.schedulers.local.appview import AppView
    from launcher.specs.app import AppDef, CfgVal
    from launcher.specs.attempt import Attempt

Record = dict[str, "Any"]


def of_app(app: AppDef, cfg: Mapping[str, CfgVal], scheduler: str, app_id: str, created_at: float) -> Record:
    """The record of an app that no job file made."""
    from launcher.specs.canonical import document_of

    return {
        "key": None,
        "name": app.name,
        "app_id": app_id,
        "scheduler": scheduler,
        "document": document_of(app, cfg, scheduler),
        "metadata": {str(name): str(value) for name, value in app.metadata.items()},
        "created_at": created_at,
    }


def write(app_dir: str, record: Mapping[str, Any]) -> None:
    _write(app_dir, "attempt.json", record)


def write_request(app_dir: str, request: Mapping[str, Any]) -> None:
    _write(app_dir, "request.json", request)


def _write(app_dir: str, name: str, value: Mapping[str, Any]) -> None:
    """Raises StateError when the disk is full or read-only; then the file is as it was."""
    try:
        AppFolder(app_dir).write(name, json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except OSError as error:
        raise paths.unusable(error, os.path.join(app_dir, name)) from error


def read(app_dir: str) -> Record | None:
    """Read the file; None when it was not written before the client was killed, or the folder is missing."""
    return AppFolder(app_dir).read_json("attempt.json")


def read_request(app_dir: str) -> dict[str, Any] | None:
    return AppFolder(app_dir).read_json("request.json")


def attempt_of(record: Record, view: AppView) -> Attempt:
    """The recorded attempt of a job in its present state."""
    from dataclasses import replace

    from launcher.specs.attempt import Attempt

    return replace(
        Attempt.from_json(record),
        state=view.state,
        started_at=view.started_at,
        ended_at=view.ended_at,
        owner=view.owner,
        message=view.message,
        exit_code=view.code,
        inputs_changed=view.inputs_changed,
    )
