"""The identity of the code that runs: this package, the interpreter, and the packages beside it.

Our own modules count by name, size and time, as Python itself decides whether a compiled module is
current; an installed package by its version, its installation and what it offers to others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from launcher.paths import IMPORT_ROOT

_ABOVE = frozenset({"apply", "apps", "ci", "cli", "convert", "inventory", "runner", "__pycache__"})
"""Folders of modules above those whose outcomes are cached: the cached code never calls them."""

_INSTALLED = (".dist-info", ".egg-info")


def identity() -> tuple[object, ...] | None:
    """Return plain values that are equal while the code is the same; None for a package in an archive."""
    try:
        own = tuple(_modules(os.path.join(IMPORT_ROOT, "launcher"), ""))
    except OSError:
        return None
    encoding = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
    return sys.version, sys.executable, sys.flags.optimize, encoding, own, tuple(_packages())


def _modules(folder: str, inside: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as found:
        items = sorted(found, key=lambda item: item.name)
    for item in items:
        if item.name.endswith((".py", ".so", ".json", ".md")):
            about = item.stat()
            yield inside + item.name, about.st_size, about.st_mtime_ns
        elif item.name not in _ABOVE and item.is_dir():
            yield from _modules(item.path, f"{inside}{item.name}/")


def _packages() -> Iterator[tuple[object, ...]]:
    for folder in dict.fromkeys(sys.path):
        try:
            names = sorted(name for name in os.listdir(folder or os.curdir) if name.endswith(_INSTALLED))
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            yield path, _record(path), _entry_points(path)


def _record(path: str) -> tuple[int, int]:
    """Return a value that changes when the package is installed again, in whatever version."""
    for name in ("RECORD", "SOURCES.txt", ""):
        try:
            about = os.stat(os.path.join(path, name))
        except OSError:
            continue
        return about.st_size, about.st_mtime_ns
    return 0, 0


def _entry_points(path: str) -> bytes:
    try:
        with open(os.path.join(path, "entry_points.txt"), "rb") as file:
            return file.read()
    except OSError:
        return b""
