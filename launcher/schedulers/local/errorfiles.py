"""Read the error files of local replicas. Their programs may have written anything there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from launcher.schedulers.local import attemptfile, rundir
from launcher.specs.replica_error import MOST_BYTES, error_text


def read(app_dir: str, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """(role, replica) → its error (`error_text`), of those of these replicas that have left one."""
    folders = (attemptfile.read_request(app_dir) or {}).get("role_log_dirs") or {}
    found = {}
    for role, k in wanted:
        dirs = folders.get(role, ())
        text = _text(os.path.join(dirs[k], rundir.ERROR_FILE)) if k < len(dirs) else ""
        if text:
            found[role, k] = text
    return found


def _text(path: str) -> str:
    """The text of a file; "" when it is missing or not a regular file, as reading a pipe might never end."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(fd, "rb", buffering=0) as file:
            return error_text(file.read(MOST_BYTES) or b"") if _is_plain(fd) else ""
    except OSError:
        return ""


def _is_plain(fd: int) -> bool:
    return stat.S_ISREG(os.fstat(fd).st_mode)
