"""A parsed job file: plain values and, beside them, where each key and value stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.text.source import Source

Path = tuple[str | int, ...]

MAX_DEPTH = 64
MAX_NODES = 20_000


class Spot:
    """Where a value stands: offsets into the text, and the spots of its parts.

    Attributes:
        start, end: of the value. Equal for a collection without brackets: point at its key instead.
        entries: of a mapping: key → (offset of the key, its end, spot of the value).
        items: of a list.
    """

    __slots__ = ("end", "entries", "items", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.entries: dict[str, tuple[int, int, Spot]] | None = None
        self.items: list[Spot] | None = None


@dataclass(slots=True)
class Document:
    """The outcome of reading one file.

    Attributes:
        value: None when the text could not be parsed at all, or is no mapping.
        root: gives the spots; called only when something has to be placed.
        problems: what was found while parsing.
    """

    source: Source
    value: dict[str, Any] | None
    root: Callable[[], Spot]
    problems: list[Diagnostic]

    def value_range(self, path: Path) -> tuple[int, int]:
        """Offsets of the value at `path`; of its key where the value has no text of its own.

        Segments that the document does not have end the walk: the nearest enclosing value is the answer.
        """
        return self._ranges(path)[1]

    def key_range(self, path: Path) -> tuple[int, int]:
        """Offsets of the key (or list item) that `path` ends with, or of the nearest one that encloses it."""
        return self._ranges(path)[0]

    def extent(self, path: Path) -> tuple[int, int]:
        """Offsets of the key that `path` ends with, and of the end of everything below it."""
        spot = self.root()
        start = spot.start
        for segment in path:
            if not isinstance(segment, str) or not spot.entries or segment not in spot.entries:
                break
            start, _, spot = spot.entries[segment]
        return start, max(start, _last(spot))

    def raw(self, path: Path) -> str:
        """The text of the number or date at `path` as it stands in the file."""
        start, end = self._ranges(path)[1]
        text = self.source.text[start:end]
        # In YAML an anchor may stand before it; a number has no white space in it.
        return (text.split() or [""])[-1] if self.source.format == "yaml" else text

    def _ranges(self, path: Path) -> tuple[tuple[int, int], tuple[int, int]]:
        spot = self.root()
        key = value = self._opening(spot)
        for segment in path:
            if isinstance(segment, str) and spot.entries and segment in spot.entries:
                start, end, spot = spot.entries[segment]
                key = (start, end)
            elif isinstance(segment, int) and spot.items and segment < len(spot.items):
                spot = spot.items[segment]
                key = (
                    (spot.start, max(spot.end, spot.start + 1))
                    if spot.end > spot.start
                    else self._opening(spot)
                )
            else:
                continue
            value = (spot.start, spot.end) if spot.end > spot.start else key
        return key, value

    def _opening(self, spot: Spot) -> tuple[int, int]:
        """The first key of a mapping, else the place where the value begins."""
        if spot.end <= spot.start and spot.entries:
            start, end, _ = min(spot.entries.values(), key=lambda entry: entry[0])
            return start, end
        return spot.start, max(spot.end, spot.start + 1)


def _last(spot: Spot) -> int:
    """The end of the last piece of text in a value."""
    entries = (spot.entries or {}).values()
    return max(
        [spot.end, *(end for _, end, _ in entries), *(_last(part) for _, _, part in entries)]
        + [_last(item) for item in spot.items or ()]
    )


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The texts, numbers, truth values, dates and nulls in a value, each with its path."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def too_deep(source: Source, start: int) -> Diagnostic:
    hint = "is an alias or a bracket repeated by mistake?"
    return source.diagnostic(
        start, start + 1, "too-large", f"values are nested deeper than {MAX_DEPTH} levels", hint=hint
    )


def too_many(source: Source, start: int) -> Diagnostic:
    hint = "aliases and merge keys count as often as they are used"
    message = f"the file holds more than {MAX_NODES:,} values"
    return source.diagnostic(start, start + 1, "too-large", message, hint=hint)
