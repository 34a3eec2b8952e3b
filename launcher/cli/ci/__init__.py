"""`launcher ci`: the steps of a workflow, from the plan on a pull request to the report of its jobs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from launcher.ci.github import GitHub
from launcher.ci.gitlab import GitLab
from launcher.ci.runner import TOKENS, runner_of
from launcher.cli import jobs
from launcher.cli.arguments import choose_format
from launcher.cli.ci.steps import StepRun, apply_merged, diagnose, plan_pull_request, report_ends
from launcher.cli.console import Console
from launcher.errors import UsageError

USAGE = "ci plan|apply|report|doctor [FILE…] [OPTIONS]"
HELP = """\
Steps of a CI workflow; `launcher init --ci github` writes the workflow, and
`--ci gitlab` the pipeline, where pull requests are merge requests.

plan     on a pull request: show in a comment what its merge would start and
         stop, and keep these effects in a check run (on GitLab, an artifact),
         which approves them
apply    on a push to the default branch: carry out what the merged pull
         requests approve, and nothing else
report   on a schedule: tell each pull request what became of its jobs
doctor   name what is missing for all of this to work

Repository, pull request and token are read from the environment of the runner.
FILE and its options are those of `launcher plan` (default: .)."""
EXAMPLES = """\
  launcher ci plan
  launcher ci apply
  launcher ci apply --digest lp3:sha256:…    what no pull request approves

Exit codes of apply: 0 done, 1 a job could not be started, 3 the plan exceeds
its budget, 4 a job is held for want of an approval, 6 an invalid job file."""

_Step = Callable[[Any, StepRun], tuple[int, Any]]
"""Returns the exit code, and the result as a JSON value."""
_STEPS: dict[str, _Step] = {
    "plan": plan_pull_request,
    "apply": apply_merged,
    "report": report_ends,
    "doctor": diagnose,
}


def add_arguments(parser: Any) -> None:
    parser.add_argument("step", metavar="STEP", choices=tuple(_STEPS), help="plan, apply, report or doctor")
    jobs.add_arguments(parser)
    group = parser.add_argument_group("Apply")
    group.option(
        "--digest DIGEST", "apply the plan that has this digest, approved by hand; no pull request is asked"
    )
    group.option("--without-review", "apply the plan as it is: for one-person repositories")
    group = parser.add_argument_group("Doctor")
    group.option("--format FORMAT", "text or json", choices=("text", "json"), default="text")
    parser.option("--json", "print the result as JSON, all text to stderr")


def run(args: Any, console: Console) -> int:
    choose_format(args)
    if args.step != "apply" and (args.digest or args.without_review):
        raise UsageError("--digest and --without-review are for `launcher ci apply`")
    runner = runner_of(os.environ)
    for name in TOKENS:  # jobs of this machine inherit the environment
        os.environ.pop(name, None)
    is_gitlab = runner.provider == "gitlab"
    forge = GitLab(runner) if is_gitlab else GitHub(runner.api_url, runner.repository, runner.token)
    try:
        code, result = _STEPS[args.step](
            args, StepRun(runner, forge, console.aside() if args.json else console)
        )
    finally:
        if isinstance(forge, GitLab):
            forge.finish()
    if args.json:
        console.json(result)
    return code
