"""The record of plans and applies on the server: the comment of a pull request, the check run of an apply.

A project and target has one comment: its plan, and below that a sentence about what was applied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from launcher.ci.approvals import ApprovalScope, Forge, Merged, applied_scope, names, packed, plain, unpacked
from launcher.ci.forge import MOST_CHARACTERS, Check, CheckRun, ForgeComment, ForgeError
from launcher.ci.runner import CiRunner
from launcher.dataclass import replace
from launcher.plan.model import Plan
from launcher.plan.step import STARTING, Reason
from launcher.specs.attempt import PENDING_STATES
from launcher.specs.jobkey import DEFAULT_TARGET, JobKey
from launcher.state.records import AppRecord, of_attempt

if TYPE_CHECKING:
    from launcher.apply.events import Outcome

_MARK: Final = re.compile(r"<!-- launcher plan: ([a-z0-9-]+)(?:\.([a-z0-9-]+))? -->")
_APPLIED: Final = "<!-- launcher applied -->"
_APPLIED_LINE: Final = re.compile(rf"^{_APPLIED}\s*$", re.MULTILINE)
"""Only a line of its own: the lines of a plan may contain the same text behind other characters."""

AppliedJobs = Mapping[str, Sequence[Mapping[str, Any]]]
"""Pull request → its jobs that an apply has started: `job`, `attempt`, `app_id` and `handle` of each."""
_NOTHING: Final = ": nothing to do"
_MOST_REASONS: Final = 4
_MOST_OF_REASON: Final = 150
"""Keep the sentence about an apply in the room that the longest plan leaves in a comment."""
_SAME: Final = "*"
"""In a compressed record: stands for the job's name in an app id, and for the app id in a handle."""


def applied_check(
    scope: ApprovalScope, plan: Plan, outcomes: Sequence[Outcome], merged: Merged, *, run_url: str
) -> Check:
    """Return the check run that records what was applied for a commit.

    It succeeds when no effect is left that is approved, or that a missing list of effects might approve: then
    later applies begin after this commit. It names the apps that no earlier check run names.
    """
    recorded = _recorded(merged, scope)
    jobs = [each for each in _jobs_of(plan, outcomes, merged) if each.app.app_id not in recorded]
    by_hand = sum(each.is_by_hand for each in jobs)
    failed = [each for each in outcomes if each.error]
    stopped = [each for each in outcomes if each.kind == "destroy" and not each.error]
    named = {key for approval in merged.approvals for key in (start.key for start in approval.starts)}
    left = [each for each in plan.unapproved if each.effect.key in named]
    by_number: dict[str, list[dict[str, Any]]] = {number: [] for number in merged.pulls}
    for app, number, _ in jobs:
        entry = {"job": app.name, "attempt": app.number, "app_id": app.app_id, "handle": app.handle}
        by_number.setdefault(number, []).append(entry)
    data = {
        "version": "launcher.applied/v1",
        "project": scope.project,
        "target": scope.target,
        "run_url": run_url,
        "approvals": by_number,
    }
    is_done = not failed and not left and not (merged.unreviewed and plan.unapproved)
    counts = {"started": len(jobs) - by_hand, "already started by hand": by_hand, "stopped": len(stopped)}
    title = _title({**counts, "failed to start": len(failed)}, len(plan.unapproved))
    return Check(
        name=f"launcher apply {scope}",
        conclusion="success" if is_done else "failure",
        title=title,
        summary=title,
        text=_text(data),
        external_id=f"launcher-apply {scope.project} {scope.target}",
    )


def _text(data: Mapping[str, Any]) -> str:
    """Return the record as JSON; compressed if it is too long, without names repeated within an entry."""
    text = f"```json\n{json.dumps(data, indent=1)}\n```"
    if len(text) <= MOST_CHARACTERS:
        return text
    approvals = {number: [_shorter(each) for each in jobs] for number, jobs in data["approvals"].items()}
    return f"```\n{packed({**data, 'approvals': approvals})}\n```"


def _shorter(entry: Mapping[str, Any]) -> dict[str, Any]:
    handle = entry["handle"].replace(entry["app_id"], _SAME)
    return {**entry, "app_id": entry["app_id"].replace(entry["job"], _SAME), "handle": handle}


def _longer(entry: Mapping[str, Any]) -> dict[str, Any]:
    app_id = entry["app_id"].replace(_SAME, entry["job"])
    handle = entry["handle"].replace(_SAME, app_id)
    return {"job": entry["job"], "attempt": entry["attempt"], "app_id": app_id, "handle": handle}


def _recorded(merged: Merged, scope: ApprovalScope) -> set[str]:
    """The app ids that earlier applies of the commits have recorded."""
    earlier = [jobs for check in merged.checks for of, jobs in [applied_in(check)] if of == scope]
    return {entry["app_id"] for jobs in earlier for entries in jobs.values() for entry in entries}


