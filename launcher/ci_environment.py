"""Read the variables of a CI runner: the address of its run, and the branch of a detached checkout."""

from __future__ import annotations

import os
from collections.abc import Mapping

_LONGEST = 500
# By these variables, runners of GitHub, Azure and Jenkins find the processes to kill at the end of a CI job.
_TRACKING = {
    "RUNNER_TRACKING_ID",
    "VSTS_PROCESS_LOOKUP_ID",
    "HUDSON_SERVER_COOKIE",
    "JENKINS_NODE_COOKIE",
    "JENKINS_SERVER_COOKIE",
}


def inherited() -> dict[str, str]:
    """Return this process's environment for processes that outlive it, without the marks of a CI job."""
    return {name: value for name, value in os.environ.items() if name not in _TRACKING}


def is_runner(environ: Mapping[str, str]) -> bool:
    """Return whether a CI system runs this process: the variable CI is set."""
    return environ.get("CI", "").lower() not in ("", "0", "false")


def run_url(environ: Mapping[str, str]) -> str:
    """Return the page of the run that this process belongs to, on GitHub or GitLab; "" outside of CI."""
    if environ.get("GITHUB_ACTIONS") == "true":
        server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
        run = environ.get("GITHUB_RUN_ID", "")
        return _line(f"{server}/{repository}/actions/runs/{run}") if server and repository and run else ""
    return _line(environ.get("CI_JOB_URL", "")) if environ.get("GITLAB_CI") else ""


def pull_request(number: str, run: str) -> tuple[str, str]:
    """The name of a pull request, `#12`, or `!12` on GitLab, and its page; "" where that is not known.

    Args:
        run: the page of a run of its repository.
    """
    repository, is_gitlab, _ = run.partition("/-/jobs/")
    if is_gitlab:
        return f"!{number}", f"{repository}/-/merge_requests/{number}"
    repository, is_github, _ = run.partition("/actions/runs/")
    return f"#{number}", f"{repository}/pull/{number}" if is_github else ""


def branch(environ: Mapping[str, str]) -> str:
    """Return the branch that a runner has checked out without naming it to git; "" for none."""
    if environ.get("GITHUB_ACTIONS") == "true":
        pushed = environ.get("GITHUB_REF_NAME", "") if environ.get("GITHUB_REF_TYPE") == "branch" else ""
        return _line(environ.get("GITHUB_HEAD_REF") or pushed)
    if environ.get("GITLAB_CI"):
        merge_request = environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME")
        return _line(merge_request or environ.get("CI_COMMIT_BRANCH", ""))
    return ""


def _line(text: str) -> str:
    """Return the text if it is one printable line of a sensible length; else ""."""
    return text if text.isprintable() and len(text) <= _LONGEST else ""
