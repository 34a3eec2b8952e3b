"""What to write where a list is wanted and one text, number or mapping stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.model.foreign import compose_mount
from launcher.jobfile.text.document import Path
from launcher.specs.sensitive import may_hold_secret
from launcher.specs.text import shell_words
from launcher.text import is_number

_LONGEST = 200
"""Characters: a longer list is not written out."""


def list_remedy(path: Path, value: Any, problems: Collector) -> str:
    """A label: the list that was meant, as the file's format writes it; "" where that is unknown."""
    field = str(path[-1]) if path else ""
    if isinstance(value, str) and may_hold_secret(value):
        return "make each word an item of a list"
    if field == "args" and isinstance(value, str) and _is_list_without_blanks(value):
        return "write a space after each `-`"
    items = _READERS.get(field, _split)(value)
    if items is None:
        return ""
    are_texts = all(isinstance(item, str) for item in items)
    # Double quotes mean the same in YAML and in TOML.
    shown = json.dumps(items, ensure_ascii=False) if are_texts else problems.written(items)
    return f"write {shown}" if len(shown) <= _LONGEST else ""


def trigger_remedy(value: str, problems: Collector) -> str:
    """A label for a text among the items of `rerun_on` that looks like a file."""
    return f"write {problems.written({'files': [value]})}" if re.search(r"[./*?\[]", value) else ""


def _is_list_without_blanks(text: str) -> bool:
    """Whether the lines `-m` and `- train` became one text: the first has no blank behind its hyphen."""
    return text[:1] == "-" and text[1:2].isalnum() and " - " in text


def _arguments(value: Any) -> list[str] | None:
    return shell_words(value) if isinstance(value, str) else None


def _mounts(value: Any) -> list[Any] | None:
    if isinstance(value, str):
        return [compose_mount(value) or value]
    return [value] if isinstance(value, dict) else None


def _triggers(value: Any) -> list[Any] | None:
    if value == "every_apply":
        return [value]
    files = value.get("files") if isinstance(value, dict) else value
    globs = _split(files) if isinstance(files, str) else files
    return [{"files": globs}] if globs and isinstance(globs, list) else None


def _choices(value: Any) -> list[Any] | None:
    """Numbers stay numbers: of which type they have to be, the variable says."""
    if not isinstance(value, str):
        return None if isinstance(value, dict) else [value]
    parts = _split(value) or []
    are_numbers = all(is_number(part.lstrip("+-")) for part in parts)
    return [float(part) if "." in part else int(part) for part in parts] if are_numbers else parts


def _split(value: Any) -> list[Any] | None:
    """The parts of a text between commas or blanks."""
    return [part for part in re.split(r"[\s,]+", value) if part] if isinstance(value, str) else None


_READERS: Mapping[str, Callable[[Any], list[Any] | None]] = {
    "args": _arguments,
    "choices": _choices,
    "inputs": _split,
    "mounts": _mounts,
    "rerun_on": _triggers,
}