def _title(counts: Mapping[str, int], unapproved: int) -> str:
    words = [f"{count} {what}" for what, count in counts.items() if count]
    if unapproved:
        words.append(f"{unapproved} {'effect' if unapproved == 1 else 'effects'} not approved")
    return ", ".join(words) or "nothing to do"


class _MergedJob(NamedTuple):
    """An app that a merge has started, or a user before it.

    Attributes:
        pull_request: the number of the pull request; "" for a start that none approved.
    """

    app: AppRecord
    pull_request: str
    is_by_hand: bool = False


def _jobs_of(plan: Plan, outcomes: Sequence[Outcome], merged: Merged) -> list[_MergedJob]:
    """Return the apps of these merges: those that this apply has started, and those that its plan has found.

    It finds the apps of a killed apply, which has not recorded them, by their commit and approval; and those
    of a user by their start, which is the approved one.
    """
    numbers = {step.key: step.pull_request for step in plan.steps}
    made = [each for each in outcomes if each.app is not None and each.kind in STARTING]
    found = [_MergedJob(each.app, numbers.get(each.key, "")) for each in made if each.app is not None]
    known, ids = {each.app_id for each in made}, {each.id for each in merged.approvals}
    latest = [each for each in (step.latest for step in plan.steps) if each and each.app_id not in known]
    by_hand = {each.key: each for each in latest if not each.approval}
    for each in latest:
        is_of_merge = each.approval in ids and each.commit.partition("-")[0] in merged.commits
        if is_of_merge and each.state not in PENDING_STATES:
            found.append(_MergedJob(of_attempt(each), each.pull_request))
    for approval in merged.approvals:
        for start, after in approval.starts.items():
            own = by_hand.get(start.key)
            if own is not None and own.number > after and own.effect == start.digest:
                found.append(_MergedJob(of_attempt(by_hand.pop(start.key)), approval.pull_request, True))
    return found


