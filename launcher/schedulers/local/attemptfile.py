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


Record = dict[str, "Any"]


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
