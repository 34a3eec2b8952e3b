"""Write paths and values of a document as job files do: `timeout` 3m, `resource.memory` 4GiB."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any, Final

from launcher.specs.app import DOCUMENT_FIELDS
from launcher.specs.macros import with_brackets
from launcher.specs.secret import HIDDEN, reference_in

_ROLE = r"roles(?:\.[A-Za-z0-9_-]+|\[\"(?:[^\"\\]|\\.)*\"\])\."
_AMOUNT = rf"({_ROLE}resource\.)(cpu_millis|memory_bytes)\Z"
_RENAMED = rf"({_ROLE}resource\.)(cpu_millis|memory_bytes|capabilities\.gpu_type)\Z"
_OF_ROLE = rf"{_ROLE}([a-z_]+)\Z"
_WORKSPACE = r"(?s:workspace(?:\.projects(\[.*\]|\.[^.\[]+))?\.(path|target|digest)\Z)"
_DIGEST = r"(ws[0-9]+):sha256:([0-9a-f]{8})[0-9a-f]{56}\Z"
_CHOICES: Final = {each.name for each in DOCUMENT_FIELDS if isinstance(each.default, Enum)}
_FIELDS: Final = {"cpu_millis": "cpu", "memory_bytes": "memory", "capabilities.gpu_type": "gpu_type"}
_TIMES: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_SIZES: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


def field(path: str) -> str:
    """The path of a document as job files write it: `timeout_s` → `timeout`.

    The digest of a workspace has no field in a job file and is called `workspace files`.
    """
    if path == "timeout_s":
        return "timeout"
    if not path.startswith(("roles", "workspace")):
        return path
    if renamed := re.match(_RENAMED, path):
        return renamed[1] + _FIELDS[renamed[2]]
    if part := re.match(_WORKSPACE, path):
        return f"workspace{part[1] or ''}{' files' if part[2] == 'digest' else ''}"
    return path


def is_workspace_digest(path: str) -> bool:
    """Whether the path of a document is that of the digest of a workspace or of one of its projects."""
    part = re.match(_WORKSPACE, path)
    return part is not None and part[2] == "digest"


def show_at(path: str, value: Any) -> str:
    """The value at a path as job files write it there: `3m`, `1.5`, `4GiB`; elsewhere as `show` writes it."""
    if isinstance(value, int) and not isinstance(value, bool):
        if path == "timeout_s":
            return _duration(value)
        if amount := re.match(_AMOUNT, path):
            return _cores(value) if amount[2] == "cpu_millis" else _memory(value)
    if isinstance(value, str):
        if (own := re.match(_OF_ROLE, path)) and own[1] in _CHOICES:
            return show(value.lower())
        if digest := re.match(_WORKSPACE, path) and re.match(_DIGEST, value):
            return f"{digest[1]}:{digest[2]}"
    return show(value)


def show_both(path: str, old: Any, new: Any) -> tuple[str, str]:
    """Two values at a path. Two spellings of one macro remain distinct."""
    both = show_at(path, old), show_at(path, new)
    return both if both[0] != both[1] else (_plain(old), _plain(new))


def show(value: Any) -> str:
    """A value as plans print it: JSON on one line, so that `3` and `"3"` differ, and safe on a terminal.

    Macros are spelled as in job files, `$<rank0_env>`.
    """
    if value == HIDDEN:
        return HIDDEN
    if reference := reference_in(value):
        return f"secret {reference}"
    return with_brackets(_plain(value))


def _plain(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _duration(seconds: int) -> str:
    """`40s`, `3m`, `1h30m`."""
    parts = []
    for unit, size in _TIMES:
        count, seconds = divmod(seconds, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def _cores(millis: int) -> str:
    return str(millis / 1000 if millis % 1000 else millis // 1000)


def _memory(size: int) -> str:
    """A size in the largest unit that leaves it whole."""
    unit, many = next((unit, many) for unit, many in _SIZES if size % many == 0)
    return f"{size // many}{unit}"
