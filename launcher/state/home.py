"""The identity of this state folder (LAUNCHER_HOME), which is a random token, and of the user.

Two state folders can have a job of the same name, and so equal app ids. Tickets, labels and records carry the
token, so that each folder acts on its own apps alone.
"""

from __future__ import annotations

import os
import pwd

from launcher import paths

_BYTES = 5
_MOST_CHARS = 64


def token() -> str:
    """Return the token; "" before the first command that changes something and so makes the token.

    Raises StateError when the file cannot be read.
    """
    path = paths.home_token()
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = file.read(_MOST_CHARS).strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise paths.unusable(error, path) from error
    return found if found.isascii() and found.isalnum() else ""


def make_token() -> str:
    """Return the token, made when it is missing. Processes that race to make it get the same one.

    Raises StateError when it cannot be written.
    """
    known = token()
    if known:
        return known
    path = paths.home_token()
    paths.ensure(os.path.dirname(path))
    beside = f"{path}.{os.getpid()}.new"
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, f"{_random()}\n".encode())
        finally:
            os.close(fd)
        try:
            os.link(beside, path)
        except FileExistsError:
            if not token():  # damaged: empty, or no token
                os.replace(beside, path)
        finally:
            _unlink(beside)
    except OSError as error:
        raise paths.unusable(error, path) from error
    return token()


def _random() -> str:
    """Ten hexadecimal digits."""
    return os.urandom(_BYTES).hex()


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def actor() -> str:
    """The user of this process, as `user@host`. A user without a name is a number."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run as a user without a passwd entry
        user = str(os.geteuid())
    return f"{user}@{os.uname().nodename}"
