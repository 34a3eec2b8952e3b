"""The proof that formatting has changed nothing: values, numbers as written, orders that count, comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from launcher.jobfile.format.order import ITEM, Path, fields
from launcher.jobfile.text.document import Document
from launcher.jobfile.text.document import Path as Place
from launcher.jobfile.text.parse import parse
from launcher.jobfile.text.source import Source


def same_meaning(before: Document, text: str) -> bool:
    """Whether `text` says what the document says, and has the same comments."""
    source = before.source
    after = parse(Source(source.file, source.format, text))
    if after.problems or after.value is None or before.value is None:
        return False
    return (
        _ordered(before.value, ()) == _ordered(after.value, ())
        and _numbers(before) == _numbers(after)
        and _comments(source.text.replace("\r\n", "\n"), source.format) == _comments(text, source.format)
    )


def _ordered(value: Any, path: Path) -> Any:
    """The value with its types (`1`, `1.0` and `true` are equal in Python), and with the order of keys
    where it is the user's."""
    if isinstance(value, list):
        return [_ordered(item, (*path, ITEM)) for item in value]
    if not isinstance(value, dict):
        return type(value).__name__, repr(value)
    pairs = [(key, _ordered(item, (*path, key))) for key, item in value.items()]
    return pairs if fields(path) is None else sorted(pairs, key=lambda pair: pair[0])


def _numbers(document: Document) -> dict[Place, str]:
    """Every number and date as it is written."""
    return {
        path: document.raw(path)
        for path, value in _leaves(document.value, ())
        if not isinstance(value, str | bool) and value is not None
    }


def _leaves(value: Any, path: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, number))
    else:
        yield path, value


def _comments(text: str, kind: str) -> list[str]:
    if kind == "toml":
        from launcher.jobfile.format.toml_text import comments as of_toml

        return of_toml(text)
    from launcher.jobfile.format.yaml_comments import comments as of_yaml

    return of_yaml(text)
