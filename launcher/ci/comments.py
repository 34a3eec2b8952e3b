"""The comment of a project and target on a pull request: the plan, and below it what was applied."""

from __future__ import annotations

import re
from typing import Final

from launcher.ci.approvals import ApprovalScope, Forge
from launcher.specs.jobkey import DEFAULT_TARGET, JobKey

_MARK: Final = re.compile(r"<!-- launcher plan: ([a-z0-9-]+)(?:\.([a-z0-9-]+))? -->")
_APPLIED: Final = "<!-- launcher applied -->"


def publish_plan(forge: Forge, number: int, scope: ApprovalScope, text: str, *, is_news: bool) -> None:
    """Write the one comment of a project and target, or replace the plan in it.

    Args:
        text: begins with the mark of the scope.
        is_news: whether a missing comment is written.
    """
    for comment in reversed(forge.comments(number)):
        if not comment.body.startswith(mark_of(scope)):
            continue
        _, is_applied, words = comment.body.partition(_APPLIED)
        body = _with_applied(text, words.strip()) if is_applied else text
        if comment.body.strip() == body.strip() or forge.edit_comment(number, comment.id, body):
            return
    if is_news:
        forge.add_comment(number, text)


def publish_applied(forge: Forge, number: int, scope: ApprovalScope, words: str) -> None:
    """Write below the plan of a project and target which parts of the plan were applied."""
    for comment in forge.comments(number):
        if comment.body.startswith(mark_of(scope)):
            forge.edit_comment(number, comment.id, _with_applied(comment.body, words))


def _with_applied(body: str, words: str) -> str:
    return f"{body.partition(_APPLIED)[0].rstrip()}\n\n{_APPLIED}\n{words}\n"


def commented(forge: Forge, number: int) -> set[ApprovalScope]:
    """Return the projects and targets whose plans the comments of a pull request show."""
    found = (_MARK.match(comment.body) for comment in forge.comments(number))
    return {ApprovalScope(mark[1], mark[2] or DEFAULT_TARGET) for mark in found if mark}


def mark_of(scope: ApprovalScope) -> str:
    """The hidden line that the comment of a project and target begins with."""
    return f"<!-- launcher plan: {JobKey(scope.project, scope.target, '').session} -->"
