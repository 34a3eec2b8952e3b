"""Names of the jobs of a matrix: what each value is called in them, the same whatever other values there are.

A job's name is its identity, so adding a value to an axis must not rename the jobs there are. Every value has
therefore a slug of its own, and no two values of one axis have the same one.
"""

from __future__ import annotations

import re
from base64 import b32encode
from hashlib import sha256
from typing import Any

MAX_NAME = 63
_MARK = 5  # characters of a hash: enough to tell 256 combinations apart
_SIMPLE = re.compile(r"[a-z0-9]{1,24}\Z")
_LIKE_NUMBER = re.compile(r"m?[0-9]+(p[0-9]+)?(em?[0-9]+)?\Z|(true|false)\Z")


def slug(value: Any) -> str:
    """Letters and digits for a value: 0.1 → "0p1", -3 → "m3", 1e-05 → "1em05", "bf16" → "bf16".

    Text that is no plain word, or reads like a number, is marked by a hash of it: "B F/16" → "bf16-k3fwx".
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value).replace("+", "").replace("-", "m").replace(".", "p")
    text = str(value)
    if _SIMPLE.match(text) and not _LIKE_NUMBER.match(text):
        return text
    kept = "".join(char for char in text.lower() if char.isascii() and char.isalnum())[:24]
    return f"{kept}-{_mark(text)}" if kept else _mark(text)


def job_name(name: str, values: list[Any]) -> str:
    """`<name>-<slugs>`, fitted."""
    return fitted("-".join([name, *map(slug, values)]))


def fitted(full: str) -> str:
    """A name that fits a host name: one that is too long is cut, and marked by a hash of what it was."""
    if len(full) <= MAX_NAME:
        return full
    return f"{full[: MAX_NAME - _MARK - 1].rstrip('-')}-{_mark(full)}"


def _mark(text: str) -> str:
    return b32encode(sha256(text.encode()).digest())[:_MARK].decode().lower()
