"""Check the version of a job file against the versions that this launcher knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import got, show
from launcher.jobfile.model.base import VERSION


def is_known_version(value: Mapping[str, Any], problems: Collector) -> bool:
    """Return False for a later version: no further check applies to it."""
    version = value.get("version", VERSION)
    path = ("version",)
    if isinstance(version, bool) or not isinstance(version, int):
        message = f"`version` must be {VERSION}, not {got(version)}"
        problems.add(path, "wrong-type", message, label=f"write {VERSION}", is_final=True)
    elif version > VERSION:
        problems.found.clear()
        message = f"the file is written in version {show(version)}, and this launcher knows {VERSION}"
        problems.add(path, "newer-version", message, label="upgrade launcher")
        return False
    elif version != VERSION:
        message = f"there is no version {show(version)} of the language"
        problems.add(path, "out-of-range", message, label=f"write {VERSION}", is_final=True)
    return True
