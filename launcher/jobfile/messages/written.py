"""Values on one line as a job file writes them: what a message advises can be pasted into the file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.jobfile.text.source import Format
from launcher.specs.yamltext import to_flow

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_AMOUNT = re.compile(r"(?!0x)[0-9]+[A-Za-z]{1,3}")
"""`4GiB`, `90s`: begins with a digit, and is no number."""


def written(value: Any, form: Format) -> str:
    """A text, number, truth value, list or mapping of such, in YAML or TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value, form)
    if isinstance(value, Mapping):
        between = " = " if form == "toml" else ": "
        return f"{{{', '.join(_key(key, form) + between + written(value[key], form) for key in value)}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(written(item, form) for item in value)}]"
    return str(value)


def entry(key: str, value: Any, form: Format) -> str:
    """A key and its value: `image: x`, in TOML `image = "x"`."""
    return written({key: value}, form)[1:-1]


def _text(text: str, form: Format) -> str:
    is_plain = to_flow(text) == text or text == "…" or _AMOUNT.fullmatch(text)
    if form == "yaml" and is_plain:
        return text
    return json.dumps(text, ensure_ascii=False)


def _key(key: str, form: Format) -> str:
    return key if form == "toml" and _BARE.fullmatch(key) else _text(key, form)
