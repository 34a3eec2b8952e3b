"""Hide literals that look like secrets by their names.

A plan's changes and reasons are pasted into pull requests, so a value goes before it gets into them; no
renderer has to remember. This is a net for literals: real secrets are references, and those are shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from launcher.specs.secret import Secret, reference_in

HIDDEN: Final = "(value not shown)"
"""Stands for a literal under a sensitive-looking name."""

SHORTEST_LITERAL: Final = 8
"""Characters of a literal under such a name that messages mask: a shorter one may be a word of any text."""

# Whole words, so that MAX_TOKENS, TOKENIZERS_PARALLELISM and AUTHOR stay readable.
_SENSITIVE = re.compile(
    r"(^|_)(secrets?|token|passwords?|passwd|pwd|passphrase|credentials?|auth|apikey)(_|$)"
    r"|(api|access|private|secret|encryption|signing|ssh)_?key"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_sensitive(name: str) -> bool:
    """Whether a value under this name should not be shown: `HF_TOKEN`, `apiKey`, `--db-password`."""
    words = _CAMEL.sub("_", name.strip("-")).replace("-", "_").replace(".", "_").lower()
    return _SENSITIVE.search(words) is not None


def may_hold_secret(text: str) -> bool:
    """Whether a value stands behind a name like that: `train --token abc`, `TOKEN=abc train`."""
    words = re.split(r"[\s=:]+", text.strip())
    return any(map(is_sensitive, words[:-1]))


def hide(value: Any, name: str = "") -> Any:
    """`value`, found under `name`, with what should not be shown replaced by HIDDEN at any depth."""
    if isinstance(value, Secret) or reference_in(value):
        return value
    if is_sensitive(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: hide(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide_item(value, k) for k in range(len(value))]
    return _hide_assignment(value)


def hide_item(items: Sequence[Any], index: int) -> Any:
    """`items[index]`, HIDDEN when it is the value of a sensitive flag in front of it: `--token`, `abc`."""
    flag = items[index - 1] if index else ""
    follows_flag = isinstance(flag, str) and flag.startswith("-") and "=" not in flag and is_sensitive(flag)
    return HIDDEN if follows_flag else hide(items[index])


def _hide_assignment(value: Any) -> Any:
    """`--token=abc` and `TOKEN=abc` keep their name only."""
    if not isinstance(value, str):
        return value
    name, assigns, _ = value.partition("=")
    return f"{name}={HIDDEN}" if assigns and is_sensitive(name) else value
