"""Plain data as YAML text for users. Writes only, so that no library has to be loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite

# Text that needs no quotes: not read by YAML as a number, a null, a boolean or syntax.
_PLAIN = re.compile(r"(?!\.[\d_])[A-Za-z_./<][\w./<>@+()=-]*(?: [\w./<>@+()=-]+)*", re.ASCII)
_KEYWORDS = frozenset({"<<", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"})
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "\x1b": "\\e"}


def to_yaml(value: object, *, sort: bool = True) -> str:
    """Block style, one final newline. Mappings, sequences, text, numbers, booleans and None.

    Args:
        sort: whether keys are sorted, or stay as they come.
    """
    lines = _block(value, sort)
    return "\n".join(lines) + "\n"


def to_flow(value: str | Sequence[str]) -> str:
    """A text, or a list of texts, on one line."""
    return _text(value) if isinstance(value, str) else f"[{', '.join(map(_text, value))}]"


def _block(value: object, sort: bool) -> list[str]:
    if isinstance(value, Mapping) and value:
        out: list[str] = []
        for key in sorted(value, key=str) if sort else value:
            out += _entry(f"{_scalar(str(key))}:", value[key], sort)
        return out
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and value:
        out = []
        for item in value:
            inner = _block(item, sort)
            out.append(f"- {inner[0]}")
            out += [f"  {line}" for line in inner[1:]]
        return out
    return [_scalar(value)]


def _entry(key: str, value: object, sort: bool) -> list[str]:
    inner = _block(value, sort)
    if isinstance(value, Mapping) and value:
        return [key, *(f"  {line}" for line in inner)]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and value:
        return [key, *inner]
    return [f"{key} {inner[0]}"]


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if isfinite(value) else f"{value}".replace("inf", ".inf").replace("nan", ".nan")
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return "[]"
    return _text(str(value))


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _KEYWORDS:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    if char in _SHORT:
        return _SHORT[char]
    return f"\\U{ord(char):08x}"
