"""`launcher ci apply`: carry out what merged pull requests approve, and record it in a check run."""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import TYPE_CHECKING, Any

from launcher.apply.apply import apply_launches
from launcher.apply.approval import check_plan
from launcher.apply.events import Outcome, Result
from launcher.apply.plans import make_plan
from launcher.ci.apply import (
    MOST_COMMITS,
    CommitHistory,
    Merged,
    applied_check,
    applied_words,
    withheld,
    without,
)
from launcher.ci.approvals import ApprovalScope, mark_of, with_applied
from launcher.ci.runner import CiRunner
from launcher.cli.ci.steps import StepRun, compiled_launches, work_tree
from launcher.cli.render.findings import problems_json
from launcher.cli.render.outcomes import result_json
from launcher.cli.render.plan_text import plan_text
from launcher.cli.watch import Watch
from launcher.errors import StaleError
from launcher.plan.approved import approval_json, to_approval
from launcher.plan.model import Plan, approves
from launcher.plan.reconcile import Choices
from launcher.schedulers.registry import get_scheduler
from launcher.schedulers.staged import StagedScheduler
from launcher.specs.launch import JobKey, Launch

if TYPE_CHECKING:
    from launcher.cli.render.findings import Problem


def apply_merged(args: Any, run: StepRun) -> tuple[int, dict[str, Any]]:
    """Carry out what merged pull requests approve, and record each project in a check run.

    The result has the jobs of all projects, as `launcher apply --json` prints them.
    """
    launches, choices = compiled_launches(args, run)
    digest = args.digest or run.runner.inputs.get("digest", "")
    by_hand = _by_hand(launches, choices, digest, run.runner) if digest or args.without_review else None
    history = CommitHistory(run.forge, work_tree().first_parents(MOST_COMMITS), run.runner.default_branch)
    code = 0
    outcomes: list[Outcome] = []
    stale: list[Problem] = []
    for scope in sorted({ApprovalScope(*launch.key[:2]) for launch in launches}):
        mine = [launch for launch in launches if launch.key[:2] == scope]
        try:
            merged = by_hand or history.merged(scope)
        except StaleError as error:
            run.console.error(error)
            stale.append((str(scope), error))
            code = max(code, error.exit_code)
            continue
        ended, done = _carry_out(mine, choices, merged, scope, run)
        outcomes += done
        code = max(code, ended)
    if code == StaleError.exit_code:
        # The unapproved effects of all projects, with the digest that approves them by hand.
        plan = make_plan(launches, choices=choices)
        run.show(plan_text(plan).rstrip("\n"))
        words = run.forge.words
        run.warn(f"open a {words.request}, or {words.by_hand} {plan.plan_digest}")
    result = result_json(Result(outcomes=tuple(outcomes)))
    problems = [*result["problems"], *problems_json(stale)]
    return code, {"exit": code, "jobs": result["jobs"], "problems": problems}


def _by_hand(launches: Sequence[Launch], choices: Choices, digest: str, runner: CiRunner) -> Merged:
    """Return an approval of the whole plan. Raises StaleError where its digest is not the given one."""
    plan = make_plan(launches, choices=choices).stamped(
        plan_id=f"by hand: {runner.run_url}", created_at=time()
    )
    check_plan(plan)
    if digest and not approves(digest, plan):
        raise StaleError(
            f"the plan is not the approved one: expected digest {digest}, got {plan.plan_digest}",
            hint="review the plan below, and run the workflow again with its digest:\n" + str(plan),
        )
    return Merged(approvals=(to_approval(approval_json(plan), source="the digest"),), pulls={})


def _carry_out(
    launches: Sequence[Launch],
    choices: Choices,
    merged: Merged,
    scope: ApprovalScope,
    run: StepRun,
) -> tuple[int, Sequence[Outcome]]:
    plans: list[Plan] = []
    kept = withheld(launches, _remote_engines(launches)) if run.runner.is_hosted else {}

    def approve(plan: Plan) -> None:
        plans[:] = [plan]
        run.show(plan_text(plan).rstrip("\n"))

    with Watch(run.console, format="text", wait=False, logs=False) as watch:
        result = apply_launches(
            launches,
            choices=choices,
            approve=approve,
            approvals=without(merged, kept),
            watching=watch.watching(),
        )
        code = watch.finish(result)
    (plan,) = plans
    check = applied_check(scope, plan, result.outcomes, merged, run_url=run.runner.run_url)
    with run.degraded("later applies begin before this commit"):
        run.forge.add_check(check, sha=run.runner.sha)
    with run.degraded(f"the {run.forge.words.request}s do not show what was applied"):
        for number in merged.pulls:
            words = applied_words(number, plan, result.outcomes, run.runner.sha[:7])
            for comment in run.forge.comments(int(number)):
                if comment.body.startswith(mark_of(scope)):
                    run.forge.edit_comment(int(number), comment.id, with_applied(comment.body, words))
    for number in merged.unreviewed:
        run.warn(f"`launcher ci plan` has left no plan on the last commit of {run.forge.words.sign}{number}")
    for refusal in plan.unapproved:
        run.warn(str(refusal._replace(why=kept.get(refusal.effect.key, refusal.why))))
    return max(code, StaleError.exit_code if plan.unapproved else 0), result.outcomes


def _remote_engines(launches: Sequence[Launch]) -> dict[JobKey, str]:
    """Job → address of its engine, where that is on another machine and its apps are held on this one."""
    asked = {name: get_scheduler(name, "") for name in dict.fromkeys(each.scheduler for each in launches)}
    return {
        each.key: found.remote_engine()
        for each in launches
        if isinstance(found := asked[each.scheduler], StagedScheduler) and found.is_held_here(each.cfg)
    }
