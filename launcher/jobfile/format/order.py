"""The order of keys: that of the models, from what a job is to where it differs.

Only mappings whose keys are fields of the language have one. Where the keys are the user's (roles, variables,
environments, run options, targets …) their order is the user's as well: for roles it even counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from launcher.jobfile.model import fields as places

ITEM = "[]"
"""Stands in a path for any item of a list."""

JOB = (*places.JOB_FIELDS,)
PROJECT = ("project", "target", "vars", "defaults", "targets", "schedulers", "lifecycle", "queue")
"""The keys of launcher.toml."""

Path = tuple[str, ...]
T = TypeVar("T")


def fields(path: Path) -> Sequence[str] | None:
    """The keys of the mapping at `path` in their order; None where their order is the user's.

    A target, and one of several jobs, is a job file in small.
    """
    if path[:1] in (("targets",), ("jobs",)) and len(path) > 1:
        return fields(path[2:])
    return (*places.fields_at(path),) or None


def arranged(entries: Sequence[tuple[str, T]], known: Sequence[str] | None) -> list[T]:
    """The entries in the order of `known`. A key that is not known (`x-…`) stays behind the one before it."""
    if known is None:
        return [entry for _, entry in entries]
    rank = {key: number for number, key in enumerate(known)}
    last, keyed = -1, []
    for key, entry in entries:
        last = rank.get(key, last)
        keyed.append((last, entry))
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]


def requoted(literal: str, value: str) -> str:
    """The quoted text `literal`, whose value is `value`, in the quotes that it should have.

    What cannot be written without escapes, and what spans lines, stays as it is.
    """
    if not literal or literal[0] not in "\"'" or not value.isprintable() or "\n" in literal:
        return literal
    if literal.startswith(('"""', "'''")):
        return literal
    if '"' not in value and "\\" not in value:
        return f'"{value}"'
    if "'" not in value:
        return f"'{value}'"
    return literal
