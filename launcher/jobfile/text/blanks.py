"""Characters that look like a space and are letters to YAML and TOML."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

BLANKS = "\u00a0\u1680\u202f\u205f\u2060\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200C)))
"""White space beyond ASCII: no-break, thin, ideographic, of no width."""


def blank_name(char: str) -> str:
    """ "no-break space (U+00A0)"."""
    return f"{unicodedata.name(char, 'blank').lower()} (U+{ord(char):04X})"


def blank_after_colon(text: str) -> str:
    """The first such character straight behind a colon; "" where there is none."""
    return next((after for before, after in pairwise(text) if before == ":" and after in BLANKS), "")
