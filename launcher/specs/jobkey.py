"""The identity of a job, and the app ids of its attempts. Separate from launch.py: every command needs it."""

from __future__ import annotations

from collections import namedtuple
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
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

else:  # typing.NamedTuple would cost every command the import of typing
    _Fields = namedtuple("_Fields", "project target job")


class JobKey(_Fields):
    """The identity of a job, independent of its document."""

    __slots__ = ()

    @property
    def session(self) -> str:
        """The session in the job's app handles: the project, with `.target` unless it is the default one."""
        return self.project if self.target == DEFAULT_TARGET else f"{self.project}.{self.target}"

    def __str__(self) -> str:
        return f"{self.session}/{self.job}"


def attempt_id(key: JobKey, number: int) -> str:
    """The app id of an attempt: `<job>-<number>-<h>`, the same on every machine.

    `h` is 5 characters of lower-case base32 (RFC 4648) of the SHA-256 of project and target, so that
    equally named jobs of two projects do not meet in an engine's flat name space.
    """
    return f"{key.job}-{number}-{_scope(key.project, key.target)}"


@cache
def _scope(project: str, target: str) -> str:
    from base64 import b32encode
    from hashlib import sha256

    digest = sha256(f"{project}\0{target}".encode()).digest()
    return b32encode(digest)[:5].decode().lower()
