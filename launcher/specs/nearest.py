"""The nearest of the known names: what somebody who made a slip of the keyboard meant."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LEAST_PART = 3
"""Letters that are enough to know a name by its beginning, or by one of its parts."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that takes the fewest slips to come to `name`, None when none is near.

    One slip in two letters is near, two in five, three in eight. So is a name that `name` begins or that
    begins it, or that has it as a part: `echo` in `utils.echo`. Letter case and `-` for `_` are no slips.
    """
    word = _plain(name)
    letters = set(word)
    found: list[tuple[bool, int, int, str]] = []
    for position, candidate in enumerate(known):
        plain = _plain(candidate)
        allowed = (max(len(word), len(plain)) + 1) // 3
        gap = abs(len(word) - len(plain))
        # Most names are told apart by their length or letters; a file may have thousands of unknown ones.
        is_near = gap <= allowed and len(letters - set(plain)) <= allowed
        if is_near and (slips := distance(word, plain)) <= allowed:
            found.append((False, slips, position, candidate))
        elif _is_part(word, plain):
            found.append((True, gap, position, candidate))
    return min(found)[-1] if found else None


def distance(one: str, other: str) -> int:
    """How many slips lie between two texts: a letter too many, too few or wrong, or two that changed places.

    Source: Damerau and Levenshtein, in the form that edits no letter twice ("optimal string alignment").
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, above[j - 2] + 1)
            row.append(best)
    return row[-1]


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _is_part(word: str, candidate: str) -> bool:
    short, long = sorted((word, candidate), key=len)
    if len(short) < _LEAST_PART:
        return False
    return long.startswith(short) or short in long.replace(".", "-").split("-")
