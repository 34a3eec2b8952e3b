"""The folders of launcher, all below LAUNCHER_HOME. The one place that names them.

Plain `os.path` rather than pathlib: every command passes here, and pathlib costs it milliseconds.
"""

from __future__ import annotations

import os

from launcher.errors import StateError

IMPORT_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder that `launcher` is imported from: processes of ours start without the user's settings."""


def home() -> str:
    """LAUNCHER_HOME, else $XDG_STATE_HOME/launcher, else ~/.local/state/launcher. Absolute."""
    given = os.environ.get("LAUNCHER_HOME")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    state = os.environ.get("XDG_STATE_HOME") or os.path.join("~", ".local", "state")
    return os.path.join(os.path.abspath(os.path.expanduser(state)), "launcher")


def ledger() -> str:
    """The SQLite file with job keys, attempts and outcomes."""
    return os.path.join(home(), "ledger.db")


def locks() -> str:
    """Folder of the locks that applies take, one per project and target."""
    return os.path.join(home(), "locks")


def local() -> str:
    """Folder of the local scheduler: its index and one folder per app."""
    return os.path.join(home(), "local")


def ensure(folder: str) -> str:
    """Create `folder` below LAUNCHER_HOME, private to the user (0700), and return it.

    Raises StateError when it cannot be made: read-only, full, or a file is in the way.
    """
    root = home()
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)
        if os.stat(root).st_mode & 0o077:
            os.chmod(root, 0o700)
        os.makedirs(folder, mode=0o700, exist_ok=True)  # what lies between is shielded by the root
    except OSError as error:
        raise unusable(error, folder) from error
    return folder


def unusable(error: OSError, path: str) -> StateError:
    """The error for a state folder that cannot be written."""
    return StateError(
        f"cannot write {path}: {error.strerror or error}",
        hint="set LAUNCHER_HOME to a folder on a local disk that you can write",
    )
