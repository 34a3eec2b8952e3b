"""Ids of apps, and names that are valid as host names."""

from __future__ import annotations

import os

# No vowels, so that no words appear; no 8, as it looks like B. Host names have to begin with a letter.
START_CANDIDATES = "bcdfghjklmnpqrstvwxz"
END_CANDIDATES = START_CANDIDATES + "012345679"

_LABEL_LIMIT = 63  # length of a DNS label


def random_uint64() -> int:
    """A 64-bit number from the system's random source."""
    return int.from_bytes(os.urandom(8), "big")


def random_id() -> str:
    """A random id of at most 14 characters, never empty."""
    number = 0
    while number == 0:
        number = random_uint64()
    out = ""
    alphabet = START_CANDIDATES
    while number:
        number, digit = divmod(number, len(alphabet))
        out += alphabet[digit]
        alphabet = END_CANDIDATES
    return out


def get_len_random_id(string_length: int) -> str:
    """A random id of exactly `string_length` characters."""
    if string_length < 1:
        raise ValueError(f"an id has at least one character, not {string_length}")
    number = int.from_bytes(os.urandom(string_length + 8), "big")  # 8 more bytes: no digit is favoured
    out = ""
    alphabet = START_CANDIDATES
    for _ in range(string_length):
        number, digit = divmod(number, len(alphabet))
        out += alphabet[digit]
        alphabet = END_CANDIDATES
    return out


def make_unique(name: str, string_length: int = 0) -> str:
    """`name-<id>`, with an id of `string_length` characters; 0 takes all 64 bits."""
    return f"{name}-{random_id() if string_length == 0 else get_len_random_id(string_length)}"


def normalise(name: str, limit: int = _LABEL_LIMIT) -> str:
    """`name` as a DNS label: `Train Model/2` → `train-model-2`. Never empty, at most `limit` characters."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower())
    return "-".join(part for part in kept.split("-") if part)[:limit].rstrip("-") or "app"
