"""The input files of a job: their digest, and the words for their changes. Reads no file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from launcher.text import printable

PREFIX = "in1:sha256:"

MOST_NAMED = 10
"""Changed files that a reason names; more are counted."""


class InputFiles(NamedTuple):
    """The globs of `inputs`, and the files that they match: path → SHA-256 (hex).

    Paths are relative to the job file's folder, as are globs.
    """

    globs: tuple[str, ...]
    files: Mapping[str, str]

    @property
    def digest(self) -> str:
        """ "in1:sha256:<hex>" of the globs and the files, in any order; "" without globs."""
        if not self.globs:
            return ""
        text = json.dumps([sorted(set(self.globs)), sorted(self.files.items())], separators=(",", ":"))
        return PREFIX + sha256(text.encode()).hexdigest()


UNDER = "while it waited or ran"
"""When files changed that a holder has found changed."""


def differing(old: InputFiles, new: InputFiles) -> list[str]:
    """The paths whose content differs, those that only one of the two has included; sorted."""
    return sorted(path for path in {*old.files, *new.files} if old.files.get(path) != new.files.get(path))


def changes(old: InputFiles, new: InputFiles, when: str = "") -> str:
    """ "train.py and conf/b.yaml (new) changed since attempt 1; `inputs` now has `data/*`"; "" for no change.

    Args:
        when: stands behind "changed".
    """
    paths = [_path(path, old, new) for path in differing(old, new)]
    parts = [f"{named(paths)} changed {when}".rstrip()] if paths else []
    for word, globs in (
        ("now has", {*new.globs} - {*old.globs}),
        ("no longer has", {*old.globs} - {*new.globs}),
    ):
        if globs:
            parts.append(f"`inputs` {word} {named([f'`{printable(glob)}`' for glob in sorted(globs)])}")
    return "; ".join(parts)


def named(names: Sequence[str]) -> str:
    """`a, b and c`; of more than MOST_NAMED, the first ones and the number of the others."""
    shown, left = list(names[:MOST_NAMED]), len(names) - MOST_NAMED
    if left > 0:
        shown.append(f"{left} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _path(path: str, old: InputFiles, new: InputFiles) -> str:
    mark = " (new)" if path not in old.files else " (removed)" if path not in new.files else ""
    return printable(path) + mark
