"""Effects in check runs: the plan of a pull request becomes an approval once the pull request is merged.

A check run on the head of a pull request holds the effects of its plan, compressed. Only a GitHub app may
write check runs, and the token of a workflow belongs to one; every user who may push can write a commit
status.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from launcher.ci.forge import MOST_CHARACTERS, Check, CheckRun, Pull
from launcher.ci.github import GitHub
from launcher.ci.gitlab import GitLab
from launcher.dataclass import replace
from launcher.errors import LauncherError
from launcher.inventory.verify import Chain
from launcher.plan.approved import approval_faults, approval_json, to_approval
from launcher.plan.model import Plan
from launcher.specs.launch import JobKey

if TYPE_CHECKING:
    from launcher.plan.effects import Approval


_MOST: Final = 16 << 20
"""Bytes of a decompressed list of effects."""
_LISTED: Final = 50


Forge = GitHub | GitLab
"""The server of a repository."""


class ApprovalScope(NamedTuple):
    """The project and target that comments, check runs and approvals are about."""

    project: str
    target: str

    def __str__(self) -> str:
        return f"({self.project}, {self.target})"


def scopes_of(plan: Plan) -> list[ApprovalScope]:
    """The projects and targets of a plan, sorted."""
    keys = [step.key for step in plan.steps] + [orphan.key for orphan in plan.orphans]
    return sorted({ApprovalScope(key.project, key.target) for key in keys})


def part_of(plan: Plan, scope: ApprovalScope) -> Plan:
    """The plan for one project and target."""
    return replace(
        plan,
        steps=tuple(step for step in plan.steps if step.key[:2] == scope),
        orphans=tuple(orphan for orphan in plan.orphans if orphan.key[:2] == scope),
        unapproved=tuple(each for each in plan.unapproved if each.effect.key[:2] == scope),
    )


def effect_checks(plan: Plan, scope: ApprovalScope, pull_request: str) -> list[Check]:
    """The check runs that hold the effects of a stamped plan for one project and target."""
    data = json.dumps(approval_json(plan, pull_request=pull_request), separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(data.encode(), 9)).decode()
    parts = [packed[at : at + MOST_CHARACTERS] for at in range(0, len(packed), MOST_CHARACTERS)]
    effects = plan.effects
    listed = [f"- `{each.digest}` {plain(str(each))}" for each in effects[:_LISTED]]
    if len(effects) > _LISTED:
        listed.append(f"- and {len(effects) - _LISTED} more")
    return [
        Check(
            name=f"launcher effects {scope} {number}/{len(parts)}",
            conclusion="success",
            title=f"{len(effects)} effects" if effects else "no effects",
            summary="\n".join(listed) or "Applying this pull request starts and stops nothing.",
            text=f"```\n{part}\n```",
            external_id=plan.plan_id,
        )
        for number, part in enumerate(parts, 1)
    ]


def approval_in(checks: Iterable[CheckRun], scope: ApprovalScope) -> Approval | None:
    """Return the approval that the check runs of a commit hold; None where it is missing or incomplete.

    Only the newest list of effects counts. Raises LauncherError for one that cannot be read.
    """
    found: dict[str, dict[tuple[int, int], CheckRun]] = {}
    newest: tuple[int, str] = (0, "")
    for check in checks:
        named = re.fullmatch(
            re.escape(f"launcher effects {scope} ") + r"([0-9]{1,4})/([0-9]{1,4})", check.name
        )
        if named is None:
            continue
        found.setdefault(check.external_id, {}).setdefault((int(named[1]), int(named[2])), check)
        newest = max(newest, (check.id, check.external_id))
    parts = found.get(newest[1], {})
    count = max((of for _, of in parts), default=0)
    texts = [parts.get((number, count)) for number in range(1, count + 1)]
    if not texts or any(each is None for each in texts):
        return None
    packed = "".join(each.text for each in texts if each is not None).replace("```", "").replace("\n", "")
    data = _unpacked(packed, scope)
    return to_approval(data, source=f"the check run {newest[0]}")


def _unpacked(packed: str, scope: ApprovalScope) -> Mapping[str, Any]:
    try:
        machine = zlib.decompressobj()
        raw = machine.decompress(base64.b64decode(packed, validate=True), _MOST)
        if machine.unconsumed_tail:
            raise ValueError("it is too large")
        data = json.loads(raw)
    except (ValueError, zlib.error, binascii.Error, RecursionError) as error:
        raise _unreadable(scope, str(error)) from error
    faults = list(approval_faults(data))
    if faults:
        raise _unreadable(scope, "; ".join(f"{path}: {fault}" for path, fault in faults[:3]))
    return dict(data)


def _unreadable(scope: ApprovalScope, why: str) -> LauncherError:
    return LauncherError(
        f"the check run `launcher effects {scope}` cannot be read: {why}",
        hint="run `launcher ci plan` on the pull request again",
    )


def plain(text: str) -> str:
    """A text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#@|~&!()])", r"\\\1", " ".join(text.split()))


def names(values: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(values[:-1]), *values[-1:]]))


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
        found = "no such pull request" if pull is None else "an unmerged pull request"
        why, expected = "GitHub has not merged it", "a merged pull request"
        return {"mark": "wrong", "why": why, "expected": expected, "found": found}
    return {"mark": "checked", "why": f"merged as {pull.merge_commit_sha[:7]}, says GitHub"}


def _approval(chain: Chain, pull: Pull | None, github: GitHub) -> dict[str, Any]:
    """The judgement on the approval: one of the lists of effects must hold that of the attempt."""
    attempt = chain.attempt
    if pull is None or not attempt.effect:
        return {}
    scope = ApprovalScope(*attempt.key[:2])
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


_APPLIED = "<!-- launcher applied -->"


def publish_comment(forge: Forge, number: int, mark: str, text: str, *, is_news: bool) -> None:
    """Write the one comment that carries a mark, or replace its text.

    Args:
        is_news: whether a comment is written where there is none.
    """
    for comment in reversed(forge.comments(number)):
        is_marked = comment.body.startswith(mark)
        if is_marked and (
            comment.body.strip() == text.strip() or forge.edit_comment(number, comment.id, text)
        ):
            return
    if is_news:
        forge.add_comment(number, text)


def mark_of(scope: ApprovalScope) -> str:
    """The hidden line that the comment of a project and target begins with."""
    return f"<!-- launcher plan: {JobKey(scope.project, scope.target, '').session} -->"


def with_applied(body: str, words: str) -> str:
    """Return a comment's text with a sentence on what was applied, which replaces an earlier one."""
    return f"{body.partition(_APPLIED)[0].rstrip()}\n\n{_APPLIED}\n{words}\n"
