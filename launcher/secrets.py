"""Read secrets, only while submitting. Values are returned and never stored."""

from __future__ import annotations

import os
import stat

from launcher.errors import SecretError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_BYTES = 128 * 1024 - 256  # execve(2): one variable with its name takes 128 KiB at most


def resolve(reference: str) -> str:
    """The value of the reference `env:NAME` or `file:PATH`. A file's last line end is not part of it.

    Raises SecretError, which names the reference and never the value, for one that is missing or not
    valid as an environment variable. An empty value counts as missing: CI systems pass unset secrets so.
    """
    kind, _, name = reference.partition(":")
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise SecretError(
                f"the environment variable {name} is not set", hint=f"export {name} and apply again"
            )
    elif kind == "file":
        value = _read(os.path.expanduser(name))
    else:
        raise SecretError("a reference does not say where the secret is: want env:NAME or file:PATH")
    if not value:
        raise SecretError(f"{name} is empty")
    if "\0" in value:
        raise SecretError(f"{name} holds a NUL character, which no environment variable can")
    if len(os.fsencode(value)) > _MOST_BYTES:
        raise SecretError(f"{name} is larger than the {_MOST_BYTES} bytes that a variable can hold")
    return value


def missing(references: Iterable[str]) -> dict[str, str]:
    """Return the `references` that cannot be resolved, each with the reason."""
    out = {}
    for reference in dict.fromkeys(references):
        try:
            resolve(reference)
        except SecretError as error:
            out[reference] = str(error)
    return out


def _read(path: str) -> str:
    try:
        # A pipe would block, and could be read only once: the check before the submission would drain it.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SecretError(f"{path} is not a file")
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 3)
    except OSError as error:
        raise SecretError(f"cannot read {path}: {error.strerror or error}") from error
    for end in (b"\r\n", b"\n"):
        if data.endswith(end):
            data = data[: -len(end)]
            break
    try:
        return data.decode()
    except UnicodeDecodeError:
        # `from None`, since the original error holds the bytes of the secret.
        raise SecretError(f"{path} is not UTF-8 text") from None
