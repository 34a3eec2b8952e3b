"""Align two lists by their fewest edits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

Edit = tuple[Literal["+", "-", "~"], int, int]
"""The operation, the index in the old list, the index in the new list."""

# A replacement costs slightly more than an insertion or a removal alone, so that among equally short
# ways the one that keeps most items wins: b in [a, b] → [b, c] stays b.
_EDIT, _SWAP = 1000, 1001

_CELLS_MAX = 1_000_000  # beyond this the exact table costs more than a smaller diff is worth


def atom(value: Any) -> str:
    """A text that is equal for equal JSON values of one type only: 1, 1.0, true and "1" are four values."""
    return json.dumps(value, sort_keys=True)


def align(old: Sequence[Any], new: Sequence[Any]) -> list[Edit]:
    """The fewest insertions, removals and replacements that turn `old` into `new`, from front to back."""
    before, after = [atom(item) for item in old], [atom(item) for item in new]
    start = common_prefix(before, after)
    end = common_prefix(before[start:][::-1], after[start:][::-1])
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    small = len(before) * len(after) <= _CELLS_MAX
    edits = _exact(before, after) if small else _rough(before, after)
    return [(op, i + start, j + start) for op, i, j in edits]


def common_prefix(old: Sequence[str], new: Sequence[str]) -> int:
    """The number of equal items at the front of both lists, or of equal characters of both texts."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(old), len(new)))


def _exact(old: Sequence[str], new: Sequence[str]) -> Iterator[Edit]:
    """Walk the table of edit distances from front to back."""
    costs = _costs(old, new)
    i = j = 0
    while i < len(old) or j < len(new):
        cost = costs[i][j]
        if i < len(old) and j < len(new) and old[i] == new[j] and cost == costs[i + 1][j + 1]:
            i, j = i + 1, j + 1
        elif i < len(old) and j < len(new) and cost == costs[i + 1][j + 1] + _SWAP:
            yield "~", i, j
            i, j = i + 1, j + 1
        elif i < len(old) and cost == costs[i + 1][j] + _EDIT:
            yield "-", i, j
            i += 1
        else:
            yield "+", i, j
            j += 1


def _costs(old: Sequence[str], new: Sequence[str]) -> list[list[int]]:
    """costs[i][j]: the least cost of turning old[i:] into new[j:]."""
    width = len(new)
    costs = [[(width - j) * _EDIT for j in range(width + 1)]]
    for item in reversed(old):
        below = costs[-1]
        row = [0] * width + [below[width] + _EDIT]
        for j in range(width - 1, -1, -1):
            swap = below[j + 1] + (0 if item == new[j] else _SWAP)
            row[j] = min(swap, below[j] + _EDIT, row[j + 1] + _EDIT)
        costs.append(row)
    return costs[::-1]


def _rough(old: Sequence[str], new: Sequence[str]) -> Iterator[Edit]:
    """An alignment that need not be the shortest, for lists of thousands of items."""
    from difflib import SequenceMatcher

    for tag, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        both = min(i_end - i, j_end - j)
        yield from (("~", i + k, j + k) for k in range(both))
        yield from (("-", k, j + both) for k in range(i + both, i_end))
        yield from (("+", i + both, k) for k in range(j + both, j_end))
