"""attempt.json: the reserved attempt of an app. The client writes it once, before anything else is made.

An app without a job has the same fields as far as they apply, with "key" null.
"""

from __future__ import annotations

import json

from launcher import paths
from launcher.files import write_whole
from launcher.schedulers.local import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


Record = dict[str, "Any"]


def write(app_dir: str, record: Mapping[str, Any]) -> None:
    _write(rundir.attempt(app_dir), record)


def write_request(app_dir: str, request: Mapping[str, Any]) -> None:
    _write(rundir.request(app_dir), request)


def _write(path: str, value: Mapping[str, Any]) -> None:
    """Raises StateError when the disk is full or read-only; then the file is as it was."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        write_whole(path, text, mode=0o600, errors="surrogateescape")
    except OSError as error:
        raise paths.unusable(error, path) from error


def read(app_dir: str) -> Record | None:
    """Read the file; None when it was not written before the client was killed, or the folder is missing."""
    return _read(rundir.attempt(app_dir))


def read_request(app_dir: str) -> dict[str, Any] | None:
    return _read(rundir.request(app_dir))


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            value = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None
