"""`launcher ci`: the steps of a workflow, from a plan on the pull request to what became of its jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import time
from typing import Any
from uuid import uuid4

import tomli

from launcher.apply import apply_launches, make_plan
from launcher.apply.approval import check_plan
from launcher.apply.events import Outcome
from launcher.apply.plans import Choices
from launcher.ci import report
from launcher.ci.apply import MOST_COMMITS, History, Merged, applied_check, applied_words
from launcher.ci.approvals import Scope, part_of, scopes_of
from launcher.ci.github import GitHub, GitHubError
from launcher.ci.plan import mark_of, publish_comment, publish_effects, with_applied
from launcher.ci.runner import Runner, runner_of
from launcher.cli import jobs, plan_options
from launcher.cli.base import compiled_at
from launcher.cli.console import Console
from launcher.cli.render.comparison import comparison_markdown, comparison_text
from launcher.cli.render.findings import exit_code, findings, in_short
from launcher.cli.render.github import publish, publish_refusal, publish_text, shielded, warning
from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.plan_text import plan_text
from launcher.cli.render.values import asked_for, took
from launcher.cli.watch import Watch
from launcher.errors import JobFileError, LauncherError, StaleError, UsageError
from launcher.files import PROJECT_FILE
from launcher.git import Repository, repository
from launcher.inventory.find import find_app
from launcher.inventory.history import attempt_of
from launcher.inventory.status import inspect
from launcher.plan.attribution import attributed, compared
from launcher.plan.effects_codec import approval_json, to_approval
from launcher.plan.model import Plan, approves
from launcher.specs import Launch

USAGE = "ci plan|apply|report [FILE…] [OPTIONS]"
HELP = """\
Steps of a CI workflow; `launcher init --ci github` writes the workflow.

plan     on a pull request: show in a comment what its merge would start and
         stop, and keep these effects in a check run, which approves them
apply    on a push to the default branch: carry out what the merged pull
         requests approve, and nothing else
report   on a schedule: tell each pull request what became of its jobs

Repository, pull request and token are read from the environment of the runner.
FILE and its options are those of `launcher plan` (default: .)."""
EXAMPLES = """\
  launcher ci plan
  launcher ci apply
  launcher ci apply --digest lp3:sha256:…    what no pull request approves

