"""`launcher ci`: the steps of a workflow, from the plan on a pull request to the report of its jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from json import dumps as to_json, loads
from time import time
from typing import Any
from uuid import uuid4

import tomli

from launcher.apply.apply import apply_launches
from launcher.apply.approval import check_plan
from launcher.apply.events import Outcome, Result
from launcher.apply.plans import make_plan
from launcher.ci import doctor
from launcher.ci.approvals import (
    ApprovalScope,
    CommitHistory,
    Forge,
    Merged,
    check_is_not_overtaken,
    check_is_only_plan,
    effect_checks,
    explained,
    part_of,
    scopes_of,
    withheld,
    without,
)
from launcher.ci.forge import ForgeError
from launcher.ci.github import GitHub
from launcher.ci.gitlab import GitLab
from launcher.ci.record import (
    AppliedComments,
    PlanComment,
    applied_check,
    applied_words,
    publish_plans,
    remark_on,
    without_output,
)
from launcher.ci.runner import TOKENS, CiRunner, runner_of
from launcher.cli import jobs
from launcher.cli.arguments import choose_format
from launcher.cli.ci_report import reported
from launcher.cli.console import Console
from launcher.cli.jobs import compiled_at, work_tree
from launcher.cli.plan import CHECK, orphan_scopes
from launcher.cli.render import github
from launcher.cli.render.findings import Problem, exit_code, findings, in_short, problems_json
from launcher.cli.render.markdown import MAX_BYTES, plan_markdown
from launcher.cli.render.outcomes import result_json
from launcher.cli.render.plan_answers import comparison_json, comparison_markdown, comparison_text
from launcher.cli.render.plan_text import plan_text
from launcher.cli.watch import Watch
from launcher.dataclass import replace
from launcher.errors import JobFileError, LauncherError, StaleError, UsageError
from launcher.files import PROJECT_FILE
from launcher.git import Repository
from launcher.plan.approved import approval_json, to_approval
from launcher.plan.codec import dumps
from launcher.plan.effects import compared
from launcher.plan.model import Plan, approves, attributed, overruns, plan_exit_code
from launcher.plan.reconcile import Choices
from launcher.specs.jobkey import DEFAULT_TARGET
from launcher.specs.launch import Launch

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
FILE and its options are those of `launcher plan` (default: .). All jobs of a
project and target belong to one step: plan and apply name the same files."""
EXAMPLES = """\
  launcher ci plan
  launcher ci apply
  launcher ci apply --digest lp3:sha256:…    what no pull request approves

Exit codes of apply: 0 done, 1 a job could not be started, 3 the plan exceeds
its budget, 4 a job is held for want of an approval, 6 an invalid job file."""


class StepRun:
    """One run of a step: its runner, the server of its repository, and the console that it writes to."""

    def __init__(self, runner: CiRunner, forge: Forge, console: Console) -> None:
        self.runner, self.forge, self.console = runner, forge, console
        self.is_github = runner.provider == "github"
        self.comments = AppliedComments(forge, self.warn)

    def show(self, text: str) -> None:
        """Print text that may come from job files: GitHub would take some lines for commands."""
        self.console.print(github.shielded(text) if self.is_github else text, flush=True)

    def warn(self, text: str, word: str = "warning") -> None:
        """Print a highlighted line. `word`: "error" where the run is to fail."""
        self.console.print(github.annotation(word, text) if self.is_github else f"{word}: {text}")

    @property
    def says_why(self) -> str:
        """A sentence for a comment instead of an error: that may name secrets, which only logs mask."""
        url = self.runner.run_url
        return f"{f'[The run]({url})' if url else 'The run'} says why."

    @contextmanager
    def degraded(self, instead: str) -> Iterator[None]:
        """Turn a missing permission into a warning, which names the permission."""
        try:
            yield
        except ForgeError as error:
            if not error.is_forbidden:
                raise
            self.warn(f"{error}: {instead}")


