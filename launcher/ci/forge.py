"""The server of a repository, GitHub or GitLab, as `launcher ci` uses it: comments, checks, pull requests."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from launcher.dataclass import dataclass
from launcher.errors import LauncherError

MOST_CHARACTERS: Final = 60_000
"""The longest text that is written; GitHub takes at most 65,536 in a comment and 65,535 in a check run."""


class ForgeError(LauncherError):
    """The server refused a request, or did not answer.

    Attributes:
        status: HTTP status of the answer; 0 without an answer.
        permission: the permission that the token lacks, such as `checks: write`; "" for another reason.
    """

    code = "forge"

    def __init__(self, message: str, *, status: int = 0, permission: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.permission = permission

    @property
    def is_forbidden(self) -> bool:
        """Whether the token may not do this."""
        return bool(self.permission)


@dataclass(frozen=True, slots=True)
class ForgeComment:
    id: int
    body: str
    author: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    id: int
    name: str
    sha: str
    conclusion: str = ""
    title: str = ""
    summary: str = ""
    text: str = ""
    external_id: str = ""
    app: str = ""
    started_at: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    number: int
    head_sha: str
    base_ref: str
    merged: bool
    merge_commit_sha: str = ""
    head_repository: str = ""
    title: str = ""
    url: str = ""
    author: str = ""


class Check(NamedTuple):
    """A check run to write."""

    name: str
    conclusion: str
    title: str
    summary: str
    text: str
    external_id: str


class Words(NamedTuple):
    """The words of a server.

    Attributes:
        request: the name of a pull request.
        sign: before the number of one.
        by_hand: how a plan is applied by hand, followed by its digest.
    """

    request: str
    sign: str
    by_hand: str


class Forge(Protocol):
    """The requests of the steps of `launcher ci` to a server. Raises ForgeError."""

    words: Words

    def comments(self, number: int) -> list[ForgeComment]:
        """The comments of `launcher ci` on a pull request, the oldest first."""

    def add_comment(self, number: int, body: str) -> ForgeComment: ...

    def edit_comment(self, number: int, comment_id: int, body: str) -> bool:
        """Replace the text of a comment; False where it is gone."""

    def check_runs(self, sha: str, name: str = "") -> list[CheckRun]:
        """The checks of a commit, the newest first; of one name, or all."""

    def checks_of(self, pull: Pull) -> list[CheckRun]:
        """The checks of the head of a pull request, the newest first."""

    def add_check(self, check: Check, *, sha: str) -> None: ...

    def pulls_of(self, sha: str) -> list[Pull]:
        """The pull requests that a commit belongs to."""

    def number_in(self, subject: str) -> int | None:
        """The pull request that the subject of a commit claims to come from."""

    def pull(self, number: int) -> Pull | None:
        """A pull request; None where there is none of that number."""
