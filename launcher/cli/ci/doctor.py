"""`launcher ci doctor`: name what the repository lacks for plans on pull requests and applies on merge."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.apply.plans import Choices, make_plan
from launcher.ci import doctor
from launcher.ci.forge import Forge, ForgeError
from launcher.ci.gitlab import GitLab
from launcher.cli import jobs
from launcher.cli.ci.common import StepRun, work_tree
from launcher.git import Repository
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.text.document import read_source
from launcher.jobfile.text.parse import parse_values
from launcher.schedulers.registry import get_scheduler
from launcher.specs.launch import Launch

_LOOKED_BACK = 30
"""How many first parents the doctor searches for an applied commit."""


def diagnose(args: Any, run: StepRun) -> tuple[int, list[dict[str, Any]]]:
    """Show what is missing; the exit code is 1 where something is. The result has every finding."""
    launches = jobs.launches(args.files, args, run.console)
    choices = Choices(declared_in=jobs.declared_in)
    tree = work_tree()
    names = dict.fromkeys(launch.scheduler for launch in launches)
    engines = {name: doctor.why_unreachable(get_scheduler(name, "").list) for name in names}
    attempts = 0
    if not any(engines.values()):
        steps = make_plan(launches, choices=choices).steps
        attempts = sum(bool(step.guard.attempt) for step in steps)
    applied = _was_applied(run.forge, tree, launches)
    branch, sha = run.runner.default_branch, run.runner.sha
    if isinstance(run.forge, GitLab):
        facts = doctor.Facts(launches, engines, attempts, applied, _files(tree, *doctor.FILES))
        checks = doctor.gitlab_checks(facts, run.forge, branch, sha)
    else:
        facts = doctor.Facts(launches, engines, attempts, applied, _files(tree, doctor.WORKFLOWS))
        checks = doctor.github_checks(facts, run.forge, branch, sha)
    found = list(doctor.findings(facts, checks, tree))
    run.show("\n".join(map(str, found)))
    code = 1 if any(each.state == "missing" for each in found) else 0
    return code, [each._asdict() for each in found]


def _was_applied(forge: Forge, tree: Repository, launches: Sequence[Launch]) -> bool | None:
    """Whether a commit of the branch was applied for one of the jobs; None where that cannot be asked."""
    try:
        for sha, _ in tree.first_parents(_LOOKED_BACK):
            if any(check.name.startswith("launcher apply ") for check in forge.check_runs(sha)):
                return True
    except ForgeError:
        return None
    return False


def _files(tree: Repository, *places: str) -> dict[str, Mapping[str, Any]]:
    """Return the parsed YAML files of the checkout in some places, without files that are not YAML."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in (each for place in places for each in _yaml_in(os.path.join(tree.root, place))):
        source = read_source(os.path.basename(path), path)
        value = None if isinstance(source, Diagnostic) else parse_values(source).value
        found[path] = value if isinstance(value, dict) else {}
    return found


def _yaml_in(place: str) -> Iterator[str]:
    """A file, or the YAML files of a folder."""
    if os.path.isfile(place):
        yield place
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        if name.endswith((".yml", ".yaml")):
            yield os.path.join(place, name)