Exit codes of apply: 0 done, 1 a job could not be started, 4 a job is held for
want of an approval, 6 an invalid job file."""

STEPS = ("plan", "apply", "report")
SUMMARY_BYTES = 60_000
_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")


def add_arguments(parser: Any) -> None:
    parser.add_argument("step", metavar="STEP", choices=STEPS, help="plan, apply or report")
    jobs.add_arguments(parser)
    group = parser.add_argument_group("Apply")
    group.add_argument(
        "--digest",
        metavar="DIGEST",
        help="apply the plan that has this digest, approved by hand; no pull request is asked",
    )
    group.add_argument(
        "--without-review", action="store_true", help="apply the plan as it is: for one-person repositories"
    )


def run(args: Any, console: Console) -> int:
    runner = runner_of(os.environ)
    for name in _TOKENS:  # jobs of this machine inherit the environment
        os.environ.pop(name, None)
    if args.step != "apply" and (args.digest or args.without_review):
        raise UsageError("--digest and --without-review are for `launcher ci apply`")
    return {"plan": _plan, "apply": _apply, "report": _report}[args.step](args, runner, console)


def _plan(args: Any, runner: Runner, console: Console) -> int:
    """Show the plan of a pull request, and leave its effects in check runs."""
    tree = _tree()
    args.no_components = args.no_components or not _allows_components(tree, runner.base_sha)
    launches, choices = _launches(args, console)
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
        with _degraded(console, "the effects of this plan are approved by hand"):
            publish_effects(github, runner, part, scope)
        if runner.pull_request is not None:
            text = plan_markdown(part, max_bytes=SUMMARY_BYTES)
            with _degraded(console, "the plan is in the summary of this run"):
                publish_comment(github, runner.pull_request, mark_of(scope), text, is_news=not part.is_empty)
    return 0


def _compare(head: Sequence[Launch], base: Sequence[Launch], runner: Runner, console: Console) -> int:
    """Show what the pull request of a fork changes: its run may write nothing."""
    found = compared(head, base)
    name = runner.base_ref or runner.base_sha
    console.print(shielded(comparison_text(found, name)))
    publish_text(comparison_markdown(found, name, max_bytes=SUMMARY_BYTES))
    console.print(warning("a pull request of a fork: approve its effects by hand, or through a merge queue"))
    return 0


def _tree() -> Repository:
    tree = repository(os.getcwd())
    if tree is None:
        raise LauncherError("the current directory is in no git repository", hint="check it out first")
    return tree


def _allows_components(tree: Repository, base: str) -> bool:
    """Whether the launcher.toml of the base lets plans of pull requests call components of the repository."""
    if not base:
        return False
    try:
        settings = tomli.loads(tree.text_at(base, PROJECT_FILE)).get("ci", {})
    except tomli.TOMLDecodeError:
        return False
    return isinstance(settings, dict) and settings.get("components") is True


@contextmanager
def _degraded(console: Console, instead: str) -> Iterator[None]:
    """Turn a missing permission into a warning that names it."""
    try:
        yield
    except GitHubError as error:
        if not error.is_forbidden:
            raise
        console.print(warning(f"{error}: {instead}"))


def _apply(args: Any, runner: Runner, console: Console) -> int:
    """Carry out what merged pull requests approve, project by project, and leave a check run for each."""
    launches, choices = _launches(args, console)
    github = GitHub(runner.api_url, runner.repository, runner.token)
    digest = args.digest or runner.inputs.get("digest", "")
    by_hand = _by_hand(launches, choices, digest, runner) if digest or args.without_review else None
    history = _history(github, runner)
    code = 0
    for scope in sorted({Scope(*launch.key[:2]) for launch in launches}):
        mine = [launch for launch in launches if launch.key[:2] == scope]
        try:
            merged = by_hand or history.merged(scope)
        except StaleError as error:
            plan = make_plan(launches, choices=choices)
            console.print(shielded(plan_text(plan).rstrip("\n")))
            console.error(error)
            code = max(code, error.exit_code)
            continue
        code = max(code, _carry_out(mine, choices, merged, scope, github, runner, console))
    return code


def _history(github: GitHub, runner: Runner) -> History:
    return History(github, _tree().first_parents(MOST_COMMITS), runner.default_branch)


def _by_hand(launches: Sequence[Launch], choices: Choices, digest: str, runner: Runner) -> Merged:
    """The approval of the plan as it is. Raises StaleError where it has not the digest that was given."""
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
    scope: Scope,
    github: GitHub,
    runner: Runner,
    console: Console,
) -> int:
    plans: list[Plan] = []

    def approve(plan: Plan) -> None:
        plans[:] = [plan]
        console.print(shielded(plan_text(plan).rstrip("\n")), flush=True)

    with Watch(console, format="text", wait=False, logs=False) as watch:
        result = apply_launches(
            launches,
            choices=choices,
            approve=approve,
            approvals=merged.approvals,
            watching=watch.watching(),
        )
        code = watch.finish(result)
    (plan,) = plans
    check = applied_check(scope, plan, result.outcomes, merged, run_url=runner.run_url)
    with _degraded(console, "later applies begin before this commit"):
        github.add_check(check, sha=runner.sha)
    with _degraded(console, "the pull requests do not show what was applied"):
        _comment_applied(github, plan, result.outcomes, merged, scope, runner)
    for number in merged.unreviewed:
        console.print(warning(f"`launcher ci plan` has left no plan on the last commit of #{number}"))
    for refusal in plan.unapproved:
        console.print(warning(str(refusal)))
    if plan.unapproved:
        digest = make_plan(launches, choices=choices).plan_digest
        console.print(warning(f"open a pull request, or run the workflow by hand with the digest {digest}"))
    return max(code, StaleError.exit_code if plan.unapproved else 0)


def _comment_applied(
    github: GitHub, plan: Plan, outcomes: Sequence[Outcome], merged: Merged, scope: Scope, runner: Runner
) -> None:
    """Add to the plan of each merged pull request what was carried out of it."""
    mark = mark_of(scope)
    for number in merged.pulls:
        words = applied_words(number, plan, outcomes, runner.sha[:7])
        for comment in github.comments(int(number)):
            if comment.body.startswith(mark):
                github.edit_comment(comment.id, with_applied(comment.body, words))


def _report(args: Any, runner: Runner, console: Console) -> int:
    """Tell pull requests what became of the jobs that their merges have started."""
    github = GitHub(runner.api_url, runner.repository, runner.token)
    commits = [sha for sha, _ in _tree().first_parents(report.MOST_COMMITS)]

    def look(entry: Mapping[str, Any]) -> report.Ended:
        return _ended(entry, hides_output=runner.is_public)

    for line in report.report(github, commits, look):
        console.print(shielded(line))
    return 0


def _ended(entry: Mapping[str, Any], *, hides_output: bool) -> report.Ended:
    """How the attempt stands that a check run names."""
    job, number = str(entry["job"]), int(entry["attempt"])
    try:
        app = inspect(find_app(str(entry["handle"])))
        document = attempt_of(app).document
    except LauncherError as error:
        return report.Ended(job, number, "unknown", True, message=str(error))
    message = app.message.partition(": ")[0] if hides_output else app.message
    return report.Ended(
        job=job,
        attempt=number,
        state=app.state,
        has_ended=app.has_ended,
        took=took(app.started_at, app.ended_at) if app.has_ended else "",
        asked=asked_for(document),
        message=message,
    )


def _launches(args: Any, console: Console) -> tuple[tuple[Launch, ...], Choices]:
    """Compile the job files, with annotations of what is wrong. Raises JobFileError."""
    result = jobs.compiled(args.files, args)
    if text := findings(result.diagnostics, "github"):
        console.print(text)
    if exit_code(result.diagnostics, strict=args.strict):
        publish_refusal(result.diagnostics, in_short(result.diagnostics))
        raise JobFileError(in_short(result.diagnostics))
    scopes = plan_options.scopes_of(result.launches, args.files or ["."])
    return result.launches, Choices(prune=result.prunes, scopes=scopes, declared_in=jobs.declared_in)
