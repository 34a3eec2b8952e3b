"""Format job files canonically: keys in one order, one kind of quotes, two spaces, every comment kept.

`format_text` does all of it: `yaml_nodes` → `yaml_text` for YAML, `toml_text` for TOML, and a proof that the
outcome means the same as the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.errors import LauncherError
from launcher.files import PROJECT_FILE
from launcher.jobfile.format.style import ITEM, JOB, PROJECT, Odd, Path, fields
from launcher.jobfile.text.document import Document, Path as Place, Source, leaves
from launcher.jobfile.text.parse import parse

__all__ = ["Unformattable", "format_text"]


class Unformattable(LauncherError):
    """A valid file without a canonical form, or whose meaning would change. The file stays unchanged."""


def format_text(source: Source, document: Document) -> str:
    """The canonical text of a job file or launcher.toml that was read without errors.

    Line ends stay what they are. The result is a fixed point: formatted again, it does not change.

    Raises Unformattable.
    """
    text = source.text.replace("\r\n", "\n")
    known = PROJECT if source.file.replace("\\", "/").rpartition("/")[2] == PROJECT_FILE else JOB
    problem: Odd | None = None
    # An alias must follow its anchor, so the order stays when sorted keys would break that.
    for reorder in (True, False):
        try:
            result = _stable(source, text, known, reorder)
        except Odd as odd:
            problem = odd
            continue
        if result is not None and same_meaning(document, result):
            return result.replace("\n", "\r\n") if "\r\n" in source.text else result
    if problem is not None:
        line, column = source.position(problem.at)
        raise Unformattable(f"{source.file}:{line}:{column}: cannot be formatted with {problem.what}")
    raise Unformattable(
        f"{source.file}: cannot be formatted: the result would mean something else",
        hint="nothing was changed",
    )


def _stable(source: Source, text: str, known: Sequence[str], reorder: bool) -> str | None:
    """Format the text until it no longer changes; None when it never settles."""
    for _ in range(4):
        before, text = text, _once(source, text, known, reorder)
        if text == before:
            return text
    return None


def _once(source: Source, text: str, known: Sequence[str], reorder: bool) -> str:
    # imported only for its format, so that a TOML file does not wait for the YAML library
    if source.format == "toml":
        from launcher.jobfile.format.toml_text import format_toml

        return format_toml(text, known, reorder=reorder)
    from launcher.jobfile.format.yaml_text import format_yaml

    return format_yaml(text, known, reorder=reorder)


def same_meaning(before: Document, text: str) -> bool:
    """Whether `text` has the same meaning and the same comments as the document."""
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
    """Return the value with its types, since `1`, `1.0` and `true` are equal in Python, and with the order of
    keys that users choose.
    """
    if isinstance(value, list):
        return [_ordered(item, (*path, ITEM)) for item in value]
    if not isinstance(value, dict):
        return type(value).__name__, repr(value)
    pairs = [(key, _ordered(item, (*path, key))) for key, item in value.items()]
    return pairs if fields(path) is None else sorted(pairs, key=lambda pair: pair[0])


def _numbers(document: Document) -> dict[Place, str]:
    """Return every number and date as written."""
    return {
        path: document.raw(path)
        for path, value in leaves(document.value)
        if not isinstance(value, str | bool) and value is not None
    }


def _comments(text: str, kind: str) -> list[str]:
    if kind == "toml":
        from launcher.jobfile.format.toml_text import comments as of_toml

        return of_toml(text)
    from launcher.jobfile.format.yaml_nodes import comments as of_yaml

    return of_yaml(text)
