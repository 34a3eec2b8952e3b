"""Approvals: the plan of a merged pull request is an approval, which an apply of the branch finds.

A check run on the head of a pull request holds the effects of its plan, compressed. Only a GitHub app may
write check runs, and the token of a workflow belongs to one; every user who may push can write a commit
status.

An apply walks along first parents, from its commit back to the last one that was applied: that commit has a
check run `launcher apply (PROJECT, TARGET)`, or one for another project, and no job of this one. Each commit
in between has come from a pull request, whose head holds the effects of its plan, or from a merge queue,
whose run has left the effects on the commit itself.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import time
import zlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from launcher.ci.forge import MOST_CHARACTERS, Check, CheckRun, Pull
from launcher.ci.github import GitHub
from launcher.ci.gitlab import GitLab
from launcher.dataclass import dataclass, replace
from launcher.errors import LauncherError, StaleError
from launcher.inventory.verify import Chain
from launcher.plan.approved import approval_faults, approval_json, to_approval
from launcher.plan.model import Plan
from launcher.schedulers.api import Scheduler
from launcher.schedulers.registry import get_scheduler
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.jobkey import DEFAULT_PROJECT, JobKey
from launcher.specs.launch import Launch
from launcher.text import unlinked

if TYPE_CHECKING:
    from launcher.git import Repository
    from launcher.plan.effects import Approval


_MOST: Final = 16 << 20
"""The most bytes of a decompressed list of effects."""
_LISTED: Final = 50
_NAMED: Final = 8
_APPLY: Final = re.compile(r"launcher apply \(([^,()]+), ([^,()]+)\)")
_TRIES = 4
_PAUSE_S = 2.0

Commit = tuple[str, str]
"""The id and the subject of a commit."""

Forge = GitHub | GitLab
"""The server of a repository."""


class ApprovalScope(NamedTuple):
    """The project and target of comments, check runs and approvals."""

    project: str
    target: str

    def __str__(self) -> str:
        return f"({self.project}, {self.target})"

    @property
    def title(self) -> str:
        """The beginning of a heading, such as `vision · `; "" for the default project and target."""
        session = JobKey(*self, "").session
        return f"{session} · " if session != DEFAULT_PROJECT else ""


def applied_scope(check: CheckRun) -> ApprovalScope | None:
    """The project and target of a check run that records an apply; None for any other check run."""
    named = _APPLY.fullmatch(check.name)
    return ApprovalScope(*named.groups()) if named else None


def scopes_of(plan: Plan) -> list[ApprovalScope]:
    """The projects and targets of a plan, sorted."""
    keys = [step.key for step in plan.steps] + [orphan.key for orphan in plan.orphans]
    return sorted({ApprovalScope(key.project, key.target) for key in keys})


def part_of(plan: Plan, scope: ApprovalScope) -> Plan:
    """Return the part of the plan for one project and target."""
    return replace(
        plan,
        steps=tuple(step for step in plan.steps if step.key[:2] == scope),
        orphans=tuple(orphan for orphan in plan.orphans if orphan.key[:2] == scope),
        unapproved=tuple(each for each in plan.unapproved if each.effect.key[:2] == scope),
    )


def effect_checks(plan: Plan, scope: ApprovalScope, pull_request: str) -> list[Check]:
    """The check runs that hold the effects of a stamped plan for one project and target."""
    text = packed(approval_json(plan, pull_request=pull_request))
    parts = [text[at : at + MOST_CHARACTERS] for at in range(0, len(text), MOST_CHARACTERS)]
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


def approval_in(checks: Iterable[CheckRun], scope: ApprovalScope, plan_id: str = "") -> Approval | None:
    """Return the approval that the check runs of a commit hold; None where it is missing or incomplete.

    The list of effects of the plan with this id counts, else the newest. Raises LauncherError for one that
    cannot be read.
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
    parts = found.get(plan_id) or found.get(newest[1], {})
    count = max((of for _, of in parts), default=0)
    texts = [parts.get((number, count)) for number in range(1, count + 1)]
    if not texts or any(each is None for each in texts):
        return None
    text = "".join(each.text for each in texts if each is not None).replace("```", "").replace("\n", "")
    try:
        data = unpacked(text)
    except ValueError as error:
        raise _unreadable(scope, str(error)) from error
    faults = list(approval_faults(data))
    if faults:
        raise _unreadable(scope, "; ".join(f"{path}: {fault}" for path, fault in faults[:3]))
    return to_approval(data, source=f"the check run {newest[0]}")


