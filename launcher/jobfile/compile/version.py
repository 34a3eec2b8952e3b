"""Which files are job files of a version that this launcher knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.names import got, show
from launcher.jobfile.model.base import VERSION
from launcher.jobfile.model.quantities import foreign_file


def is_known_version(value: Mapping[str, Any], problems: Collector) -> bool:
    """Return False for a later version, and for a file of another tool: no further check applies to it."""
    kind, key = foreign_file(value)
    version = value.get("version", VERSION)
    path = ("version",)
    if kind:
        problems.found.clear()
        begin = ", ".join(f"`{problems.entry(*each)}`" for each in (("version", VERSION), ("name", "…")))
        hint = f"a job file begins with {begin} and `roles`; `launcher init` writes one"
        problems.add((key,), "unknown-field", f"this is {kind} and no job file", at="key", hint=hint)
        return False
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
