"""The identity of a job, the app ids of its attempts, and app handles, `scheduler://session/app_id`.

Separate from launch.py, because every command needs it.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache

from launcher.errors import AppNotFoundError, UsageError
from launcher.text import name_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NamedTuple

DEFAULT_PROJECT = "default"
DEFAULT_TARGET = "default"
"""The target of a job without an overlay."""

DEFAULT_SCHEDULER = "local_cwd"
"""The scheduler of a job whose file names none."""

if TYPE_CHECKING:

    class _Fields(NamedTuple):
        project: str
        target: str
        job: str

    class ParsedAppHandle(NamedTuple):
        """The three parts of a handle."""

        scheduler_backend: str
        session_name: str
        app_id: str

else:  # importing typing.NamedTuple would slow down every command
    _Fields = namedtuple("_Fields", "project target job")
    ParsedAppHandle = namedtuple("ParsedAppHandle", "scheduler_backend session_name app_id")
    ParsedAppHandle.__doc__ = "The three parts of a handle."

AppHandle = str


class JobKey(_Fields):
    """The identity of a job, independent of its document."""

    __slots__ = ()

    @property
    def session(self) -> str:
        """The session in the job's app handles: the project, with `.target` unless it is the default one."""
        return self.project if self.target == DEFAULT_TARGET else f"{self.project}.{self.target}"

    def __str__(self) -> str:
        return f"{self.session}/{self.job}"


def are_of_several_sessions(keys: Iterable[tuple[str, str, str]]) -> bool:
    """Whether jobs are of several projects or targets, so that a name alone may mean two of them."""
    return len({key[:2] for key in keys}) > 1


def attempt_id(key: JobKey, number: int) -> str:
    """The app id of an attempt: `<job>-<number>-<h>`, the same on every machine.

    `h` is 5 characters of lower-case base32 (RFC 4648) of the SHA-256 of project and target, so that
    equally named jobs of two projects do not meet in an engine's flat name space.
    """
    return f"{key.job}-{number}-{_scope(key.project, key.target)}"


_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


@cache
def _scope(project: str, target: str) -> str:
    from launcher.hashes import sha256

    bits = int.from_bytes(sha256(f"{project}\0{target}".encode()).digest()[:4], "big") >> 7  # the first 25
    return "".join(_BASE32[bits >> shift & 31] for shift in (20, 15, 10, 5, 0))


class MalformedAppHandleException(UsageError, ValueError):
    """The text is no app handle."""

    def __init__(self, app_handle: str) -> None:
        super().__init__(
            f"`{app_handle}` is not an app handle",
            hint="an app handle is SCHEDULER://[SESSION]/APP_ID, for example local_cwd://vision/train-1-k3fwx",
        )
        self.app_handle = app_handle


class UnknownSchedulerException(UsageError, KeyError, ValueError):
    """No scheduler has that name. `known` are the names of schedulers.

    A KeyError and a ValueError: TorchX's runner raises the first, its `config.dump` the second.
    """

    def __init__(self, scheduler_backend: str, known: Iterable[str] = ()) -> None:
        super().__init__(
            f"there is no scheduler `{scheduler_backend}`", hint=name_hint(str(scheduler_backend), known)
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

    The session may be empty. Session and app id contain no slash, and no blank surrounds a handle.
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
