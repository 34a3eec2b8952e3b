"""What the workflow of GitHub still needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from launcher.ci.doctor import Checks, Facts, Finding, of_branch
from launcher.ci.forge import ForgeError
from launcher.ci.github import GitHub

WORKFLOWS: Final = ".github/workflows"
_WRITES: Final = ("checks", "pull-requests")


def checks(facts: Facts, github: GitHub, branch: str, sha: str) -> Checks:
    """Judge the workflow, its token and the rules of the branch."""
    workflow = next((text for text in facts.files.values() if _job_of(text, "apply")), None)
    if workflow is None:
        detail = f"no file of {WORKFLOWS} runs `launcher ci apply`"
        files = [Finding("workflow", "missing", detail, "launcher init --ci github")]
    else:
        files = [_of_permissions(workflow), _of_group(workflow)]
    return Checks(
        token=_of_token(github, sha),
        files=files,
        branch=of_branch(facts, branch, lambda: _is_queued(github, branch)),
        requirement=None if workflow is None else str((workflow.get("env") or {}).get("LAUNCHER", "")),
        pin="pin it in `env: LAUNCHER`, with `==` or a commit",
        deepen="set `fetch-depth: 0`",
        secret="pass them in `env` of the step: NAME: ${{ secrets.NAME }}",
    )


def _of_token(github: GitHub, sha: str) -> Finding:
    try:
        github.check_runs(sha)
        github.pulls_of(sha)
    except ForgeError as error:
        remedy = error.hint or "pass GITHUB_TOKEN to the step: GITHUB_TOKEN: ${{ github.token }}"
        return Finding("token", "missing", str(error), remedy)
    return Finding("token", "ok", "it may read check runs and pull requests")


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


def _is_queued(github: GitHub, branch: str) -> bool:
    """Whether each merge is planned as it lands: in a merge queue, or on an up-to-date branch."""
    return any(
        rule.get("type") == "merge_queue"
        or (
            rule.get("type") == "required_status_checks"
            and (rule.get("parameters") or {}).get("strict_required_status_checks_policy")
        )
        for rule in github.rules(branch)
    )


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
