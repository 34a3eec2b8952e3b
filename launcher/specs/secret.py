"""Secret: a reference to a confidential value. Data holds the reference, and never the value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from launcher.errors import LauncherError

HIDDEN: Final = "(value not shown)"
"""The text shown in place of a literal under a sensitive-looking name."""

SHORTEST_LITERAL: Final = 8
"""The least length of such a literal that messages mask: a shorter one may be a common word."""

# Only whole words are sensitive, so that MAX_TOKENS, TOKENIZERS_PARALLELISM and AUTHOR stay readable.
_SENSITIVE: Final = (
    r"(^|_)(secrets?|token|(pg)?passwords?|passwd|pwd|passphrase|credentials?|auth|apikey)(_|$)"
    r"|(api|access|private|secret|encryption|signing|ssh)_?key"
)
_FOLDERS = ("PWD", "OLDPWD")
"""Variables whose values are folders in every shell."""
_CAMEL: Final = r"(?<=[a-z0-9])(?=[A-Z])"


@lru_cache(4096)
def is_sensitive(name: str) -> bool:
    """Whether a value under this name should not be shown: `HF_TOKEN`, `apiKey`, `--db-password`."""
    if name in _FOLDERS:
        return False
    words = re.sub(_CAMEL, "_", name.strip("-")).replace("-", "_").replace(".", "_").lower()
    return re.search(_SENSITIVE, words) is not None


def may_hold_secret(text: str) -> bool:
    """Whether a text has a value behind a sensitive name: `train --token abc`, `TOKEN=abc train`."""
    words = re.split(r"[\s=:]+", text.strip())
    return any(map(is_sensitive, words[:-1]))


def hide(value: Any, name: str = "") -> Any:
    """Return `value`, found under `name`, with sensitive parts replaced by HIDDEN at any depth."""
    if isinstance(value, Secret) or reference_in(value):
        return value
    if is_sensitive(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: hide(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide_item(value, k) for k in range(len(value))]
    if not isinstance(value, str):
        return value
    name, assigns, _ = value.partition("=")  # `--token=abc` and `TOKEN=abc` keep their names
    return f"{name}={HIDDEN}" if assigns and is_sensitive(name) else value


def hide_item(items: Sequence[Any], index: int) -> Any:
    """Return `items[index]`, or HIDDEN when the item before it is a sensitive flag: `--token`, `abc`."""
    flag = items[index - 1] if index else ""
    follows_flag = isinstance(flag, str) and flag.startswith("-") and "=" not in flag and is_sensitive(flag)
    return HIDDEN if follows_flag else hide(items[index])


_KINDS = ("env", "file")


class MalformedSecretException(LauncherError, ValueError):
    """A text is not a reference to a secret."""


class Secret(str):
    """A reference to a secret, `env:NAME` or `file:PATH`, as the value of a variable in `Role.env`.

    Its text is the reference, so that printing, comparing and storing use the reference.
    `launcher.secrets` reads the value while submitting, and never before. Macros are not resolved inside.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Secret:
        """Read `text` as a reference.

        Raises MalformedSecretException, which does not repeat the text: it may be the secret itself.
        """
        kind, colon, name = text.partition(":")
        if not colon or kind not in _KINDS:
            hint = "write env:NAME or file:PATH"
            raise MalformedSecretException("it does not say where the secret is", hint=hint)
        if kind == "env" and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise MalformedSecretException(
                "what follows `env:` is not the name of an environment variable",
                hint="write it as in env:API_KEY",
            )
        if kind == "file" and (not name.strip() or "\0" in name):
            raise MalformedSecretException(
                "what follows `file:` is not the path of a file", hint="write it as in file:~/.api-key"
            )
        return cls(text)

    @property
    def kind(self) -> str:
        """ "env" or "file"."""
        return self.partition(":")[0]

    @property
    def name(self) -> str:
        """The variable, or the file's path as written."""
        return self.partition(":")[2]

    def __str__(self) -> str:
        return self[:]  # a plain str, for storage

    def __repr__(self) -> str:
        return f"Secret({str.__repr__(self)})"


def reference_in(value: object) -> Secret | None:
    """Return the reference in a document's value `{"secret": "env:NAME"}`; None for any other value."""
    if not isinstance(value, Mapping) or value.keys() != {"secret"}:
        return None
    try:
        return Secret.parse(value["secret"]) if isinstance(value["secret"], str) else None
    except MalformedSecretException:
        return None