def compiled_launches(args: Any, run: StepRun) -> tuple[tuple[Launch, ...], Choices]:
    """Compile the job files, with annotations of their problems. Raises JobFileError."""
    result = jobs.compiled(args.files, args)
    # A change that removes the last job file is planned like any other.
    found = [each for each in result.diagnostics if each.code != "no-job-files"]
    if text := findings(found, "github" if run.is_github else "text"):
        run.console.print(text)
    if exit_code(found, strict=args.strict):
        github.publish_refusal(found, in_short(found))
        raise JobFileError(in_short(found), diagnostics=found if args.json else ())  # shown as text
    jobs.note_left_out(result, args, run.console)
    scopes = orphan_scopes(result.launches, args.files or ["."])
    choices = Choices(prune=result.prunes, check=args.check, scopes=scopes, declared_in=jobs.declared_in)
    return result.launches, choices


_SHOWN_IN = {"github": "the summary of this run", "gitlab": "the widget, and in launcher-ci/plan.md"}


def plan_pull_request(args: Any, run: StepRun) -> tuple[int, dict[str, Any]]:
    """Show the plan of a pull request, and leave its effects in check runs. The result is the plan document.

    For a fork's pull request, the result is what `launcher plan --offline` shows. The comments on a commit
    that cannot be planned say so, instead of showing the plan of the commit before.
    """
    try:
        return _plan_pull_request(args, run)
    except LauncherError as error:
        if not isinstance(error, ForgeError) and run.runner.pull_request is not None:
            at = f"{run.runner.head_sha[:7]}\n\n{run.says_why}\n"
            with suppress(ForgeError):  # the error of the plan counts
                publish_plans(run.forge, run.runner, {}, _instead(args, "### No plan of {} at " + at))
        raise


def _plan_pull_request(args: Any, run: StepRun) -> tuple[int, dict[str, Any]]:
    runner, tree = run.runner, work_tree()
    if runner.event not in ("pull_request", "merge_group"):  # effects on a commit of main would approve it
        words = f"`launcher ci plan` is for pull requests and merge queues, and not for `{runner.event}`"
        raise LauncherError(words, hint="for other events, run `launcher plan`")
    # The commit of the target that the checkout contains: the event may name an older one.
    merged = tree.merge_base(f"refs/remotes/origin/{runner.base_ref}") if runner.pull_request else ""
    base_sha = merged or runner.base_sha
    args.no_components = args.no_components or not _allows_components(tree, base_sha)
    launches, choices = compiled_launches(args, run)
    base = compiled_at(base_sha, args.files, args)
    if runner.is_fork:
        return _compare(launches, base.launches, run)
    plan = make_plan(launches, choices=choices).stamped(plan_id=str(uuid4()), created_at=time())
    plan = attributed(plan, base.launches, runner.base_ref or "the base", f"this {run.forge.words.request}")
    run.show(plan_text(plan).rstrip("\n"))
    check_plan(plan)
    github.publish(plan, max_bytes=MAX_BYTES)
    if isinstance(run.forge, GitLab):
        _keep(run.forge, plan)
    comments = {}
    for scope in scopes_of(plan):
        part = part_of(plan, scope)
        with run.degraded("the effects of this plan are approved by hand"):
            if args.files and run.is_github:
                check_is_only_plan(part, scope, run.forge.check_runs(runner.head_sha), tree.root)
            # The commit that a merge queue tests becomes the commit on the branch.
            for check in effect_checks(part, scope, str(runner.pull_request or "")):
                run.forge.add_check(check, sha=runner.head_sha)
        shown = without_output(part) if runner.is_public else part
        text = plan_markdown(
            shown, title=scope.title, remark=remark_on(runner.base_ref, runner.default_branch)
        )
        comments[scope] = PlanComment(text, is_news=not part.is_empty)
    if runner.pull_request is not None:
        with run.degraded(f"the plan is in {_SHOWN_IN[runner.provider]}"):
            publish_plans(run.forge, runner, comments, _instead(args, "### No job of {} is left\n"))
    for each in overruns(plan.steps):
        run.warn(f"over budget: {each}; to go on, {each.remedy}", "error")
    return plan_exit_code(plan), loads(dumps(plan))


