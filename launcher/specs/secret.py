"""Secret: a reference to a confidential value. The reference is data; the value never is."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launcher.errors import LauncherError

_KINDS = ("env", "file")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class MalformedSecretException(LauncherError, ValueError):
    """A text is not a reference to a secret."""


class Secret(str):
    """A reference to a secret, `env:NAME` or `file:PATH`, as the value of a variable in `Role.env`.

    Its text is the reference, so that printing, comparing and storing use the reference.
    `launcher.secrets` reads the value while submitting, and never before. Macros mean nothing inside.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Secret:
        """The reference that `text` is.

        Raises MalformedSecretException, which does not repeat the text: it may be the secret itself.
        """
        kind, colon, name = text.partition(":")
        if not colon or kind not in _KINDS:
            raise MalformedSecretException(
                "it does not say where the secret is", hint="write env:NAME or file:PATH"
            )
        if kind == "env" and not _NAME.fullmatch(name):
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
    """The reference that a value of a document stands for, `{"secret": "env:NAME"}`; None for any other."""
    if not isinstance(value, Mapping) or value.keys() != {"secret"}:
        return None
    try:
        return Secret.parse(value["secret"]) if isinstance(value["secret"], str) else None
    except MalformedSecretException:
        return None
