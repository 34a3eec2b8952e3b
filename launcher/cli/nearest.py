"""Name the nearest of the allowed words, or say nothing."""

from __future__ import annotations

from launcher.specs.nearest import nearest as nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(word: str, allowed: Iterable[str]) -> str | None:
    near = nearest(word, allowed)
    return f"did you mean `{near}`?" if near else None