def _instead(args: Any, words: str) -> Callable[[ApprovalScope], str]:
    """Return a function that returns the text in place of a plan, for projects of the target without one.

    Only a plan of the whole repository knows these projects.

    Args:
        words: Markdown, with `{}` for the name of the project.
    """
    target = args.target or DEFAULT_TARGET
    is_whole = not args.files and os.path.samefile(work_tree().root, os.curdir)
    return lambda scope: words.replace("{}", scope.project) if is_whole and scope.target == target else ""


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
    github.publish_text(comparison_markdown(found, name, max_bytes=MAX_BYTES))
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


def apply_merged(args: Any, run: StepRun) -> tuple[int, dict[str, Any]]:
    """Carry out what merged pull requests approve, and record each project in a check run.

    The result has the jobs of all projects, as `launcher apply --json` prints them.
    """
    launches, choices = compiled_launches(args, run)
    digest = args.digest or run.runner.inputs.get("digest", "")
    by_hand = _by_hand(launches, choices, digest, run.runner) if digest or args.without_review else None
    code = 0
    outcomes: list[Outcome] = []
    refused: list[Problem] = []
    found = {ApprovalScope(*launch.key[:2]) for launch in launches}
    if choices.prune:  # a project whose last job file was removed may have jobs to stop
        found.update(scopes_of(make_plan(launches, choices=choices)))
    scopes = sorted(found)
    history = _history(args, run, scopes)
    for scope in scopes:
        mine = [launch for launch in launches if launch.key[:2] == scope]
        merged = by_hand or Merged(approvals=(), pulls={})
        try:
            merged = by_hand or history.merged(scope)
            code = max(code, _carry_out(mine, _choices_in(scope, choices), merged, scope, run, outcomes))
        except LauncherError as error:  # the other projects go on
            run.console.error(error)
            refused.append((str(scope), error))
            code = max(code, error.exit_code)
            failure = f"the apply at {run.runner.sha[:7]} failed. {run.says_why}"
            run.comments.write(scope, merged, dict.fromkeys(merged.pulls, failure))
    if code == StaleError.exit_code:
        # The unapproved effects of all projects, with the digest that approves them manually.
        plan = make_plan(launches, choices=choices)
        run.show(plan_text(plan).rstrip("\n"))
        words = run.forge.words
        run.warn(f"open a {words.request}, or {words.by_hand} {plan.plan_digest}")
    result = result_json(Result(outcomes=tuple(outcomes)))
    problems = [*result["problems"], *problems_json(refused)]
    return code, {"exit": code, "jobs": result["jobs"], "problems": problems}


def _history(args: Any, run: StepRun, scopes: Iterable[ApprovalScope]) -> CommitHistory:
    """Return the history of the branch.

    Raises StaleError for another branch, or if a later commit was applied for a project and target. A shallow
    clone does not show that.
    """
    tree, branch, sha = work_tree(), run.runner.default_branch, run.runner.sha
    if tree.is_shallow():
        why = "this clone is shallow, so that commits before and after this one are missing"
        raise StaleError(why, hint=tree.why_missing(""))
    pushed = f"refs/remotes/origin/{branch}"
    if tree.merge_base(pushed) != sha:
        hint = f"run it for a push to {branch}, in a clone with all branches"
        raise StaleError(f"{sha[:7]} is no commit of {branch}, or is not checked out", hint=hint)
    history = CommitHistory(run.forge, tree.first_parents(), branch, partial(_has_jobs, args))
    later = tree.later_commits(pushed)
    for scope in scopes:
        history.check_is_newest(later, scope)
    return history


def _has_jobs(args: Any, commit: str, scope: ApprovalScope) -> bool:
    """Whether a commit declares jobs of a project and target; True where its job files have errors."""
    found = compiled_at(commit, args.files, args)
    is_broken = any(each.code not in ("no-job-files", "unknown-target") for each in found.errors)
    return is_broken or any(launch.key[:2] == scope for launch in found.launches)


