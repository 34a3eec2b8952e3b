"""Warnings about the text of a job file: characters that look like others, TOML that few tools read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.text.blanks import BLANKS, blank_name
from launcher.jobfile.text.document import Document, Path
from launcher.jobfile.text.toml_newer import newer_toml

_PAIRS = {"“": "”", "„": "“”", "”": "”", "‘": "’", "‚": "‘’"}
_DOUBLE = "“”„"
_PROSE = frozenset({"description", "metadata", "help", "tags"})
"""Keys whose text is for people: a quote there is a quote."""


def advise_text(document: Document, problems: Collector) -> None:
    """Note what a reader of the file would take for something else than it is."""
    source = document.source
    if source.format == "toml":
        for start, end, what, label in newer_toml(source.text):
            message = f"{what} is TOML 1.1, and many tools read TOML 1.0 only"
            found = source.diagnostic(start, end, "newer-toml", message, label=label)
            problems.found.append(replace(found, severity="warning"))
    elif not source.text.isascii():
        for path, text in _texts(document.value, ()):
            _advise_characters(path, text, problems)


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """The texts that programs read, with their paths."""
    if isinstance(value, str):
        if not value.isascii():
            yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in _PROSE and not key.startswith("x-"):
                yield from _texts(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*path, index))


def _advise_characters(path: Path, text: str, problems: Collector) -> None:
    start, _ = problems.document.value_range(path)
    if not problems.document.source.text.startswith(text[:1], start):
        return  # in quotes, or a text of several lines: it was written like this on purpose
    if _looks_quoted(text):
        message = "these are typographic quotes, and part of the value"
        label = "write plain ones: \" or '"
        problems.add(path, "lookalike-character", message, label=label, severity="warning")
    elif text.strip(BLANKS) != text:
        char = text[0] if text[0] in BLANKS else text[-1]
        where = "begins" if text[0] in BLANKS else "ends"
        message = f"the value {where} with a {blank_name(char)}, which is part of it"
        problems.add(path, "lookalike-character", message, label="delete it", severity="warning")


def _looks_quoted(text: str) -> bool:
    """Whether a text stands in typographic quotes, or has a double one at one end and no other."""
    doubles = sum(char in _DOUBLE for char in text)
    if len(text) > 1 and text[-1] in _PAIRS.get(text[0], ""):
        return doubles in (0, 2)  # “a” or “b” is a sentence
    # `[“a, b”]` in brackets is two texts. A single quote alone is an apostrophe.
    return doubles == 1 and (text[0] in "“„" or text[-1] == "”")
