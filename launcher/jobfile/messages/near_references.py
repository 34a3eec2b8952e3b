"""Text that was meant as a reference and is none: `$<app_id`, `$< app_id >`, `${var.lr}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*"
# A `$` in front makes it text: `$${var.lr}`.
_NEAR = re.compile(
    rf"(?<!\$)\$(?:<[ \t]*(?P<open>{_NAME})(?:[ \t]*>)?|\{{\{{?[ \t]*(?P<brace>{_NAME})[ \t]*\}}?\}})"
)
_PHASES = ("var.", "matrix.", "job.", "git.", "target.")


def near_references(text: str, is_known: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """The texts that only look like a reference, each with the name that it looks like.

    Only names that leave no doubt count: known ones, and behind `$<` also those of the form `var.x`. Braces
    are of the shell, and of templates: behind them a name must be known, and have a dot.
    """
    for found in _NEAR.finditer(text):
        name, written = found["open"] or found["brace"], found[0]
        if written == f"$<{name}>":
            continue
        is_open = found["open"] is not None
        if (is_open and name.startswith(_PHASES)) or ((is_open or "." in name) and is_known(name)):
            yield written, name