def check_is_only_plan(plan: Plan, scope: ApprovalScope, checks: Iterable[CheckRun], root: str) -> None:
    """Raise LauncherError if the newest list of effects starts a job that the plan leaves out.

    A plan of other files has made the list, which would not count any more. A job whose file is not below
    `root` was removed.
    """
    try:
        newest = approval_in(checks, scope)
    except LauncherError:  # a list that cannot be read counts no more once this plan has left its own
        return
    planned = {step.key for step in plan.steps}
    for start in newest.starts if newest is not None else ():
        if start.key not in planned and os.path.exists(os.path.join(root, start.path)):
            why = f"the newest plan of this commit starts {start.key.job}, and this one leaves out"
            hint = f"only one plan of {scope} counts: name all of its files in one step, or none"
            raise LauncherError(f"{why} {start.path}", hint=hint)


def packed(value: Any) -> str:
    """Return a JSON value, compressed, in characters that have no meaning in Markdown."""
    text = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> Any:
    """The JSON value of a packed text. Raises ValueError."""
    try:
        machine = zlib.decompressobj()
        raw = machine.decompress(base64.b64decode(text, validate=True), _MOST)
        if machine.unconsumed_tail:
            raise ValueError("it is too large")
        return json.loads(raw)
    except (zlib.error, binascii.Error, RecursionError) as error:
        raise ValueError(str(error)) from error


def _unreadable(scope: ApprovalScope, why: str) -> LauncherError:
    return LauncherError(
        f"the check run `launcher effects {scope}` cannot be read: {why}",
        hint="run `launcher ci plan` on the pull request again",
    )


def plain(text: str) -> str:
    """Return a text, on one line, that Markdown shows unchanged."""
    return unlinked(re.sub(r"([\\`*_{}\[\]<>#@|~&!()])", r"\\\1", " ".join(text.split())))


