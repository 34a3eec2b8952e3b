"""Find the missing parts of plans and applies in CI, on GitHub and GitLab, in the order of use."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

from launcher import secrets
from launcher.apply.plans import make_plan
from launcher.ci.approvals import applied_scope
from launcher.ci.forge import ForgeError, Pull
from launcher.ci.github import GitHub
from launcher.ci.gitlab import APPLY_JOB, ENVIRONMENT, HINT, PLAN_JOB, TOKEN, GitLab
from launcher.errors import LauncherError
from launcher.jobfile.diagnostic import Diagnostic
from launcher.jobfile.text.document import read_source
from launcher.jobfile.text.parse import parse_values
from launcher.plan.reconcile import Choices
from launcher.schedulers.api import Scheduler
from launcher.schedulers.registry import get_scheduler
from launcher.specs.secret import Secret

if TYPE_CHECKING:
    from launcher.git import Repository
    from launcher.specs.launch import Launch


_PINNED: Final = re.compile(r"==\s*[0-9]|@[0-9a-f]{40}\b")
_ABOVE: Final = re.compile(r"\.{1,2}(/\.\.)*/?")


class Finding(NamedTuple):
    """One line of the doctor.

    Attributes:
        subject: the checked part.
        state: `unknown` if the token may not read it.
        detail: the facts found.
        remedy: the next step for the user; "" for `ok`.
    """

    subject: str
    state: Literal["ok", "missing", "unknown"]
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n         {self.remedy}" if self.remedy else ""
        return f"{self.state:<8} {self.subject}: {self.detail}{remedy}"


class Facts(NamedTuple):
    """The facts that the doctor judges.

    Attributes:
        engines: scheduler → why it cannot be reached; "" where it answers.
        attempts: how many of the jobs have an attempt on record.
        applied: whether a commit of the branch was applied before.
        files: the files of the CI system, by name → parsed text.
    """

    launches: Sequence[Launch]
    engines: Mapping[str, str]
    attempts: int
    applied: bool | None
    files: Mapping[str, Mapping[str, Any]]


class Checks(NamedTuple):
    """The findings on the server and in the files of its CI system.

    Attributes:
        requirement: the launcher that the jobs install; None if no file runs `launcher ci apply`.
        pin, deepen, secret: remedies for a version that is not pinned, a shallow clone, a missing secret.
    """

    token: Finding
    files: Sequence[Finding]
    branch: Finding
    requirement: str | None
    pin: str
    deepen: str
    secret: str


def findings(
    launches: Sequence[Launch],
    choices: Choices,
    forge: GitHub | GitLab,
    tree: Repository,
    *,
    branch: str,
    sha: str,
) -> list[Finding]:
    """Return the findings, in the order in which a first run would meet them."""
    names = dict.fromkeys(launch.scheduler for launch in launches)
    engines = {name: _why_unreachable(get_scheduler(name, "")) for name in names}
    attempts = 0
    if not any(engines.values()):
        attempts = sum(bool(step.guard.attempt) for step in make_plan(launches, choices=choices).steps)
    places = FILES if isinstance(forge, GitLab) else (WORKFLOWS,)
    facts = Facts(launches, engines, attempts, _was_applied(forge, tree), _files(tree, places))
    if isinstance(forge, GitLab):
        return [*_findings(facts, gitlab_checks(facts, forge, branch, sha), tree)]
    return [*_findings(facts, github_checks(facts, forge, branch, sha), tree)]


def _findings(facts: Facts, checks: Checks, tree: Repository) -> Iterator[Finding]:
    for name, why in facts.engines.items():
        if why:
            yield Finding(f"engine {name}", "missing", why, "check its address and its key, then try again")
        else:
            yield Finding(f"engine {name}", "ok", "it answers")
    yield _of_ledger(facts)
    yield checks.token
    if tree.is_shallow():
        yield Finding("clone", "missing", "it is shallow: the base is not there", checks.deepen)
    else:
        yield Finding("clone", "ok", "it has the whole history")
    yield from checks.files
    yield checks.branch
    yield _of_secrets(facts.launches, checks.secret)
    if checks.requirement is not None and _PINNED.search(checks.requirement):
        yield Finding("version", "ok", checks.requirement)
    elif checks.requirement is not None:
        installed = f"the jobs install `{checks.requirement}`"
        detail = installed if checks.requirement else "the file names no requirement"
        yield Finding("version", "missing", detail, checks.pin)


def of_branch(facts: Facts, branch: str, is_queued: Callable[[], bool]) -> Finding:
    """Judge whether two merges may change the workspace of one job although no plan has shown both."""
    shared = sorted({launch.key.job for launch in facts.launches if _shares_tree(launch)})
    if not shared:
        return Finding("branch", "ok", "no job has a workspace that others change, too")
    jobs = ", ".join(shared[:3]) + (f" and {len(shared) - 3} more" if len(shared) > 3 else "")
    try:
        if is_queued():
            return Finding("branch", "ok", "a merge is planned as it lands")
    except ForgeError as error:
        return Finding("branch", "unknown", f"its rules cannot be read: {error}", error.hint or "")
    return Finding(
        "branch",
        "missing",
        f"two merges may change the workspace of one job ({jobs}), which no plan has shown together",
        f"require a merge queue for {branch}, or branches that are up to date",
    )


def _of_ledger(facts: Facts) -> Finding:
    if facts.attempts:
        return Finding("ledger", "ok", f"{facts.attempts} of {len(facts.launches)} jobs have attempts")
    if facts.applied:
        return Finding(
            "ledger",
            "missing",
            "commits were applied, and no attempt of any job is on record",
            "keep LAUNCHER_HOME on a persistent disk, or use an engine that all runners share",
        )
    return Finding("ledger", "ok", "no attempt is on record, and no commit was applied yet")


def _of_secrets(launches: Sequence[Launch], remedy: str) -> Finding:
    references = {
        str(value)
        for launch in launches
        for role in launch.app.roles
        for value in role.env.values()
        if isinstance(value, Secret)
    }
    references |= {text for launch in launches for each in launch.notify for text in each.references.values()}
    missing = secrets.missing(sorted(references))
    if missing:
        names = ", ".join(reference.partition(":")[2] for reference in missing)
        return Finding("secrets", "missing", f"not here: {names}", remedy)
    return Finding("secrets", "ok", f"{len(references)} of {len(references)} are here")


def _shares_tree(launch: Launch) -> bool:
    """Whether the job's workspace is the folder of its job file or one above it, which other jobs share."""
    parts = launch.workspace.parts if launch.workspace is not None else ()
    return any(_ABOVE.fullmatch(os.path.normpath(part.path)) for part in parts)


