"""What is YAML and still wrong in a job file: keys that are no text, equal keys, tags, aliases of nothing."""

from __future__ import annotations

from typing import Any

from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.text.source import Source

Range = tuple[int, int]


def duplicate_key(source: Source, key: str, at: Range, first: Range) -> Diagnostic:
    """A key that stands twice in one mapping."""
    related = source.related(*first, "the first one is here")
    message, label = f"`{key}` stands twice in this mapping", "delete one of them"
    hint = "one `<<` takes several mappings: `<<: [*a, *b]`" if key == "<<" else ""
    return source.diagnostic(*at, "duplicate-key", message, label=label, hint=hint, related=(related,))


def unsupported_tag(source: Source, start: int, end: int, tag: str) -> Diagnostic:
    """Any tag but !!str, !!seq and !!map where they belong."""
    shown = source.text[start:end].split(maxsplit=1)[0] if end > start else tag
    hint = "job files know !!str, !!seq and !!map; put text with a leading `!` in quotes"
    message = f"the tag `{shown}` is not supported"
    return source.diagnostic(start, max(end, start + 1), "yaml-syntax", message, hint=hint)


def unmergeable(source: Source, start: int, end: int) -> Diagnostic:
    message = "`<<` merges mappings, and this is none"
    return source.diagnostic(start, max(end, start + 1), "yaml-syntax", message)


def describe_key(source: Source, start: int, end: int, key: Any) -> Diagnostic:
    """A key that is no text: a number, a word like `true`, or a whole collection (`{{ x }}`)."""
    if source.text.startswith("{{", max(0, start - 1)) and source.text[start : start + 1] == "{":
        hint = "references are written `$<var.NAME>`; text with braces needs quotes"
        return source.diagnostic(
            max(0, start - 1),
            start + 1,
            "yaml-syntax",
            "`{{` begins a mapping in YAML, no template",
            hint=hint,
        )
    if isinstance(key, dict | list):
        message = "a mapping or list cannot be a key"
        return source.diagnostic(start, max(end, start + 1), "yaml-syntax", message, label="write a name")
    shown = source.text[start:end].strip()
    kind = "a truth value" if isinstance(key, bool) else "nothing" if key is None else "a number"
    label = f'write `"{shown}"`' if shown else "write a name before the colon"
    message = f"keys are text, and `{shown}` is {kind}" if shown else "the key is missing"
    return source.diagnostic(start, max(end, start + 1), "wrong-type", message, label=label)


def unknown_alias(source: Source, start: int, end: int, name: str) -> Diagnostic:
    """`*name` without an anchor above it: usually a file pattern without quotes."""
    shown = source.text[start:end]
    return source.diagnostic(
        start,
        end,
        "yaml-syntax",
        f"`{shown}` repeats the value marked `&{name}`, and none is marked so above",
        label=f'put text in quotes: "{shown}"',
    )
