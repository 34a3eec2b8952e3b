"""Publish a plan on its pull request: a comment for users, and its effects as an approval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.ci.approvals import Scope, effect_checks
from launcher.plan.model import Plan
from launcher.specs.launch import JobKey

_APPLIED = "<!-- launcher applied -->"

if TYPE_CHECKING:
    from launcher.ci.forge import Comment, Forge
    from launcher.ci.runner import Runner


def publish_effects(forge: Forge, runner: Runner, plan: Plan, scope: Scope) -> None:
    """Keep the effects of a stamped plan in check runs on the head of the pull request.

    The commit that a merge queue tests becomes the commit on the branch, so the effects lie on that commit.
    """
    number = str(runner.pull_request or "")
    for check in effect_checks(plan, scope, number):
        forge.add_check(check, sha=runner.head_sha)


def publish_comment(forge: Forge, number: int, mark: str, text: str, *, is_news: bool) -> None:
    """Write the one comment that carries a mark, or replace its text.

    Args:
        is_news: whether a comment is written where there is none.
    """
    for comment in _marked(forge.comments(number), mark):
        if comment.body.strip() == text.strip() or forge.edit_comment(number, comment.id, text):
            return
    if is_news:
        forge.add_comment(number, text)


def mark_of(scope: Scope) -> str:
    """The hidden line that the comment of a project and target begins with."""
    return f"<!-- launcher plan: {JobKey(scope.project, scope.target, '').session} -->"


def with_applied(body: str, words: str) -> str:
    """Return a comment's text with a sentence on what was applied, which replaces an earlier one."""
    return f"{body.partition(_APPLIED)[0].rstrip()}\n\n{_APPLIED}\n{words}\n"


def _marked(comments: list[Comment], mark: str) -> list[Comment]:
    """The comments that begin with a mark, the newest first."""
    return [comment for comment in reversed(comments) if comment.body.startswith(mark)]
