"""`launcher ci plan`: show the plan of a pull request, and keep its effects."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps as to_json
from json import loads
from time import time
from typing import Any
from uuid import uuid4

import tomli

from launcher.apply.approval import check_plan
from launcher.apply.plans import make_plan
from launcher.ci.approvals import mark_of, part_of, publish_comment, publish_effects, scopes_of
from launcher.ci.gitlab import GitLab
from launcher.ci.runner import CiRunner
from launcher.cli.base import compiled_at
from launcher.cli.ci.common import SUMMARY_BYTES, StepRun, compiled_launches, work_tree
from launcher.cli.render.comparison import comparison_json, comparison_markdown, comparison_text
from launcher.cli.render.github import publish, publish_text
from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.plan_text import plan_text
from launcher.files import PROJECT_FILE
from launcher.git import Repository
from launcher.plan.attribution import attributed, compared
from launcher.plan.budget import overruns
from launcher.plan.codec import dumps
from launcher.plan.model import Plan, plan_exit_code
from launcher.specs.launch import Launch

_SHOWN_IN = {"github": "the summary of this run", "gitlab": "the widget, and in launcher-ci/plan.md"}


def plan_pull_request(args: Any, run: StepRun) -> tuple[int, dict[str, Any]]:
    """Show the plan of a pull request, and leave its effects in check runs. The result is the plan document.

    For a fork's pull request, the result is what `launcher plan --offline` shows.
    """
    runner, tree = run.runner, work_tree()
    base_sha = _base(tree, runner)
    args.no_components = args.no_components or not _allows_components(tree, base_sha)
    launches, choices = compiled_launches(args, run)
    base = compiled_at(base_sha, args.files, args)
    if runner.is_fork:
        return _compare(launches, base.launches, run)
    plan = make_plan(launches, choices=choices).stamped(plan_id=str(uuid4()), created_at=time())
    plan = attributed(plan, base.launches, runner.base_ref or "the base", f"this {run.forge.words.request}")
    run.show(plan_text(plan).rstrip("\n"))
    check_plan(plan)
    publish(plan, max_bytes=SUMMARY_BYTES)
    if isinstance(run.forge, GitLab):
        _keep(run.forge, plan)
    for scope in scopes_of(plan):
        part = part_of(plan, scope)
        with run.degraded("the effects of this plan are approved by hand"):
            publish_effects(run.forge, runner, part, scope)
        if runner.pull_request is not None:
            text = plan_markdown(part, max_bytes=SUMMARY_BYTES)
            with run.degraded(f"the plan is in {_SHOWN_IN[runner.provider]}"):
                publish_comment(
                    run.forge, runner.pull_request, mark_of(scope), text, is_news=not part.is_empty
                )
    for each in overruns(plan.steps):
        run.fail(f"over budget: {each}; to go on, {each.remedy}")
    return plan_exit_code(plan), loads(dumps(plan))


def _base(tree: Repository, runner: CiRunner) -> str:
    """The commit of the target that the checkout holds. A job of GitLab may have merged a newer one."""
    merged = tree.merge_base(f"refs/remotes/origin/{runner.base_ref}") if runner.provider == "gitlab" else ""
    return merged or runner.base_sha


def _keep(forge: GitLab, plan: Plan) -> None:
    """Keep the plan, its Markdown, and the counts that GitLab shows in the merge request."""
    starts = [step for step in plan.steps if step.starts]
    counts = {
        "create": sum(not step.stops for step in starts),
        "update": sum(bool(step.stops) for step in starts),
        "delete": sum(bool(step.stops) and not step.starts for step in plan.steps),
    }
    texts = {"plan.json": dumps(plan), "plan.md": plan_markdown(plan), "widget.json": to_json(counts)}
    for name, text in texts.items():
        forge.keep(name, text)


def _compare(head: Sequence[Launch], base: Sequence[Launch], run: StepRun) -> tuple[int, dict[str, Any]]:
    """Show what the pull request of a fork changes: its run may write nothing."""
    found = compared(head, base)
    name = run.runner.base_ref or run.runner.base_sha
    run.show(comparison_text(found, name))
    publish_text(comparison_markdown(found, name, max_bytes=SUMMARY_BYTES))
    run.warn(f"a {run.forge.words.request} of a fork: approve its effects by hand, or through a merge queue")
    return 0, comparison_json(found, name)


def _allows_components(tree: Repository, base: str) -> bool:
    """Whether the launcher.toml of the base lets plans of pull requests call components of the repository."""
    if not base:
        return False
    try:
        settings = tomli.loads(tree.text_at(base, PROJECT_FILE)).get("ci", {})
    except tomli.TOMLDecodeError:
        return False
    return isinstance(settings, dict) and settings.get("components") is True
