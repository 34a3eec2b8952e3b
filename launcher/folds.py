"""Fold the many lines of one matrix in a table: items alike share a line, unless each of them matters."""

from __future__ import annotations

from launcher.text import FEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from typing import TypeVar

    T = TypeVar("T")


def fold(
    items: Sequence[T],
    family_of: Callable[[T], Hashable],
    kind_of: Callable[[T], Hashable],
    matters: Callable[[T], object],
) -> list[list[T]]:
    """Return the items of each line; a line has the position of its first item.

    Args:
        family_of: returns the family of an item, such as its matrix; a falsy value for none.
        kind_of: items of a large family with the same kind share a line.
        matters: whether the first FEW items of a kind always have lines of their own, as failures have.
    """
    from collections import Counter

    sizes = Counter((family_of(each), kind_of(each)) for each in items)
    shown: Counter[Hashable] = Counter()
    lines: dict[Hashable, list[T]] = {}
    for number, item in enumerate(items):
        kind = family_of(item), kind_of(item)
        shown[kind] += 1
        is_alone = not kind[0] or sizes[kind] <= FEW or (matters(item) and shown[kind] <= FEW)
        lines.setdefault(number if is_alone else kind, []).append(item)
    return list(lines.values())


def named(names: Sequence[str]) -> str:
    """`sweep-1`, or `sweep-1 and 11 more`."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"
