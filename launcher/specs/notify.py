"""Destinations of notifications: the URLs and commands that get the outcomes of attempts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from launcher.errors import LauncherError
from launcher.specs.secret import MalformedSecretException, Secret

OUTCOMES: Final = ("succeeded", "failed", "cancelled", "skipped", "lost")
"""The states of attempts that have ended."""
_PREFIX: Final = "whsec_"
_REFERENCE: Final = ("env:", "file:")
URL_PATTERN: Final = r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?([/?#][A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]*)?"
_WITH_PASSWORD: Final = r"https?://[^/?#]*@"


class MalformedAddressError(LauncherError, ValueError):
    """A text is no address of a receiver. The message does not repeat the text, which may hold a secret."""


class Destination(NamedTuple):
    """One receiver of outcomes: a URL or a command.

    Attributes:
        url: an http or https URL, or the reference of a secret that is one; "" for a command.
        command: program and arguments, which no shell reads; empty for a URL.
        secret: the reference of the key that signs what the URL gets; "" for unsigned notifications.
        on: the outcomes that it gets; empty for all.
        folder: the folder in which the command runs, absolute; "" for the root of the job file.
    """

    url: str = ""
    command: tuple[str, ...] = ()
    secret: str = ""
    on: tuple[str, ...] = ()
    folder: str = ""

    @property
    def references(self) -> dict[str, str]:
        """The name of each field that is a reference → the reference."""
        url = self.url if self.url.startswith(_REFERENCE) else ""
        return {name: text for name, text in (("url", url), ("secret", self.secret)) if text}

    def wants(self, state: str) -> bool:
        """Return whether the receiver gets this outcome."""
        return not self.on or state in self.on

    def to_json(self) -> dict[str, Any]:
        """The fields that are set."""
        found = {key: list(each) if isinstance(each, tuple) else each for key, each in self._asdict().items()}
        return {key: each for key, each in found.items() if each}

    def __str__(self) -> str:
        """The URL, or "the command `…`"; followed by the outcomes if it gets only some."""
        from shlex import join

        what = self.url or f"the command `{' '.join(join(self.command).split())}`"
        return f"{what} ({', '.join(self.on)})" if self.on else what


def from_json(value: Mapping[str, Any]) -> Destination:
    """The inverse of `Destination.to_json`."""
    made = Destination(**value)
    return made._replace(command=tuple(made.command), on=tuple(made.on))


def check_address(text: str) -> str:
    """Return `text` if it is an http or https URL without a password, or the reference of a secret.

    Raises MalformedAddressError.
    """
    if text.startswith(_REFERENCE):
        try:
            return str(Secret.parse(text))
        except MalformedSecretException as error:
            raise MalformedAddressError(str(error), hint=error.hint) from error
    return check_url(text)


def check_url(text: str) -> str:
    """Return `text` if it is an http or https URL without a password. Raises MalformedAddressError."""
    if re.match(_WITH_PASSWORD, text, re.IGNORECASE):
        hint = "remove it: `secret` proves who sends"
        raise MalformedAddressError("the URL holds a user name or a password", hint=hint)
    if not re.fullmatch(URL_PATTERN, text):
        hint = "such as https://example.com/hook, or env:NAME of a variable"
        raise MalformedAddressError("it is no http or https URL", hint=hint)
    return text


def key_bytes(key: str) -> bytes:
    """Decode a signing key. Raises MalformedAddressError unless it is `whsec_` and Base64."""
    from base64 import b64decode

    try:
        found = b64decode(key.removeprefix(_PREFIX), validate=True) if key.startswith(_PREFIX) else b""
    except ValueError:
        found = b""
    if not found:
        raise MalformedAddressError("it is no key: want `whsec_` and Base64, as the receiver shows it")
    return found


def parse(text: str, *, secret: str = "", folder: str) -> Destination:
    """Read a destination of a command line: a URL, the reference of one, or a command with arguments.

    Args:
        secret: as `Destination.secret`; unused by a command.
        folder: as `Destination.folder`.

    Raises MalformedAddressError.
    """
    if "://" in text.partition(" ")[0] or text.startswith(_REFERENCE):
        return Destination(url=check_address(text), secret=secret)
    from shlex import split

    try:
        command = tuple(split(text))
    except ValueError as error:
        raise MalformedAddressError(f"it is no command: {error}".lower(), hint="close the quote") from error
    if not command:
        raise MalformedAddressError("it is empty", hint="name a URL or a command")
    return Destination(command=command, folder=folder)
