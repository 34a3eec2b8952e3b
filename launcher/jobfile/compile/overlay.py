"""One mapping laid over another, values and their places together: maps merge by key, all else replaces.

The places of the result are those of the parts it was made of, so whatever is found wrong in it is shown
where it was written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from launcher.jobfile.text.document import Spot


class Placed(NamedTuple):
    """A value and where it stands."""

    value: Any
    spot: Spot

    def part(self, key: str) -> Placed:
        """The value of a key that is there."""
        return Placed(self.value[key], self.entry(key)[2])

    def entry(self, key: str) -> tuple[int, int, Spot]:
        """Where a key stands, and the spot of its value."""
        entries = self.spot.entries or {}
        return entries.get(key) or (self.spot.start, self.spot.end, Spot(self.spot.start, self.spot.end))


class _Removed:
    """Marks what a `null` has taken away, until `swept`: a default that is laid under it later stays away."""


_REMOVED = _Removed()


def laid_over(base: Placed, over: Placed, *, is_filling: bool = False) -> Placed:
    """`over` on top of `base`. Keys keep the order of `base`, new ones follow.

    A `null` removes; what was removed is marked, see `swept`. With `is_filling`, `base` only fills in what
    `over` leaves out: the result stands where `over` does, and a `null` that finds nothing to remove stays
    what it is.
    """
    if not isinstance(over.value, dict):
        return over
    if not isinstance(base.value, dict):
        base = Placed({}, over.spot)
    values = dict(base.value)
    home = over if is_filling else base
    spot = Spot(home.spot.start, home.spot.end)
    spot.entries = dict(base.spot.entries or {})
    for key in over.value:
        inner, entry = over.part(key), over.entry(key)
        if inner.value is None and (key in values or not is_filling):
            values[key] = _REMOVED
        elif isinstance(inner.value, dict):
            start, end, _ = base.entry(key) if isinstance(values.get(key), dict) and not is_filling else entry
            under = base.part(key) if key in base.value else Placed(None, inner.spot)
            merged = laid_over(under, inner, is_filling=is_filling)
            values[key], spot.entries[key] = merged.value, (start, end, merged.spot)
            continue
        else:
            values[key] = inner.value
        spot.entries[key] = entry
    return Placed(values, spot)


def swept(node: Placed) -> Placed:
    """Without what was removed."""
    if not isinstance(node.value, dict):
        return node
    values = {}
    spot = Spot(node.spot.start, node.spot.end)
    spot.entries = {}
    for key, value in node.value.items():
        if value is _REMOVED:
            continue
        start, end, inner = node.entry(key)
        part = swept(Placed(value, inner))
        values[key] = part.value
        spot.entries[key] = (start, end, part.spot)
    return Placed(values, spot)


def replaced(node: Placed, key: str, value: Placed) -> Placed:
    """`node` with another value for a key that it has."""
    start, end, _ = node.entry(key)
    spot = Spot(node.spot.start, node.spot.end)
    spot.entries = {**(node.spot.entries or {}), key: (start, end, value.spot)}
    return Placed({**node.value, key: value.value}, spot)


def without(node: Placed, *keys: str) -> Placed:
    """`node` without some of its keys."""
    return Placed({key: value for key, value in node.value.items() if key not in keys}, node.spot)
