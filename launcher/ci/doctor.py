"""Find what plans on pull requests and applies on merge still need, in the order of use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from launcher import secrets
from launcher.ci.github import GitHub, GitHubError
from launcher.errors import LauncherError
from launcher.specs.secret import Secret

if TYPE_CHECKING:
    from launcher.git import Repository
    from launcher.specs import Launch

WORKFLOWS: Final = ".github/workflows"
_WRITES: Final = ("checks", "pull-requests")
_PINNED: Final = re.compile(r"==\s*[0-9]|@[0-9a-f]{40}\b")
_ABOVE: Final = re.compile(r"\.{1,2}(/\.\.)*/?")


class Finding(NamedTuple):
    """One line of the doctor.

    Attributes:
        subject: what was looked at.
        state: `unknown` where the token may not read it.
        detail: what was found.
        remedy: what to do; "" for `ok`.
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
        workflows: file name → its parsed text.
    """

    launches: Sequence[Launch]
    engines: Mapping[str, str]
    attempts: int
    applied: bool | None
    workflows: Mapping[str, Mapping[str, Any]]


def findings(facts: Facts, github: GitHub, tree: Repository, branch: str, sha: str) -> Iterator[Finding]:
    """Yield the findings, in the order in which a first run would meet them."""
    yield from _of_engines(facts)
    yield _of_ledger(facts)
    workflow = next((text for text in facts.workflows.values() if _job_of(text, "apply")), None)
    yield _of_token(github, sha)
    yield _of_clone(tree)
    if workflow is None:
        remedy = "launcher init --ci github"
        yield Finding("workflow", "missing", f"no file of {WORKFLOWS} runs `launcher ci apply`", remedy)
    else:
        yield _of_permissions(workflow)
        yield _of_group(workflow)
    yield _of_branch(facts.launches, github, branch)
    yield _of_secrets(facts.launches)
    if workflow is not None:
        yield _of_version(workflow)


def _of_engines(facts: Facts) -> Iterator[Finding]:
    for name, why in facts.engines.items():
        if why:
            yield Finding(f"engine {name}", "missing", why, "check its address and its key, then try again")
        else:
            yield Finding(f"engine {name}", "ok", "it answers")


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


def _of_token(github: GitHub, sha: str) -> Finding:
    try:
        github.check_runs(sha)
        github.pulls_of(sha)
    except GitHubError as error:
        remedy = error.hint or "pass GITHUB_TOKEN to the step: GITHUB_TOKEN: ${{ github.token }}"
        return Finding("token", "missing", str(error), remedy)
    return Finding("token", "ok", "it may read check runs and pull requests")


def _of_clone(tree: Repository) -> Finding:
    if tree.is_shallow():
        return Finding("clone", "missing", "it is shallow: the base is not there", "set `fetch-depth: 0`")
    return Finding("clone", "ok", "it has the whole history")


def _of_permissions(workflow: Mapping[str, Any]) -> Finding:
    for step in ("plan", "apply"):
        job = _job_of(workflow, step)
        if job is None:
            return Finding(
                "permissions", "missing", f"no job runs `launcher ci {step}`", "launcher init --ci github"
            )
        given = job.get("permissions", workflow.get("permissions"))
        lacks = [name for name in _WRITES if not _may_write(given, name)]
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


def _of_branch(launches: Sequence[Launch], github: GitHub, branch: str) -> Finding:
    shared = sorted({launch.key.job for launch in launches if _shares_tree(launch)})
    if not shared:
        return Finding("branch", "ok", "no job has a workspace that others change, too")
    jobs = ", ".join(shared[:3]) + (f" and {len(shared) - 3} more" if len(shared) > 3 else "")
    try:
        rules = github.rules(branch)
    except GitHubError as error:
        return Finding("branch", "unknown", f"its rules cannot be read: {error}", error.hint or "")
    queue = any(rule.get("type") == "merge_queue" for rule in rules)
    strict = any(
        rule.get("type") == "required_status_checks"
        and (rule.get("parameters") or {}).get("strict_required_status_checks_policy")
        for rule in rules
    )
    if queue or strict:
        return Finding("branch", "ok", "a merge is planned as it lands")
    return Finding(
        "branch",
        "missing",
        f"two merges may change the workspace of one job ({jobs}), which no plan has shown together",
        f"require a merge queue for {branch}, or branches that are up to date",
    )


def _of_secrets(launches: Sequence[Launch]) -> Finding:
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
        remedy = "pass them in `env` of the step: NAME: ${{ secrets.NAME }}"
        return Finding("secrets", "missing", f"not here: {names}", remedy)
    return Finding("secrets", "ok", f"{len(references)} of {len(references)} are here")


def _of_version(workflow: Mapping[str, Any]) -> Finding:
    requirement = str((workflow.get("env") or {}).get("LAUNCHER", ""))
    if not _PINNED.search(requirement):
        detail = (
            f"the workflow installs `{requirement}`" if requirement else "the workflow names no requirement"
        )
        return Finding("version", "missing", detail, "pin it in `env: LAUNCHER`, with `==` or a commit")
    return Finding("version", "ok", requirement)


def _job_of(workflow: Mapping[str, Any], step: str) -> Mapping[str, Any] | None:
    """The job of a workflow that runs a step of `launcher ci`."""
    jobs = workflow.get("jobs")
    for job in jobs.values() if isinstance(jobs, dict) else ():
        steps = job.get("steps") if isinstance(job, dict) else None
        for each in steps if isinstance(steps, list) else ():
            words = str(each.get("run", "")) if isinstance(each, dict) else ""
            chosen = str((each.get("env") or {}).get("COMMAND", "")) if isinstance(each, dict) else ""
            if "launcher ci" in words and (step in words or step in chosen):
                return dict(job)
    return None


def _may_write(permissions: Any, name: str) -> bool:
    if isinstance(permissions, dict):
        return bool(permissions.get(name) == "write")
    return bool(permissions == "write-all")


def _shares_tree(launch: Launch) -> bool:
    """Whether the job's workspace is the folder of its job file or one above it, which other jobs share."""
    parts = launch.workspace.parts if launch.workspace is not None else ()
    return any(_ABOVE.fullmatch(os.path.normpath(part.path)) for part in parts)


def why_unreachable(ask: Any) -> str:
    """Call `ask` and return why it failed; "" where it did not."""
    try:
        ask()
    except LauncherError as error:
        return str(error).splitlines()[0]
    return ""
