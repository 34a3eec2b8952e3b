"""Tell a component on a command line from a job file, and its words from those of the command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

OF_FILES = ("job", "target", "var", "var_file", "allow_dirty", "no_components", "no_env_vars", "strict")
OF_RUN = ("scheduler", "cfg", "dryrun", "detach", "queue", "workspace", "parent_run_id")


def words_of(
    words: Sequence[str], declared: Any, *, always: bool = False
) -> tuple[Sequence[str], Sequence[str] | None]:
    """Split words into those up to the component and those after it; (all, None) without a component.

    Args:
        declared: the command's own options (`launcher.cli.arguments.Arguments`).
        always: whether the first name is a component in any case.
    """
    takes_value = {name for option in declared.declared if not option.is_flag for name in option.names}
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--" and position + 1 < len(words):
            own = [*words[:position], words[position + 1]]
            return (own, words[position + 2 :]) if always or is_component(own[-1]) else (words, None)
        if not word.startswith("-") or word == "-":
            own = [*words[: position + 1]]
            return (own, words[position + 1 :]) if always or is_component(word) else (words, None)
        position += 2 if word in takes_value else 1
    return words, None


def is_component(word: str) -> bool:
    """Whether a word names a component, not a file: no such file exists, and it has no suffix of a file.

    A name without dots must be registered by a package: in `launcher run train` it may be a misspelt file.
    """
    if ".py:" in word or word.endswith(".py"):
        return True
    is_file = os.path.exists(word) or os.sep in word or word.endswith((".yaml", ".yml", ".toml", ".json"))
    if is_file or not all(part.isidentifier() for part in word.split(".")):
        return False
    if "." in word:
        return True
    from launcher.components.finder import is_registered

    return is_registered(word)
