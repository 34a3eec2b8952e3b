"""`launcher ci doctor`: name what the repository lacks for plans on pull requests and applies on merge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.apply import make_plan
from launcher.apply.plans import Choices
from launcher.ci import doctor
from launcher.ci.github import GitHub, GitHubError
from launcher.ci.runner import Runner
from launcher.cli import jobs
from launcher.cli.ci.common import work_tree
from launcher.cli.console import Console
from launcher.cli.render.github import shielded
from launcher.git import Repository
from launcher.jobfile import Diagnostic
from launcher.jobfile.text.parse import parse_values
from launcher.jobfile.text.source import read_source
from launcher.schedulers.registry import get_scheduler
from launcher.specs import Launch

_LOOKED_BACK = 30
"""How many first parents the doctor searches for an applied commit."""


def diagnose(args: Any, runner: Runner, console: Console) -> tuple[int, list[dict[str, Any]]]:
    """Show what is missing; the exit code is 1 where something is. The result has every finding."""
    launches = jobs.launches(args.files, args, console)
    choices = Choices(declared_in=jobs.declared_in)
    github, tree = GitHub(runner.api_url, runner.repository, runner.token), work_tree()
    names = dict.fromkeys(launch.scheduler for launch in launches)
    engines = {name: doctor.why_unreachable(get_scheduler(name, "").list) for name in names}
    attempts = 0
    if not any(engines.values()):
        steps = make_plan(launches, choices=choices).steps
        attempts = sum(bool(step.guard.attempt) for step in steps)
    facts = doctor.Facts(launches, engines, attempts, _was_applied(github, tree, launches), _workflows(tree))
    found = list(doctor.findings(facts, github, tree, runner.default_branch, runner.sha))
    console.print(shielded("\n".join(map(str, found))))
    code = 1 if any(each.state == "missing" for each in found) else 0
    return code, [each._asdict() for each in found]


def _was_applied(github: GitHub, tree: Repository, launches: Sequence[Launch]) -> bool | None:
    """Whether a commit of the branch was applied for one of the jobs; None where that cannot be asked."""
    try:
        for sha, _ in tree.first_parents(_LOOKED_BACK):
            if any(check.name.startswith("launcher apply ") for check in github.check_runs(sha)):
                return True
    except GitHubError:
        return None
    return False


def _workflows(tree: Repository) -> dict[str, Mapping[str, Any]]:
    """Return the parsed workflow files of the checkout, without files that are not YAML."""
    folder = os.path.join(tree.root, doctor.WORKFLOWS)
    found: dict[str, Mapping[str, Any]] = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.endswith((".yml", ".yaml")):
            source = read_source(name, os.path.join(folder, name))
            value = None if isinstance(source, Diagnostic) else parse_values(source).value
            found[name] = value or {}
    return found
