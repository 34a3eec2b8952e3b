"""Mask secrets in the source lines of diagnostics, judged by the whole file.

A single line is not enough: the name may be on the line before, `--token` in the item before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from launcher.jobfile.diagnostics.diagnostic import Diagnostic, Related
from launcher.jobfile.text.document import Document, Spot
from launcher.jobfile.text.source import Source
from launcher.specs.secret import is_sensitive

_VALUES = ("default", "choices")
_REFERENCES = ("$", "env:", "file:")


def masked(found: Iterable[Diagnostic], document: Document) -> list[Diagnostic]:
    """Return the diagnostics of a file and of its other layers, with secrets in source lines starred out."""
    found = [*found]
    for layer in document.layers or (document,) if found else ():
        if layer.value is not None and (ranges := [*_secrets(layer.value, layer.root(), False)]):
            found = [_masked(each, layer.source, ranges) for each in found]
    return found


def _masked(each: Diagnostic, source: Source, ranges: list[tuple[int, int]]) -> Diagnostic:
    related = tuple(
        replace(place, source_line=_line(place, source, ranges)) if place.file == source.file else place
        for place in each.related
    )
    if each.file != source.file:
        return replace(each, related=related)
    return replace(each, source_line=_line(each, source, ranges), related=related)


def _line(place: Diagnostic | Related, source: Source, ranges: list[tuple[int, int]]) -> str:
    text = place.source_line
    if place.span is None or not text:
        return text
    first = source.start_of(place.span.line)
    for start, end in ranges:
        low, high = max(start - first, 0), min(end - first, len(text))
        if low < high:
            text = text[:low] + "*" * (high - low) + text[high:]
    return text


def _secrets(value: Any, spot: Spot, is_hidden: bool) -> Iterator[tuple[int, int]]:
    """The offsets of literals under sensitive-looking names, at any depth."""
    if isinstance(value, dict):
        for key, (_, _, inside) in (spot.entries or {}).items():
            hidden = is_sensitive(key) or (is_hidden and key in _VALUES)
            yield from _secrets(value.get(key), inside, hidden)
    elif isinstance(value, list):
        before: Any = ""
        for item, inside in zip(value, spot.items or (), strict=False):
            is_flag = isinstance(before, str) and before.startswith("-") and "=" not in before
            yield from _secrets(item, inside, is_hidden or (is_flag and is_sensitive(before)))
            before = item
    elif is_hidden and value is not None and not str(value).startswith(_REFERENCES):
        yield spot.start, spot.end
