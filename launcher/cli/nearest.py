"""Name the nearest of the allowed words."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that is most like `word`, None when none is near."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(word: str, allowed: Iterable[str]) -> str | None:
    near = nearest(word, allowed)
    return f"did you mean `{near}`?" if near else None