def _why_unreachable(scheduler: Scheduler[Any]) -> str:
    """Ask a scheduler for its apps, and return why that failed; "" if it succeeded."""
    try:
        scheduler.list()
    except LauncherError as error:
        return str(error).splitlines()[0]
    return ""


def _was_applied(forge: GitHub | GitLab, tree: Repository) -> bool | None:
    """Whether a commit of the branch was applied; None if the server cannot be asked."""
    try:
        for sha, _ in tree.first_parents():
            if any(map(applied_scope, forge.check_runs(sha))):
                return True
    except ForgeError:
        return None
    return False


def _files(tree: Repository, places: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the parsed YAML files at some places of the checkout, without files that are not YAML."""
    found: dict[str, Mapping[str, Any]] = {}
    paths: list[str] = []
    for place in (os.path.join(tree.root, each) for each in places):
        names = sorted(os.listdir(place)) if os.path.isdir(place) else ()
        paths += [place] if os.path.isfile(place) else []
        paths += [os.path.join(place, name) for name in names if name.endswith((".yml", ".yaml"))]
    for path in paths:
        source = read_source(os.path.basename(path), path)
        found[path] = {} if isinstance(source, Diagnostic) else _mapping(parse_values(source).value)
    return found


WORKFLOWS: Final = ".github/workflows"
_WRITES: Final = ("checks", "pull-requests")


def github_checks(facts: Facts, github: GitHub, branch: str, sha: str) -> Checks:
    """Judge the workflow, its token and the rules of the branch."""
    workflow = next((text for text in facts.files.values() if _job_of(text, "apply")), None)
    if workflow is None:
        detail = f"no file of {WORKFLOWS} runs `launcher ci apply`"
        files = [Finding("workflow", "missing", detail, "launcher init --ci github")]
    else:
        files = [_of_permissions(workflow), _of_group(workflow)]
    return Checks(
        token=_of_token(github, branch, sha),
        files=files,
        branch=of_branch(facts, branch, lambda: _is_queued(github, branch)),
        requirement=None if workflow is None else str((workflow.get("env") or {}).get("LAUNCHER", "")),
        pin="pin it in `env: LAUNCHER`, with `==` or a commit",
        deepen="set `fetch-depth: 0`",
        secret="pass them in `env` of the step: NAME: ${{ secrets.NAME }}",
    )


def _of_token(forge: GitHub | GitLab, branch: str, sha: str) -> Finding:
    is_github = isinstance(forge, GitHub)
    try:
        forge.check_runs(sha)
        forge.pulls_of(sha)
        if not is_github:
            forge.checks_of(Pull(number=1, head_sha=sha, base_ref=branch, merged=False))
    except ForgeError as error:
        remedy = "pass GITHUB_TOKEN to the step: GITHUB_TOKEN: ${{ github.token }}" if is_github else ""
        return Finding("token", "missing", str(error), error.hint or remedy)
    what = "check runs and pull requests" if is_github else "merge requests, deployments and artifacts"
    return Finding("token", "ok", f"it may read {what}")


def _of_permissions(workflow: Mapping[str, Any]) -> Finding:
    for step in ("plan", "apply"):
        job = _job_of(workflow, step)
        if job is None:
            return Finding(
                "permissions", "missing", f"no job runs `launcher ci {step}`", "launcher init --ci github"
            )
        given = job.get("permissions", workflow.get("permissions"))
        may_write = (
            given if isinstance(given, dict) else dict.fromkeys(_WRITES, given == "write-all" and "write")
        )
        lacks = [name for name in _WRITES if may_write.get(name) != "write"]
        if lacks:
            wanted = ", ".join(f"{name}: write" for name in lacks)
            detail = f"the job of `launcher ci {step}` has not {wanted}"
            return Finding("permissions", "missing", detail, f"add {wanted} to its `permissions`")
    return Finding("permissions", "ok", "the jobs may write check runs and comments")


def _of_group(workflow: Mapping[str, Any]) -> Finding:
    group = (_job_of(workflow, "apply") or {}).get("concurrency", workflow.get("concurrency"))
    wanted = "concurrency: {group: launcher-apply, queue: max, cancel-in-progress: false}"
    if not isinstance(group, dict) or not group.get("group"):
        return Finding("concurrency", "missing", "applies run at once", f"add `{wanted}` to the job")
    if str(group.get("cancel-in-progress", "false")).lower() == "true":
        return Finding("concurrency", "missing", "a newer apply cancels one that runs", f"write `{wanted}`")
    if group.get("queue") != "max":
        detail = "GitHub drops all but one apply that waits"
        return Finding("concurrency", "missing", detail, f"write `{wanted}`")
    return Finding("concurrency", "ok", "applies wait for one another")


def _is_queued(github: GitHub, branch: str) -> bool:
    """Whether each merge is planned as it will land: in a merge queue, or on an up-to-date branch."""
    return any(
        rule.get("type") == "merge_queue"
        or (
            rule.get("type") == "required_status_checks"
            and (rule.get("parameters") or {}).get("strict_required_status_checks_policy")
        )
        for rule in github.rules(branch)
    )


def _job_of(workflow: Mapping[str, Any], step: str) -> Mapping[str, Any] | None:
    """Return the job of a workflow that runs a step of `launcher ci`."""
    jobs = workflow.get("jobs")
    for job in jobs.values() if isinstance(jobs, dict) else ():
        steps = job.get("steps") if isinstance(job, dict) else None
        for each in steps if isinstance(steps, list) else ():
            words = str(each.get("run", "")) if isinstance(each, dict) else ""
            chosen = str((each.get("env") or {}).get("COMMAND", "")) if isinstance(each, dict) else ""
            if "launcher ci" in words and (step in words or step in chosen):
                return dict(job)
    return None


FILES: Final = (".gitlab-ci.yml", ".gitlab")
"""The file of the pipeline, and the folder of files that it includes."""
_DEPTH: Final = 10
_INIT: Final = "launcher init --ci gitlab"


def gitlab_checks(facts: Facts, gitlab: GitLab, branch: str, sha: str) -> Checks:
    """Judge the pipeline, its tokens, its schedule and the settings of the project."""
    jobs = {name: job for file in facts.files.values() for name, job in _jobs(facts, file)}
    apply = jobs.get(APPLY_JOB)
    return Checks(
        token=_of_token(gitlab, branch, sha),
        files=[
            _of_comments(gitlab),
            *_of_jobs(jobs),
            _of_resource_group(apply, gitlab),
            _of_schedule(gitlab, branch),
        ],
        branch=of_branch(facts, branch, lambda: _merges_in_turn(gitlab)),
        requirement=None if apply is None else str(_mapping(apply.get("variables")).get("LAUNCHER", "")),
        pin="pin it in the variable LAUNCHER, with `==` or a commit",
        deepen='set the variable GIT_DEPTH to "0"',
        secret="add them to the variables of the project: Settings, CI/CD, Variables",
    )


def _jobs(facts: Facts, file: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the jobs of a file, each with the parts that it extends."""
    every = {name: job for each in facts.files.values() for name, job in each.items()}
    for name, job in file.items():
        if isinstance(job, dict) and "script" in job:
            yield str(name), _extended(job, every, _DEPTH)


def _extended(job: Mapping[str, Any], every: Mapping[str, Any], depth: int) -> dict[str, Any]:
    bases = job.get("extends")
    made: dict[str, Any] = {}
    for base in (bases if isinstance(bases, list) else [bases]) if depth else ():
        made = _merged(made, _extended(_mapping(every.get(str(base))), every, depth - 1))
    return _merged(made, job)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings like GitLab: mappings within them are merged, other values replaced."""
    made = dict(below)
    for name, value in above.items():
        old = made.get(name)
        made[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return made


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _of_comments(gitlab: GitLab) -> Finding:
    try:
        facts = gitlab.token()
    except ForgeError as error:
        if error.permission == TOKEN:  # a pipeline also works without comments
            detail = f"{TOKEN} is not set: plans are in the widget of merge requests, ends in the log"
            return Finding("comments", "ok", detail, f"for comments, {error.hint}")
        return Finding("comments", "missing", str(error), error.hint or "")
    if "api" not in (facts.get("scopes") or ()):
        return Finding("comments", "missing", f"{TOKEN} has not the scope api", HINT)
    until = f" until {facts['expires_at']}" if facts.get("expires_at") else ""
    return Finding("comments", "ok", f"{TOKEN} may comment{until}")


def _of_jobs(jobs: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    for name in (PLAN_JOB, APPLY_JOB):
        job = jobs.get(name)
        if job is None or name.replace(" ", " ci ") not in str(job["script"]):
            detail = f"no job `{name}` runs `{name.replace(' ', ' ci ')}`"
            yield Finding("pipeline", "missing", detail, _INIT)
            return
        artifacts = _mapping(job.get("artifacts"))
        if "launcher-ci" not in str(artifacts.get("paths", "")) or artifacts.get("when") != "always":
            wanted = "artifacts: {when: always, paths: [launcher-ci], expire_in: never}"
            yield Finding("artifacts", "missing", f"the job `{name}` keeps no launcher-ci", f"add `{wanted}`")
            return
    environment = jobs[APPLY_JOB].get("environment")
    given = environment.get("name") if isinstance(environment, dict) else environment
    if given != ENVIRONMENT:
        detail = f"the job `{APPLY_JOB}` has no environment, by which later applies find it"
        yield Finding("pipeline", "missing", detail, f"add `environment: {ENVIRONMENT}` to the job")
        return
    yield Finding("pipeline", "ok", "it plans merge requests and applies the default branch")


def _of_resource_group(job: Mapping[str, Any] | None, gitlab: GitLab) -> Finding:
    group = str((job or {}).get("resource_group") or "")
    if not group:
        remedy = "add `resource_group: launcher-apply` to the job"
        return Finding("concurrency", "missing", "applies run at once", remedy)
    remedy = f"glab api --method PUT 'projects/:id/resource_groups/{group}?process_mode=oldest_first'"

    def judge() -> Finding:
        mode = gitlab.get(f"/resource_groups/{quote(group, safe='')}").get("process_mode")
        if mode != "oldest_first":
            return Finding("concurrency", "missing", f"applies that wait run in any order ({mode})", remedy)
        return Finding("concurrency", "ok", "applies wait for one another, the oldest first")

    return _asked("concurrency", judge, "the order of applies")


def _of_schedule(gitlab: GitLab, branch: str) -> Finding:
    def judge() -> Finding:
        if not any(each.get("active") for each in gitlab.get("/pipeline_schedules?per_page=100")):
            when = f"--cron '17 * * * *' --ref {branch}"
            remedy = f"glab schedule create {when} --description 'launcher report'"
            return Finding("schedule", "missing", "no pipeline schedule is active", remedy)
        return Finding("schedule", "ok", "a pipeline schedule is active")

    return _asked("schedule", judge, "pipeline schedules")


def _asked(subject: str, judge: Callable[[], Finding], what: str) -> Finding:
    try:
        return judge()
    except ForgeError as error:
        return Finding(subject, "unknown", f"{what} cannot be read: {error}", error.hint or "")


def _merges_in_turn(gitlab: GitLab) -> bool:
    """Whether each merge is planned as it will land: in a merge train, or on an up-to-date branch."""
    project = gitlab.get("")
    return bool(project.get("merge_trains_enabled") or project.get("merge_method") in ("ff", "rebase_merge"))
