"""The folders of the tables, one for each boot of a machine: no ticket outlives its holder."""

from __future__ import annotations

import os

from launcher import paths
from launcher.turns.table import remove_unused

_BOOT = "boot-"


def table_folder() -> str:
    """The table of this boot of this machine, below $LAUNCHER_SLOTS or LAUNCHER_HOME; made where missing."""
    return _made(paths.slots(), slots_table(), "LAUNCHER_SLOTS")


def gpu_table_folder() -> str:
    """The table of GPU tickets that all state folders of this user share; made where missing."""
    return _made(paths.runtime(), gpu_table(), "XDG_RUNTIME_DIR")


def _made(root: str, folder: str, variable: str) -> str:
    """Make a table, and remove tables of earlier boots beside it. Raises StateError for an unsafe one."""
    is_new = not os.path.isdir(folder)
    paths.ensure_private(root, folder, variable)
    if not is_new:
        return folder
    parent, name = os.path.split(folder)
    for other in os.listdir(parent):
        if other.startswith(_BOOT) and other != name:
            remove_unused(os.path.join(parent, other))
    return folder


def slots_table() -> str:
    """The path of `table_folder`."""
    return os.path.join(paths.slots(), _BOOT + boot())


def gpu_table() -> str:
    """The path of `gpu_table_folder`."""
    return os.path.join(paths.runtime(), "gpus", _BOOT + boot())


def boot() -> str:
    """An id of this boot of this machine, the same in all containers; else the machine's name."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return os.uname().nodename
