"""The files of a checkout that an attempt ran: their record, and the differences from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

DIGITS = 16
"""Hex digits of a recorded digest."""

_MORE = ""
"""The key that marks an incomplete record. No path is empty."""


class Seen(NamedTuple):
    """The files of a checkout that a job names or imports, as they are now.

    Attributes:
        files: path below the root of the repository → digest; "" for a file that is gone.
        modules: the paths among `files` of the modules that its Python files import.
        is_complete: whether no limit cut the search short.
    """

    files: Mapping[str, str]
    modules: frozenset[str] = frozenset()
    is_complete: bool = True

    def record(self) -> dict[str, str]:
        """Return the form that an attempt records."""
        return dict(self.files) if self.is_complete else {**self.files, _MORE: "more"}


NOTHING_SEEN = Seen({})


def recorded_paths(record: Mapping[str, str]) -> list[str]:
    """The paths in the record of an attempt."""
    return [path for path in record if path != _MORE]


def differing(record: Mapping[str, str], now: Seen) -> tuple[str, ...]:
    """Return the sorted files that differ from those an attempt ran: changed, gone, or newly imported.

    A new file that the words of a job name does not count, as the job may have written it. A new module does
    not count where a limit cut the record or the search short. An attempt without a record has no
    differences.
    """
    if not record:
        return ()
    changed = {path for path in recorded_paths(record) if now.files.get(path, "") != record[path]}
    is_complete = now.is_complete and _MORE not in record
    new = {path for path in now.modules if path not in record} if is_complete else set()
    return tuple(sorted(changed | new))
