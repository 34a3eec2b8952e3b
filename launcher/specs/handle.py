"""App handles, `scheduler://session/app_id`, and exceptions for unknown apps and schedulers."""

from __future__ import annotations

from collections import namedtuple

from launcher.errors import AppNotFoundError, UsageError
from launcher.text import name_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NamedTuple

AppHandle = str

if TYPE_CHECKING:

    class ParsedAppHandle(NamedTuple):
        """The three parts of a handle."""

        scheduler_backend: str
        session_name: str
        app_id: str

else:  # every command parses handles, and typing.NamedTuple would cost it the import of typing
    ParsedAppHandle = namedtuple("ParsedAppHandle", "scheduler_backend session_name app_id")
    ParsedAppHandle.__doc__ = "The three parts of a handle."


class MalformedAppHandleException(UsageError, ValueError):
    """The text is no app handle."""

    def __init__(self, app_handle: str) -> None:
        super().__init__(
            f"`{app_handle}` is not an app handle",
            hint="an app handle is SCHEDULER://[SESSION]/APP_ID, for example local_cwd://vision/train-1-k3fwx",
        )
        self.app_handle = app_handle


class UnknownSchedulerException(UsageError, KeyError, ValueError):
    """There is no scheduler of that name. `known` are the names that do.

    A KeyError and a ValueError: TorchX's runner raises the one, its `config.dump` the other.
    """

    def __init__(self, scheduler_backend: str, known: Iterable[str] = ()) -> None:
        super().__init__(
            f"there is no scheduler `{scheduler_backend}`", hint=name_hint(scheduler_backend, known)
        )
        self.scheduler_backend = scheduler_backend


class UnknownAppException(AppNotFoundError):
    """The scheduler knows no such app, or has forgotten it."""

    def __init__(self, app_handle: AppHandle) -> None:
        super().__init__(
            f"there is no app `{app_handle}`",
            hint="it may have been removed; `launcher list` shows what there is",
        )
        self.app_handle = app_handle


def parse_app_handle(app_handle: AppHandle) -> ParsedAppHandle:
    """Take a handle apart: "local_cwd://vision.prod/train-7-k3fwx".

    The session may be empty; neither it nor the app id holds a slash, and there is no blank around a handle.
    Raises MalformedAppHandleException.
    """
    if not isinstance(app_handle, str) or app_handle != app_handle.strip():
        raise MalformedAppHandleException(repr(app_handle))
    backend, scheme, rest = app_handle.partition("://")
    session, slash, app_id = rest.partition("/")
    if not (backend and scheme and slash and app_id) or "/" in app_id or "/" in backend or ":" in backend:
        raise MalformedAppHandleException(app_handle)
    return ParsedAppHandle(backend, session, app_id)


def make_app_handle(scheduler_backend: str, session_name: str, app_id: str) -> AppHandle:
    """The handle of an app; nothing is escaped."""
    return f"{scheduler_backend}://{session_name}/{app_id}"
