"""A parsed job file: plain values and, beside them, the place of each key and value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from launcher.dataclass import dataclass
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.text.source import Format, Source

Path = tuple[str | int, ...]

MAX_DEPTH = 64
MAX_NODES = 20_000


class Spot:
    """The place of a value: offsets into a text, and the spots of its parts.

    Attributes:
        start, end: offsets of the value. Equal for a collection without brackets: its key is shown then.
        entries: of a mapping: key → (offset of the key, its end, spot of the value). Both are in one text.
        items: of a list.
        source: the text; None for the text of the document.
    """

    __slots__ = ("end", "entries", "items", "source", "start")

    def __init__(self, start: int, end: int, source: Source | None = None) -> None:
        self.start = start
        self.end = end
        self.source = source
        self.entries: dict[str, tuple[int, int, Spot]] | None = None
        self.items: list[Spot] | None = None

    def with_entries(self, entries: dict[str, tuple[int, int, Spot]]) -> Spot:
        """A mapping at the same place, with other keys."""
        made = Spot(self.start, self.end, self.source)
        made.entries = entries
        return made

    def stamp(self, source: Source) -> None:
        """Record the text in the spot and all of its parts, for a document that is a lower layer."""
        self.source = source
        for _, _, part in (self.entries or {}).values():
            part.stamp(source)
        for item in self.items or ():
            item.stamp(source)


class Range(NamedTuple):
    """A piece of a text between two offsets, the end exclusive."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    def holds(self, found: Diagnostic | Range) -> bool:
        """Whether a problem, or another piece, begins in this piece."""
        if isinstance(found, Range):
            return found.source is self.source and self.start <= found.start < self.end
        if found.span is None or found.file != self.source.file:
            return False
        first, last = self.source.position(self.start), self.source.position(self.end)
        return first <= (found.span.line, found.span.column) < last


@dataclass(slots=True)
class Document:
    """A parsed file, or several layers merged.

    Attributes:
        source: the text of the file; of merged layers, the text of the uppermost one.
        value: None when the text could not be parsed at all, or is no mapping.
        root: returns the spots; called only when a problem has to be placed.
        problems: the problems found while parsing.
        layers: the documents that it was merged from, the lowest first; empty for a single file.
    """

    source: Source
    value: dict[str, Any] | None
    root: Callable[[], Spot]
    problems: list[Diagnostic]
    layers: tuple[Document, ...] = ()

    def value_range(self, path: Path) -> Range:
        """Return the range of the value at `path`; of its key where the value has no text of its own.

        Segments that the document does not have end the walk: the nearest enclosing value is the answer.
        """
        return self._ranges(path)[1]

    def key_range(self, path: Path) -> Range:
        """Return the range of the key (or list item) at the end of `path`, or of the nearest around it."""
        return self._ranges(path)[0]

    def extents(self, path: Path) -> list[Range]:
        """Return the range from the last key of `path` to the end of its value, for each layer with it."""
        if self.layers:
            return [found for layer in self.layers for found in layer.extents(path)]
        spot = self.root()
        start = spot.start
        for segment in path:
            if not isinstance(segment, str) or segment not in (spot.entries or {}):
                return []
            assert spot.entries is not None
            start, _, spot = spot.entries[segment]
        return [Range(self.source, start, max(start, _last(spot)))]

    def raw(self, path: Path) -> str:
        """Return the text of the number or date at `path` as written in the file."""
        found = self.value_range(path)
        # In YAML an anchor may precede the number, which has no white space in it.
        return (found.text.split() or [""])[-1] if found.source.format == "yaml" else found.text

    def format_at(self, path: Path) -> Format:
        """The format of the file that has the value at `path`."""
        return self.value_range(path).source.format if self.layers else self.source.format

    def _ranges(self, path: Path) -> tuple[Range, Range]:
        spot = root = self.root()
        written: tuple[int, int] | None = None  # the key, where the last segment is one
        for segment in path:
            if isinstance(segment, str) and spot.entries and segment in spot.entries:
                start, end, spot = spot.entries[segment]
                written = start, end
            elif isinstance(segment, int) and spot.items and segment < len(spot.items):
                spot = spot.items[segment]
                written = None
        value = self._range(spot) if spot.end > spot.start else None
        if written is not None:
            key = self._range(spot, *written)
        else:
            key = value if value is not None and spot is not root else self._opening(spot)
        return key, value or key

    def _range(self, spot: Spot, start: int | None = None, end: int = 0) -> Range:
        start, end = (spot.start, spot.end) if start is None else (start, end)
        return Range(spot.source or self.source, start, end)

    def _opening(self, spot: Spot) -> Range:
        """The first key of a mapping, else the place where the value begins."""
        own = [entry for entry in (spot.entries or {}).values() if entry[2].source is spot.source]
        if spot.end <= spot.start and own:
            start, end, _ = min(own, key=lambda entry: entry[0])
            return self._range(spot, start, end)
        return self._range(spot, spot.start, max(spot.end, spot.start + 1))


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
