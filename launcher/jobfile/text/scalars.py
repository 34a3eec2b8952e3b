"""Plain YAML scalars by the 1.2 core schema: what `no`, `017`, `22:30` and `1_000` mean.

ruamel's own resolver follows older rules (dates, `1_000`, `0b11`); editors follow these.
"""

from __future__ import annotations

import re

_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_NUMBER_STARTS = frozenset("0123456789+-.")
_INT = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z")
_NAN = frozenset((".nan", ".NaN", ".NAN"))

MAX_DIGITS = 400
"""Longer numbers stay text: no field takes one, and Python refuses to convert beyond 4,300 digits."""


def resolve_plain(text: str) -> str | int | float | bool | None:
    """The value of a scalar written without quotes or tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > MAX_DIGITS:
        return text
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    if _BASED.match(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if _INFINITE.match(text):
        return float("-inf") if text[0] == "-" else float("inf")
    return float("nan") if text in _NAN else text
