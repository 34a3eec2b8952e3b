"""Ask GitHub for the pull request and the approval of an attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from launcher.ci.approvals import Scope, approval_in
from launcher.ci.forge import Pull
from launcher.ci.github import GitHub
from launcher.inventory.verify import Chain


def asked(chain: Chain, github: GitHub) -> Chain:
    """The chain with its pull request and approval checked at GitHub. Raises GitHubError, LauncherError."""
    number = chain.attempt.pull_request
    if not number.isdecimal():
        return chain
    pull = github.pull(int(number))
    judged = {"pull request": _pull(pull), "approval": _approval(chain, pull, github)}
    links = [
        replace(link, **judged[link.name]) if link.mark != "wrong" and judged.get(link.name) else link
        for link in chain.links
    ]
    return replace(chain, links=links)


def _pull(pull: Pull | None) -> dict[str, Any]:
    if pull is None or not pull.merged:
        expected = "a merged pull request"
        return {
            "mark": "wrong",
            "why": "GitHub has not merged it",
            "expected": expected,
            "found": _state(pull),
        }
    return {"mark": "checked", "why": f"merged as {pull.merge_commit_sha[:7]}, says GitHub"}


def _state(pull: Pull | None) -> str:
    return "no such pull request" if pull is None else "an unmerged pull request"


def _approval(chain: Chain, pull: Pull | None, github: GitHub) -> dict[str, Any]:
    """The judgement on the approval: one of the lists of effects must hold that of the attempt."""
    attempt = chain.attempt
    if pull is None or not attempt.effect:
        return {}
    scope = Scope(*attempt.key[:2])
    commits = filter(None, (pull.head_sha, pull.merge_commit_sha, attempt.commit.partition("-")[0]))
    lists = [approval_in(github.check_runs(commit), scope) for commit in dict.fromkeys(commits)]
    starts = [start.digest for each in lists if each for start in each.starts if start.key == attempt.key]
    if attempt.effect in starts:
        return {"mark": "checked", "why": f"its check run on GitHub holds {attempt.effect}"}
    if not any(lists):
        return {"mark": "missing", "why": "not checked: GitHub has no check run with effects for it"}
    held = ", ".join(starts) or "no start of this job"
    why = "its check run on GitHub does not hold the effect"
    return {"mark": "wrong", "why": why, "expected": attempt.effect, "found": held}
