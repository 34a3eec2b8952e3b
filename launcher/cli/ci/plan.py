"""`launcher ci plan`: show the plan of a pull request, and keep its effects."""

from __future__ import annotations

from collections.abc import Sequence
from json import loads
from time import time
from typing import Any
from uuid import uuid4

import tomli

from launcher.apply import make_plan
from launcher.apply.approval import check_plan
from launcher.ci.approvals import part_of, scopes_of
from launcher.ci.github import GitHub
from launcher.ci.plan import mark_of, publish_comment, publish_effects
from launcher.ci.runner import Runner
from launcher.cli.base import compiled_at
from launcher.cli.ci.common import SUMMARY_BYTES, compiled_launches, degraded, work_tree
from launcher.cli.console import Console
from launcher.cli.render.comparison import comparison_json, comparison_markdown, comparison_text
from launcher.cli.render.github import error, publish, publish_text, shielded, warning
from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.plan_text import plan_text
from launcher.files import PROJECT_FILE
from launcher.git import Repository
from launcher.plan.attribution import attributed, compared
from launcher.plan.budget import overruns
from launcher.plan.codec import dumps
from launcher.plan.model import plan_exit_code
from launcher.specs import Launch


def plan_pull_request(args: Any, runner: Runner, console: Console) -> tuple[int, dict[str, Any]]:
    """Show the plan of a pull request, and leave its effects in check runs. The result is the plan document.

    For a fork's pull request, the result is what `launcher plan --offline` shows.
    """
    tree = work_tree()
    args.no_components = args.no_components or not _allows_components(tree, runner.base_sha)
    launches, choices = compiled_launches(args, console)
    base = compiled_at(runner.base_sha, args.files, args)
    if runner.is_fork:
        return _compare(launches, base.launches, runner, console)
    plan = make_plan(launches, choices=choices).stamped(plan_id=str(uuid4()), created_at=time())
    plan = attributed(plan, base.launches, runner.base_ref or "the base", "this pull request")
    console.print(shielded(plan_text(plan).rstrip("\n")))
    check_plan(plan)
    publish(plan, max_bytes=SUMMARY_BYTES)
    github = GitHub(runner.api_url, runner.repository, runner.token)
    for scope in scopes_of(plan):
        part = part_of(plan, scope)
        with degraded(console, "the effects of this plan are approved by hand"):
            publish_effects(github, runner, part, scope)
        if runner.pull_request is not None:
            text = plan_markdown(part, max_bytes=SUMMARY_BYTES)
            with degraded(console, "the plan is in the summary of this run"):
                publish_comment(github, runner.pull_request, mark_of(scope), text, is_news=not part.is_empty)
    for each in overruns(plan.steps):
        console.print(error(f"over budget: {each}; to go on, {each.remedy}"))
    return plan_exit_code(plan), loads(dumps(plan))


def _compare(
    head: Sequence[Launch], base: Sequence[Launch], runner: Runner, console: Console
) -> tuple[int, dict[str, Any]]:
    """Show what the pull request of a fork changes: its run may write nothing."""
    found = compared(head, base)
    name = runner.base_ref or runner.base_sha
    console.print(shielded(comparison_text(found, name)))
    publish_text(comparison_markdown(found, name, max_bytes=SUMMARY_BYTES))
    console.print(warning("a pull request of a fork: approve its effects by hand, or through a merge queue"))
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
