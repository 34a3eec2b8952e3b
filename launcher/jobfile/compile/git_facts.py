"""What `$<git.sha>`, `$<git.short_sha>` and `$<git.branch>` stand for, in the repository of the job file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from launcher.errors import CommandError
from launcher.git import Head, Repository
from launcher.jobfile.compile.variables import Value

GIT_NAMES = ("git.sha", "git.short_sha", "git.branch")
_SHORT = 7  # not git's own length, which grows with the repository: one commit has one digest everywhere
_DIRTY = "-dirty"


class Trouble(NamedTuple):
    """Why a git reference has no value."""

    code: str
    message: str
    hint: str = ""


@dataclass(slots=True)
class GitFacts:
    """The commit and branch of a work tree, looked up at the first reference to them, once.

    Attributes:
        tree: None where there is no repository.
        allow_dirty: changed files mark the commit with `-dirty` instead of being an error.
        is_assumed: git is not asked; values of the right shape stand in.
    """

    tree: Repository | None
    allow_dirty: bool = False
    is_assumed: bool = False
    _head: Head | Trouble | None = field(default=None)

    def look_up(self, name: str) -> Value | Trouble:
        """The value of one of GIT_NAMES."""
        if self._head is None:
            self._head = self._ask()
        head = self._head
        if isinstance(head, Trouble):
            return head
        if name == "git.branch":
            if not head.branch:
                return Trouble("no-commit", "no branch is checked out", "check one out, or use `$<git.sha>`")
            return Value(head.branch, head.branch, self.is_assumed, "git")
        commit = head.oid[:_SHORT] if name == "git.short_sha" else head.oid
        commit += _DIRTY if head.is_dirty else ""
        return Value(commit, commit, self.is_assumed, "git")

    def _ask(self) -> Head | Trouble:
        if self.tree is None:
            return Trouble(
                "no-commit", "the file is in no git repository", "`git init` and commit, or use a variable"
            )
        if self.is_assumed:
            return Head("0" * 40, "main", False)
        try:
            head = self.tree.head()
        except CommandError as error:
            return Trouble("no-commit", f"git does not say which commit this is: {error}".splitlines()[0])
        if not head.oid:
            return Trouble("no-commit", "the repository has no commit yet", "commit, or use a variable")
        if head.is_dirty and not self.allow_dirty:
            message = "files differ from the commit that this reference names"
            return Trouble("dirty-tree", message, "commit them, or pass --allow-dirty for `…-dirty`")
        return head
