"""Find the approvals of a commit of the default branch, and make the check run that records an apply.

The history is walked along first parents, from the commit back to the last one that was applied: that
commit has a check run `launcher apply (PROJECT, TARGET)`. Each commit in between has come from a pull
request, whose head holds the effects of its plan, or from a merge queue, whose run has left the effects on
the commit itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from launcher.ci.approvals import ApprovalScope, Forge, approval_in, names
from launcher.ci.forge import Check, Pull
from launcher.dataclass import dataclass, replace
from launcher.errors import StaleError
from launcher.plan.effects import Approval
from launcher.plan.model import Plan
from launcher.specs.launch import JobKey, Launch

if TYPE_CHECKING:
    from launcher.apply.events import Outcome

MOST_COMMITS: Final = 200
"""How many first parents are searched for the last applied commit."""
_TRIES = 4
_PAUSE_S = 2.0

Commit = tuple[str, str]
"""Id and subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The merges since the last applied commit.

    Attributes:
        approvals: the approvals of their pull requests, the oldest merge first; one for each list of effects.
        pulls: the pull requests, by number.
        without: commits that came from no pull request.
        unreviewed: pull requests without a list of effects for this project and target.
    """

    approvals: Sequence[Approval]
    pulls: Mapping[str, Pull]
    without: Sequence[str] = ()
    unreviewed: Sequence[str] = ()


class CommitHistory:
    """The first parents of a commit, newest first, and their check runs and pull requests."""

    def __init__(
        self,
        forge: Forge,
        commits: Sequence[Commit],
        branch: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._forge, self._commits, self._branch, self._sleep = forge, commits[:MOST_COMMITS], branch, sleep
        self._pulls: dict[str, Pull | None] = {}

    def merged(self, scope: ApprovalScope) -> Merged:
        """Return the merges since the last applied commit. Raises StaleError where no commit was applied."""
        approvals: dict[str, Approval] = {}
        pulls: dict[str, Pull] = {}
        without, unreviewed = [], []
        for commit in reversed(self._since_applied(scope)):
            if commit[0] not in self._pulls:
                self._pulls[commit[0]] = self._look_up(*commit)
            pull = self._pulls[commit[0]]
            queued = approval_in(self._forge.check_runs(commit[0]), scope)
            if pull is None and queued is None:
                without.append(commit[0])
                continue
            found = queued or approval_in(self._forge.checks_of(pull), scope) if pull else queued
            number = str(pull.number) if pull is not None else ""
            if pull is not None:
                pulls[number] = pull
            if found is None:
                unreviewed.append(number)
            else:
                approvals[found.id] = replace(found, pull_request=number)
        return Merged(
            approvals=tuple(approvals.values()), pulls=pulls, without=without, unreviewed=unreviewed
        )

    def last_applied(self, scope: ApprovalScope) -> str:
        """The newest commit that was applied, by its check run. Raises StaleError where none was."""
        return self._commits[len(self._since_applied(scope))][0]

    def _since_applied(self, scope: ApprovalScope) -> list[Commit]:
        """The commits after the last applied one, newest first."""
        found: list[Commit] = []
        for commit in self._commits:
            checks = self._forge.check_runs(commit[0], f"launcher apply {scope}")
            if any(check.conclusion in ("success", "neutral") for check in checks):
                return found
            found.append(commit)
        raise StaleError(
            f"no commit of the last {len(self._commits)} was applied for {scope}: either none ever was, or "
            "the history was rewritten",
            hint=f"review the plan, then {self._forge.words.by_hand}",
        )

    def _look_up(self, sha: str, subject: str) -> Pull | None:
        """The merged pull request that a commit came from; None for a commit that was pushed."""
        named = self._forge.number_in(subject)
        for tried in range(_TRIES):
            merged = [pull for pull in self._forge.pulls_of(sha) if pull.merged]
            exact = [pull for pull in merged if pull.merge_commit_sha == sha]
            into = [pull for pull in merged if pull.base_ref == self._branch]
            if exact or into:
                return (exact or into)[0]
            if named is None:
                return None
            if tried + 1 < _TRIES:
                self._sleep(_PAUSE_S * 2**tried)  # GitHub links a squashed commit a moment after the merge
        if named is None:
            return None
        pull = self._forge.pull(named)
        return pull if pull is not None and pull.merged and pull.merge_commit_sha == sha else None


def withheld(launches: Iterable[Launch], remote: Mapping[JobKey, str]) -> dict[JobKey, str]:
    """The jobs that a runner which goes away must not start, each with the reason.

    Args:
        remote: job → address of its engine on another machine, if a process of the runner watches its apps,
            which ends with the runner.
    """
    return {
        launch.key: f"its watcher would end with this run, apart from {remote[launch.key]}; "
        "set its run option `watcher: engine`, or use a self-hosted runner, or Slurm"
        for launch in launches
        if remote.get(launch.key) and _needs_watcher(launch)
    }


def without(merged: Merged, keys: Collection[JobKey]) -> list[Approval]:
    """Return the approvals of merges without the starts of some jobs."""
    return [
        replace(each, starts={start: after for start, after in each.starts.items() if start.key not in keys})
        for each in merged.approvals
    ]


def _needs_watcher(launch: Launch) -> bool:
    """Whether a process has to act on the app while it waits or runs."""
    roles = launch.app.roles
    ordered = any(role.max_retries or role.ready or role.depends_on or role.service for role in roles)
    return bool(launch.needs or launch.timeout_s or launch.asks or ordered)


def applied_check(
    scope: ApprovalScope, plan: Plan, outcomes: Sequence[Outcome], merged: Merged, *, run_url: str
) -> Check:
    """Return the check run that records what was applied for a commit.

    It succeeds when no approved effect is left to carry out, and none that a missing list of effects might
    approve: then later applies begin after this commit.
    """
    started = [each for each in outcomes if each.app is not None and each.kind not in ("keep", "hold")]
    failed = [each for each in outcomes if each.error]
    named = {key for approval in merged.approvals for key in (start.key for start in approval.starts)}
    left = [each for each in plan.unapproved if each.effect.key in named]
    numbers = {step.key: step.pull_request for step in plan.steps}
    by_number: dict[str, list[dict[str, Any]]] = {number: [] for number in merged.pulls}
    for each in started:
        entry = {"job": each.key.job, "attempt": each.attempt, "app_id": each.app_id, "handle": each.handle}
        by_number.setdefault(numbers.get(each.key, ""), []).append(entry)
    data = {
        "version": "launcher.applied/v1",
        "project": scope.project,
        "target": scope.target,
        "run_url": run_url,
        "approvals": by_number,
    }
    is_done = not failed and not left and not (merged.unreviewed and plan.unapproved)
    unapproved = len(plan.unapproved)
    words = [
        f"{len(started)} started" if started else "",
        f"{len(failed)} failed to start" if failed else "",
        f"{unapproved} {'effect' if unapproved == 1 else 'effects'} not approved" if unapproved else "",
    ]
    title = ", ".join(filter(None, words)) or "nothing to do"
    return Check(
        name=f"launcher apply {scope}",
        conclusion="success" if is_done else "failure",
        title=title,
        summary=title,
        text=f"```json\n{json.dumps(data, indent=1)}\n```",
        external_id=f"launcher-apply {scope.project} {scope.target}",
    )


def applied_words(number: str, plan: Plan, outcomes: Sequence[Outcome], short: str) -> str:
    """The sentence for the comment of one pull request."""
    mine = {step.key for step in plan.steps if step.pull_request == number}
    done = [each for each in outcomes if each.key in mine]
    started = [each.key.job for each in done if not each.error]
    failed = [each.key.job for each in done if each.error]
    words = [
        f"started {names(started)}" if started else "",
        f"could not start {names(failed)}" if failed else "",
    ]
    return f"applied at {short}: {', '.join(filter(None, words)) or 'nothing to do'}"
