"""What `exclude` of a launcher.toml leaves out of directories, such as wrong examples and files of tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from launcher.files import PROJECT_FILE, read_regular, upwards
from launcher.jobfile.text.source import MAX_BYTES
from launcher.workspace.ignore import BadPatternError, Ignore


class _Rule(NamedTuple):
    folder: str
    patterns: Ignore

    def leaves_out(self, path: str, *, whole: bool = False) -> bool:
        """Whether it takes a file or folder; with `whole` a folder and everything in it."""
        inside = os.path.relpath(path, self.folder).replace(os.sep, "/")
        return self.patterns.ignores_all_below(inside) if whole else self.patterns.ignores(inside)


class Excluded:
    """The patterns that hold in a folder: those of its launcher.toml and of all above it in its work tree.

    Patterns are those of `.dockerignore`, relative to the folder of their launcher.toml.
    """

    def __init__(self, rules: tuple[_Rule, ...] = ()) -> None:
        self._rules = rules

    @classmethod
    def above(cls, folder: str) -> Excluded:
        """Those of the folders above. A rule that takes `folder` itself does not count: it was asked for."""
        above = (rule for outer in islice(upwards(folder), 1, None) for rule in _rules_of(outer))
        return cls(tuple(rule for rule in above if not rule.leaves_out(folder)))

    def within(self, folder: str) -> Excluded:
        """These, and those of the launcher.toml in `folder`."""
        return Excluded((*self._rules, *_rules_of(folder)))

    def takes_file(self, path: str) -> bool:
        """Whether a file is left out. An absolute path."""
        return any(rule.leaves_out(path) for rule in self._rules)

    def takes_folder(self, path: str) -> bool:
        """Whether everything in a folder is left out. An absolute path."""
        return any(rule.leaves_out(path, whole=True) for rule in self._rules)


def wrong_pattern(patterns: list[str]) -> str:
    """What is wrong with the patterns, as a sentence; "" for nothing."""
    try:
        Ignore(patterns)
    except BadPatternError as error:
        return str(error)
    return ""


def _rules_of(folder: str) -> Iterator[_Rule]:
    """One at most. Problems of the file are reported with the job files that it applies to."""
    try:
        data = read_regular(os.path.join(folder, PROJECT_FILE), MAX_BYTES)
    except (OSError, ValueError):
        return
    if b"exclude" not in data:
        return
    import tomli

    try:
        exclude: Any = tomli.loads(data.decode("utf-8-sig")).get("exclude")
        if isinstance(exclude, list) and all(isinstance(pattern, str) for pattern in exclude):
            yield _Rule(folder, Ignore(exclude))
    except (ValueError, RecursionError, BadPatternError):
        return
