"""The canonical form of both formats: the order of keys, quotes, and comments behind other text.

The order is that of the models' fields. Only mappings whose keys are fields of the language are sorted. Where
users choose the keys (roles, variables, environments, run options, targets …), their order stays: for roles
it even counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from launcher.dataclass import dataclass
from launcher.jobfile.model import fields as places

ITEM = "[]"
"""The part of a path that means any item of a list."""

JOB = (*places.JOB_FIELDS,)
PROJECT = ("project", "target", "vars", "defaults", "targets", "schedulers", "lifecycle", "queue")
"""The keys of launcher.toml."""

Path = tuple[str, ...]
T = TypeVar("T")


def fields(path: Path) -> Sequence[str] | None:
    """Return the keys of the mapping at `path` in canonical order; None when users choose the order.

    A target and an entry of `jobs` have the fields of a job file.
    """
    if path[:1] in (("targets",), ("jobs",)) and len(path) > 1:
        return fields(path[2:])
    return (*places.fields_at(path),) or None


def arranged(entries: Sequence[tuple[str, T]], known: Sequence[str] | None) -> list[T]:
    """Return the entries in the order of `known`. An unknown key (`x-…`) stays behind the key before it."""
    if known is None:
        return [entry for _, entry in entries]
    rank = {key: number for number, key in enumerate(known)}
    last, keyed = -1, []
    for key, entry in entries:
        last = rank.get(key, last)
        keyed.append((last, entry))
    return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]


def requoted(literal: str, value: str) -> str:
    """Return the quoted text `literal`, whose value is `value`, in its canonical quotes.

    Text that needs escapes then, or spans lines, stays unchanged.
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


MIN_GAP = 2
"""The fewest spaces between other text and a comment behind it."""


class Odd(Exception):
    """Signals valid text without a canonical form, at the offset `at`."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


@dataclass(slots=True)
class Comment:
    """A comment behind other text of a line: its text from `#` on, and its place.

    Attributes:
        column: the column of the comment; indent: that of the line; gap: spaces before the comment.
    """

    text: str
    column: int
    indent: int
    gap: int

    def behind(self, shown: str) -> str:
        """Return the line's text with the comment behind it. Aligned comments stay aligned."""
        if self.gap <= MIN_GAP:
            return f"{shown}{' ' * MIN_GAP}{self.text}"
        shift = len(shown) - len(shown.lstrip(" ")) - self.indent
        return shown + " " * max(MIN_GAP, self.column + shift - len(shown)) + self.text