def applied_in(check: CheckRun) -> tuple[ApprovalScope | None, AppliedJobs]:
    """Return the jobs in an apply's check run, by pull request; (None, {}) for any other check run."""
    scope = applied_scope(check)
    data_block = re.fullmatch(r"```(json)?\n(.*)\n```", check.text, re.DOTALL)
    if scope is None or data_block is None:
        return None, {}
    try:
        data = json.loads(data_block[2]) if data_block[1] else unpacked(data_block[2])
        found = {
            number: [_longer(each) for each in jobs]
            for number, jobs in data["approvals"].items()
            if number == "" or number.isdigit()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, {}
    return scope, found


# -- the comment ---------------------------------------------------------------------------------------------


class PlanComment(NamedTuple):
    """The comment of a project and target.

    Attributes:
        text: Markdown, which begins with the mark of the scope.
        is_news: whether a missing comment is written.
    """

    text: str
    is_news: bool = False


def publish_plans(
    forge: Forge,
    runner: CiRunner,
    plans: Mapping[ApprovalScope, PlanComment],
    instead: Callable[[ApprovalScope], str] | None = None,
) -> None:
    """Write the one comment of each project and target, or replace the plan in it.

    An old run that is repeated leaves the comments to the run of the newest commit.

    Args:
        instead: returns the Markdown that replaces the plan of a project and target which has no plan now,
            and "" for one to leave.
    """
    number = runner.pull_request or 0
    pull = forge.pull(number)
    if pull is not None and pull.head_sha != runner.head_sha:
        return
    comments = forge.comments(number)
    found = (_MARK.match(comment.body) for comment in comments)
    shown = {ApprovalScope(mark[1], mark[2] or DEFAULT_TARGET) for mark in found if mark}
    old = ((scope, instead(scope)) for scope in shown - set(plans)) if instead is not None else ()
    replaced = {scope: PlanComment(f"{mark_of(scope)}\n{text}") for scope, text in old if text}
    for scope, plan in {**plans, **replaced}.items():
        is_there = False
        for comment in comments:  # two runs at once may have left two
            if not comment.body.startswith(mark_of(scope)):
                continue
            _, *words = _APPLIED_LINE.split(comment.body)
            body = _with_applied(plan.text, words[-1].strip()) if words else plan.text
            if comment.body.strip() == body.strip() or forge.edit_comment(number, comment.id, body):
                is_there = True
        if plan.is_news and not is_there:
            forge.add_comment(number, plan.text)


def without_output(plan: Plan) -> Plan:
    """Return the plan without lines that failed jobs have printed, for comments of a public repository.

    The detail of a failure ends with such a line: `attempt 2 failed: main/0 exited with 3: no data`.
    """

    def cut(reason: Reason) -> Reason:
        is_failure = reason.code == "last_failed"
        return replace(reason, detail=": ".join(reason.detail.split(": ")[:2])) if is_failure else reason

    steps = (replace(step, reasons=tuple(map(cut, step.reasons))) for step in plan.steps)
    return replace(plan, steps=tuple(steps))


def remark_on(into: str, applied: str) -> str:
    """Return a line for the plan of a change that goes into another branch than the applied one; else ""."""
    if into in ("", applied):
        return ""
    return (
        f"Jobs are applied from {plain(applied)}: a merge into {plain(into)} alone starts and stops nothing."
    )


class AppliedComments:
    """Writes below the plans in comments which parts of them were applied. Reads the comments once.

    A comment that cannot be written is a warning: the check run of the apply has the same.
    """

    def __init__(self, forge: Forge, warn: Callable[[str], object]) -> None:
        self._forge, self._warn = forge, warn
        self._comments: dict[str, list[ForgeComment]] = {}
        self._has_given_up = False

    def write(self, scope: ApprovalScope, merged: Merged, words: Mapping[str, str]) -> None:
        """Write below the plan of a project and target, in the comment of each pull request, its words.

        A pull request that approves effects and has no comment, such as one of a fork, gets one. An apply
        that has nothing to do for a pull request leaves the words of an earlier one.
        """
        approving = {each.pull_request for each in merged.approvals if each.starts or each.stops}
        for number, text in words.items():
            if self._has_given_up:
                return
            try:
                self._write(number, scope, text, is_news=number in approving)
            except ForgeError as error:
                self._has_given_up = error.is_forbidden or not 400 <= error.status < 500
                self._warn(f"{error}: {self._forge.words.sign}{number} does not show what was applied")

    def _write(self, number: str, scope: ApprovalScope, words: str, *, is_news: bool) -> None:
        if number not in self._comments:
            self._comments[number] = self._forge.comments(int(number))
        own = [each for each in self._comments[number] if each.body.startswith(mark_of(scope))]
        shown = False
        for each in own:
            _, *earlier = _APPLIED_LINE.split(each.body)
            is_said = words.endswith(_NOTHING) and earlier and earlier[-1].strip().startswith("applied at ")
            body = each.body if is_said else _with_applied(each.body, words)
            shown |= body == each.body or self._forge.edit_comment(int(number), each.id, body)
        if is_news and not shown:
            self._forge.add_comment(int(number), _with_applied(mark_of(scope), words))


def applied_words(number: str, plan: Plan, outcomes: Sequence[Outcome], merged: Merged, short: str) -> str:
    """Return the sentence for the comment of one pull request."""
    mine = {step.key for step in plan.steps if step.pull_request == number}
    own = [each for each in merged.approvals if each.pull_request == number]
    stops = {app_id for each in own for app_id in each.stops}
    starts = {start.key for each in own for start in each.starts}
    failed = [each.key.job for each in outcomes if each.key in mine and each.error]
    done = [each for each in outcomes if not each.error]
    stopped = [each.key.job for each in done if each.kind == "destroy" and each.app_id in stops]
    jobs = [each for each in _jobs_of(plan, done, merged) if each.pull_request == number]
    begun = {each.app.name: each.app.number for each in jobs if not each.is_by_hand}
    by_hand = [each.app.name for each in jobs if each.is_by_hand]
    replaced = {
        step.key.job: step.stops[0].attempt
        for step in plan.steps
        if step.stops and step.number == begun.get(step.key.job)
    }
    started = [f"{job} in place of {job}@{replaced[job]}" if job in replaced else job for job in begun]
    reasons: dict[str, list[str]] = {}
    for each in plan.unapproved:
        if each.effect.key in starts:
            reasons.setdefault(each.why, []).append(each.effect.key.job)
    refused = {each.effect.key for each in plan.unapproved}
    for step in plan.steps:  # another reason than its approval, such as a need that has failed since
        if step.kind == "hold" and step.key in starts - refused and step.key.job not in {*begun, *by_hand}:
            reasons.setdefault(step.why_in_brief, []).append(step.key.job)
    first = [*reasons.items()][:_MOST_REASONS]
    has_no_plan = number in merged.unreviewed and plan.unapproved
    words = [
        f"started {names(started)}" if started else "",
        f"found {names(by_hand)} already started by hand" if by_hand else "",
        f"stopped {names(stopped)}" if stopped else "",
        f"could not start {names(failed)}" if failed else "",
        *(f"held {names(held)} ({plain(why[:_MOST_OF_REASON])})" for why, held in first),
        "nothing of it, since its last commit has no plan" if has_no_plan else "",
        f"and {len(reasons) - len(first)} more reasons" if len(reasons) > len(first) else "",
    ]
    said = ", ".join(filter(None, words))
    return f"applied at {short}: {said}" if said else f"applied at {short}{_NOTHING}"


def _with_applied(body: str, words: str) -> str:
    return f"{_APPLIED_LINE.split(body)[0].rstrip()}\n\n{_APPLIED}\n{words}\n"


def mark_of(scope: ApprovalScope) -> str:
    """The hidden line that the comment of a project and target begins with."""
    return f"<!-- launcher plan: {JobKey(scope.project, scope.target, '').session} -->"