def names(values: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`; of a hundred, the first ones `and 92 more`."""
    if len(values) > _NAMED + 1:
        values = [*values[:_NAMED], f"{len(values) - _NAMED:,} more"]
    return " and ".join(filter(None, [", ".join(values[:-1]), *values[-1:]]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The merges since the last applied commit.

    Attributes:
        approvals: the approvals of their pull requests, the oldest merge first; one for each list of effects.
        pulls: the pull requests, by number.
        unreviewed: pull requests without a list of effects for this project and target.
        commits: the commits since the last applied one.
        checks: the check runs of these commits.
    """

    approvals: Sequence[Approval]
    pulls: Mapping[str, Pull]
    unreviewed: Sequence[str] = ()
    commits: Collection[str] = ()
    checks: Sequence[CheckRun] = ()


class CommitHistory:
    """The first parents of a commit, newest first, and their check runs and pull requests.

    Args:
        has_jobs: whether the job files of a commit declare jobs of a project and target.
    """

    def __init__(
        self,
        forge: Forge,
        commits: Sequence[Commit],
        branch: str,
        has_jobs: Callable[[str, ApprovalScope], bool],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._forge, self._commits, self._branch, self._sleep = forge, commits, branch, sleep
        self._has_jobs = has_jobs
        self._pulls: dict[str, Pull | None] = {}
        self._checks: dict[str, list[CheckRun]] = {}

    def merged(self, scope: ApprovalScope) -> Merged:
        """Return the merges since the last applied commit. Raises StaleError where no commit was applied."""
        approvals: dict[str, Approval] = {}
        pulls: dict[str, Pull] = {}
        unreviewed = []
        seen: list[CheckRun] = []
        since = self._since_applied(scope)
        for commit in reversed(since):
            if commit[0] not in self._pulls:
                self._pulls[commit[0]] = self._look_up(*commit)
            pull, checks = self._pulls[commit[0]], self._check_runs(commit[0])
            seen += checks
            number = str(pull.number) if pull is not None else ""
            found = approval_in(checks, scope)  # of a merge queue
            if pull is not None:
                pulls[number] = pull
                found = found or approval_in(self._forge.checks_of(pull), scope)
            if found is not None:
                approvals[found.id] = replace(found, pull_request=number)
            elif pull is not None:
                unreviewed.append(number)
        return Merged(
            approvals=tuple(approvals.values()),
            pulls=pulls,
            unreviewed=unreviewed,
            commits=frozenset(sha for sha, _ in since),
            checks=seen,
        )

    def last_applied(self, scope: ApprovalScope) -> str:
        """The newest commit that was applied, by its check run. Raises StaleError where none was."""
        return self._commits[len(self._since_applied(scope))][0]

    def check_is_newest(self, later: Iterable[Commit], scope: ApprovalScope) -> None:
        """Raise StaleError if a later commit was applied for a project: this commit would undo its jobs.

        A later commit that has removed the project's jobs may have been applied for other ones alone.
        """
        for sha, _ in later:
            found = {*filter(None, map(applied_scope, self._check_runs(sha)))}
            is_of_target = any(each.target == scope.target for each in found)
            if scope in found or (is_of_target and self._loses(sha, scope)):
                raise StaleError(
                    f"{sha[:7]} was applied, a later commit of {self._branch}",
                    hint="run the newest commit; to go back to this one, revert what came after it",
                )

    def _since_applied(self, scope: ApprovalScope) -> Sequence[Commit]:
        """Return the commits after the last applied one, newest first."""
        for_others = []
        for at, (sha, _) in enumerate(self._commits):
            done = [check for check in self._check_runs(sha) if check.conclusion in ("success", "neutral")]
            found = set(filter(None, map(applied_scope, done)))
            if scope in found:
                return self._commits[:at]
            if found:
                for_others.append(at)
        # In a new project, all jobs came after the last commit that was applied without any of them.
        without_jobs = bisect_left(
            for_others, True, key=lambda at: not self._has_jobs(self._commits[at][0], scope)
        )
        if without_jobs < len(for_others):
            return self._commits[: for_others[without_jobs]]
        raise StaleError(
            f"no commit of the last {len(self._commits)} was applied for {scope}: "
            "either none ever was, or the history was rewritten",
            hint=f"review the plan, then {self._forge.words.by_hand}",
        )

    def _loses(self, later: str, scope: ApprovalScope) -> bool:
        return self._has_jobs(self._commits[0][0], scope) and not self._has_jobs(later, scope)

    def _check_runs(self, sha: str) -> list[CheckRun]:
        if sha not in self._checks:
            self._checks[sha] = self._forge.check_runs(sha)
        return self._checks[sha]

    def _look_up(self, sha: str, subject: str) -> Pull | None:
        """The merged pull request that a commit came from; None for a commit that was pushed."""
        named = self._forge.number_in(subject)
        for tried in range(_TRIES):
            merged = [pull for pull in self._forge.pulls_of(sha) if pull.merged]
            exact = [pull for pull in merged if pull.merge_commit_sha == sha]
            into = [pull for pull in merged if pull.base_ref == self._branch]
            if exact or into:
                return (exact or into)[0]
            pull = self._forge.pull(named) if named is not None else None
            if pull is None or pull.merged:
                return pull if pull is not None and pull.merge_commit_sha == sha else None
            if tried + 1 < _TRIES:
                self._sleep(_PAUSE_S * 2**tried)  # GitHub links a squashed commit shortly after the merge
        return None


def check_is_not_overtaken(plan: Plan, tree: Repository) -> None:
    """Raise StaleError for an effect on a job that a later merge has started: this commit would undo it.

    The clone may lack later commits, and one may have been applied since this run began. A start from a
    commit that is missing after a rewrite of the history is older than the commit checked out.
    """
    committed_at = tree.committed_at()
    for step in plan.steps:
        latest = step.latest if step.has_effects else None
        if latest is None or not latest.pull_request or latest.created_at < committed_at:
            continue
        commit = latest.commit.partition("-")[0]
        if commit and not tree.contains(commit):
            raise StaleError(
                f"{step.key.job}@{latest.number} was started from {commit[:7]}, a later commit",
                hint="run the newest commit; to go back to this one, revert what came after it",
            )


def withheld(launches: Sequence[Launch]) -> dict[JobKey, str]:
    """Return the jobs that a runner which is discarded after its run must not start, each with the reason."""
    asked = {name: get_scheduler(name, "") for name in dict.fromkeys(each.scheduler for each in launches)}
    reasons = ((each.key, _why_withheld(each, asked[each.scheduler])) for each in launches)
    return {key: why for key, why in reasons if why}


def _why_withheld(launch: Launch, scheduler: Scheduler[Any]) -> str:
    """Return what of a job would end with the runner: its processes, or the watcher of a remote engine."""
    if any(scheduler.checkout_folder(role.image, launch.cfg) is not None for role in launch.app.roles):
        return "its processes would end with this run; use a self-hosted runner, or an engine over ssh"
    if not isinstance(scheduler, StagedScheduler) or not scheduler.is_held_here(launch.cfg):
        return ""
    if not _needs_watcher(launch) or not (address := scheduler.remote_engine()):
        return ""
    return (
        f"its watcher would end with this run, apart from {address}; "
        "set its run option `watcher: engine`, or use a self-hosted runner, or Slurm"
    )


def without(merged: Merged, keys: Collection[JobKey]) -> list[Approval]:
    """Return the approvals of merges without the starts of some jobs."""
    return [
        replace(each, starts={start: after for start, after in each.starts.items() if start.key not in keys})
        for each in merged.approvals
    ]


def explained(plan: Plan, kept: Mapping[JobKey, str]) -> Plan:
    """Return the plan with the reasons why jobs were withheld; no approval can change these."""
    refusals = (each._replace(why=kept.get(each.effect.key, each.why)) for each in plan.unapproved)
    return replace(plan, unapproved=tuple(refusals))


def _needs_watcher(launch: Launch) -> bool:
    """Whether a process has to act on the app while it waits or runs."""
    roles = launch.app.roles
    ordered = any(role.max_retries or role.ready or role.depends_on or role.service for role in roles)
    return bool(launch.needs or launch.timeout_s or launch.asks or ordered)


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
    """Judge the approval: one of the lists of effects must contain the attempt's effect."""
    attempt = chain.attempt
    if pull is None or not attempt.effect:
        return {}
    scope = ApprovalScope(*attempt.key[:2])
    commits = filter(None, (pull.head_sha, pull.merge_commit_sha, attempt.commit.partition("-")[0]))
    checks = map(github.check_runs, dict.fromkeys(commits))
    lists = [approval_in(each, scope, attempt.approval) for each in checks]  # a later plan may be empty
    starts = [start.digest for each in lists if each for start in each.starts if start.key == attempt.key]
    if attempt.effect in starts:
        return {"mark": "checked", "why": f"its check run on GitHub holds {attempt.effect}"}
    if not any(lists):
        return {"mark": "missing", "why": "not checked: GitHub has no check run with effects for it"}
    held = ", ".join(starts) or "no start of this job"
    why = "its check run on GitHub does not hold the effect"
    return {"mark": "wrong", "why": why, "expected": attempt.effect, "found": held}