def _by_hand(launches: Sequence[Launch], choices: Choices, digest: str, runner: CiRunner) -> Merged:
    """Return an approval of the whole plan. Raises StaleError unless its digest is the given one."""
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


def _choices_in(scope: ApprovalScope, choices: Choices) -> Choices:
    """Return the choices for the jobs of one project, so that no job of another project is an orphan."""
    return replace(choices, scopes=tuple(replace(each, project=scope.project) for each in choices.scopes))


def _carry_out(
    launches: Sequence[Launch],
    choices: Choices,
    merged: Merged,
    scope: ApprovalScope,
    run: StepRun,
    outcomes: list[Outcome],
) -> int:
    """Apply the jobs of one project, add their outcomes to `outcomes`, and record both on the server."""
    plans: list[Plan] = []
    kept = withheld(launches) if run.runner.is_hosted else {}

    def approve(plan: Plan) -> None:
        plans[:] = [plan]
        run.show(plan_text(plan).rstrip("\n"))
        if merged.commits:  # a user who approves by hand has seen the plan
            check_is_not_overtaken(plan, work_tree())

    with Watch(run.console, format="text", wait=False, logs=False) as watch:
        result = apply_launches(
            launches,
            choices=choices,
            approve=approve,
            approvals=without(merged, kept),
            watching=watch.watching(),
        )
        code = watch.finish(result)
    outcomes += result.outcomes
    plan = explained(without_output(plans[0]) if run.runner.is_public else plans[0], kept)
    check = applied_check(scope, plan, result.outcomes, merged, run_url=run.runner.run_url)
    with run.degraded("later applies begin before this commit"):
        run.forge.add_check(check, sha=run.runner.sha)
    short = run.runner.sha[:7]
    words = {each: applied_words(each, plan, result.outcomes, merged, short) for each in merged.pulls}
    run.comments.write(scope, merged, words)
    for number in merged.unreviewed:
        run.warn(f"`launcher ci plan` has left no plan on the last commit of {run.forge.words.sign}{number}")
    for refusal in plan.unapproved:
        run.warn(str(refusal))
    return max(code, StaleError.exit_code if plan.unapproved else 0)


def report_ends(args: Any, run: StepRun) -> tuple[int, dict[str, Any]]:
    """Comment on pull requests how the jobs of their merges ended. The result has the lines."""
    lines = reported(work_tree(), run.forge, run.warn, hides_output=run.runner.is_public)
    if lines:
        run.show("\n".join(lines))
    return 0, {"reported": lines}


def diagnose(args: Any, run: StepRun) -> tuple[int, list[dict[str, Any]]]:
    """Show missing parts of the setup; the exit code is 1 if there are any. The result has every finding."""
    launches = jobs.launches(args.files, args, run.console)
    choices = Choices(declared_in=jobs.declared_in)
    found = doctor.findings(
        launches, choices, run.forge, work_tree(), branch=run.runner.default_branch, sha=run.runner.sha
    )
    run.show("\n".join(map(str, found)))
    code = 1 if any(each.state == "missing" for each in found) else 0
    return code, [each._asdict() for each in found]


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
    group = parser.add_argument_group("Plan")
    group.option("--check", CHECK)
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
    if args.step != "plan" and args.check:
        raise UsageError("--check is for `launcher ci plan`")
    runner = runner_of(os.environ)
    for name in TOKENS:  # the environment is inherited by jobs of this machine
        os.environ.pop(name, None)
    is_gitlab = runner.provider == "gitlab"
    forge = GitLab(runner) if is_gitlab else GitHub(runner.api_url, runner.repository, runner.token)
    step_run = StepRun(runner, forge, console.aside() if args.json else console)
    try:
        code, result = _STEPS[args.step](args, step_run)
    finally:
        if isinstance(forge, GitLab):
            forge.finish()
    if args.json:
        console.json(result)
    return code
