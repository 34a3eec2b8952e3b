"""The environment of a CI runner: event, pull request, commits and token, as GitHub and GitLab give them.

https://docs.github.com/actions/reference/workflows-and-actions/variables
https://docs.gitlab.com/ci/variables/predefined_variables/
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Literal

from launcher.ci_environment import run_url
from launcher.dataclass import dataclass, field
from launcher.errors import LauncherError
from launcher.files import read_regular

OF_GITHUB = ("GITHUB_TOKEN", "GH_TOKEN")
_OF_STEP = ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_RUNTIME_TOKEN")
_OF_GITLAB = (
    "LAUNCHER_GITLAB_TOKEN",
    "CI_JOB_TOKEN",
    "CI_REPOSITORY_URL",
    "CI_REGISTRY_PASSWORD",
    "CI_DEPENDENCY_PROXY_PASSWORD",
    "CI_DEPLOY_PASSWORD",
)
TOKENS = (*OF_GITHUB, *_OF_STEP, *_OF_GITLAB)
"""Variables of a runner that hold credentials, which no job gets."""

_OTHERS = ("FORGEJO_ACTIONS", "GITEA_ACTIONS")
"""Variables of runners that set those of GitHub, too, for a server without check runs."""

_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CiRunner:
    """One run of a workflow, or one job of a pipeline.

    Attributes:
        event: `pull_request`, `merge_group`, `push`, `schedule`, `workflow_dispatch` or another one.
        repository: `owner/name`; the number of the project on GitLab.
        sha: the commit of the run; of a pull request, its merge with the base.
        head_sha: the commit that check runs belong to: the head of the pull request, else `sha`.
        base_sha, base_ref: of the pull request or merge group; "" for other events.
        pull_request: its number; None for other events.
        is_fork: the pull request comes from another repository, so that the token may write nothing.
        is_hosted: the machine is discarded after the run.
        is_public: everyone may read the repository, and with it its comments.
        inputs: of `workflow_dispatch`.
        own_token: the access token with which GitLab lets this job comment; "" for none.
        artifacts: the folder that GitLab keeps after the job.
        job_id: of GitLab; it grows from job to job.
    """

    provider: Literal["github", "gitlab"] = "github"
    event: str
    repository: str
    sha: str
    head_sha: str
    base_sha: str = ""
    base_ref: str = ""
    pull_request: int | None = None
    is_fork: bool = False
    is_hosted: bool = False
    is_public: bool = True
    default_branch: str = "main"
    api_url: str = "https://api.github.com"
    run_url: str = ""
    token: str = field(default="", repr=False)
    inputs: Mapping[str, str] = field(default_factory=dict)
    own_token: str = field(default="", repr=False)
    artifacts: str = ""
    job_id: int = 0


def runner_of(environ: Mapping[str, str]) -> CiRunner:
    """Return the run of this process. Raises LauncherError outside of a runner or for wrong variables."""
    if environ.get("GITLAB_CI") == "true":
        return _of_gitlab(environ)
    other = next((name for name in _OTHERS if environ.get(name)), "")
    if other or environ.get("GITHUB_ACTIONS") != "true":
        why = f"{other} is set" if other else "neither GITHUB_ACTIONS nor GITLAB_CI is set"
        raise LauncherError(
            f"this is no run of GitHub Actions or GitLab CI: {why}",
            hint="`launcher init --ci github` writes the workflow, and `--ci gitlab` the pipeline; by hand, "
            "`launcher plan --out` and `launcher apply --approved` do the same",
        )
    event, payload = environ.get("GITHUB_EVENT_NAME", ""), _payload(environ.get("GITHUB_EVENT_PATH", ""))
    repository = _matching(_REPOSITORY, environ.get("GITHUB_REPOSITORY", ""), "GITHUB_REPOSITORY")
    sha = _matching(_SHA, environ.get("GITHUB_SHA", ""), "GITHUB_SHA")
    server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
    run = environ.get("GITHUB_RUN_ID", "")
    return CiRunner(
        event=event,
        repository=repository,
        sha=sha,
        is_hosted=environ.get("RUNNER_ENVIRONMENT") == "github-hosted",
        is_public=_in(payload, "repository").get("private") is not True,
        default_branch=str(_in(payload, "repository").get("default_branch") or "main"),
        api_url=(environ.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/"),
        run_url=f"{server}/{repository}/actions/runs/{run}" if run.isdigit() else "",
        token=environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or "",
        **_of_event(event, payload, repository, sha),
    )


def _of_event(event: str, payload: Mapping[str, Any], repository: str, sha: str) -> dict[str, Any]:
    if event == "pull_request":
        pull = _in(payload, "pull_request")
        head, base = _in(pull, "head"), _in(pull, "base")
        number = pull.get("number")
        return {
            "head_sha": _matching(_SHA, head.get("sha"), "pull_request.head.sha of the event"),
            "base_sha": _matching(_SHA, base.get("sha"), "pull_request.base.sha of the event"),
            "base_ref": str(base.get("ref", "")),
            "pull_request": number if isinstance(number, int) else None,
            "is_fork": _in(head, "repo").get("full_name") != repository,
        }
    if event == "merge_group":
        group = _in(payload, "merge_group")
        return {
            "head_sha": _matching(_SHA, group.get("head_sha"), "merge_group.head_sha of the event"),
            "base_sha": _matching(_SHA, group.get("base_sha"), "merge_group.base_sha of the event"),
            "base_ref": str(group.get("base_ref", "")).removeprefix("refs/heads/"),
        }
    inputs = {str(name): str(value) for name, value in _in(payload, "inputs").items()}
    return {"head_sha": sha, "inputs": inputs}


_SOURCES = {"merge_request_event": "pull_request", "web": "workflow_dispatch"}
"""How GitLab has started a pipeline → the name of that event on GitHub."""


def _of_gitlab(environ: Mapping[str, str]) -> CiRunner:
    sha = _matching(_SHA, environ.get("CI_COMMIT_SHA", ""), "CI_COMMIT_SHA")
    source, digest = environ.get("CI_PIPELINE_SOURCE", ""), environ.get("LAUNCHER_DIGEST", "")
    job, folder = environ.get("CI_JOB_ID", ""), environ.get("CI_PROJECT_DIR", "")
    more: dict[str, Any] = {}
    if source == "merge_request_event":
        # The commits of source and target have their own variables only if the job runs on their merge.
        head = environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or sha
        of_diff = environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", "")
        base = environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA") or of_diff
        number = _matching(_NUMBER, environ.get("CI_MERGE_REQUEST_IID", ""), "CI_MERGE_REQUEST_IID")
        projects = [environ.get(f"CI_MERGE_REQUEST_{side}PROJECT_ID", "") for side in ("SOURCE_", "")]
        more = {
            "head_sha": _matching(_SHA, head, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"),
            "base_sha": _matching(_SHA, base, "CI_MERGE_REQUEST_DIFF_BASE_SHA"),
            "base_ref": environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
            "pull_request": int(number),
            "is_fork": projects[0] != projects[1] or not projects[0],
        }
    return CiRunner(
        provider="gitlab",
        event=_SOURCES.get(source, source),
        repository=_matching(_NUMBER, environ.get("CI_PROJECT_ID", ""), "CI_PROJECT_ID"),
        sha=sha,
        is_hosted=environ.get("CI_DISPOSABLE_ENVIRONMENT") == "true",
        is_public=environ.get("CI_PROJECT_VISIBILITY") != "private",
        default_branch=environ.get("CI_DEFAULT_BRANCH") or "main",
        api_url=environ.get("CI_API_V4_URL") or "https://gitlab.com/api/v4",
        run_url=run_url(environ),
        token=environ.get("CI_JOB_TOKEN", ""),
        own_token=environ.get("LAUNCHER_GITLAB_TOKEN", ""),
        artifacts=os.path.join(folder, "launcher-ci"),
        job_id=int(job) if job.isdigit() else 0,
        **{"head_sha": sha, "inputs": {"digest": digest} if digest else {}, **more},
    )


def _payload(path: str) -> Mapping[str, Any]:
    try:
        value = json.loads(read_regular(path)) if path and os.path.exists(path) else {}
    except (OSError, ValueError, RecursionError) as error:
        raise LauncherError(f"GITHUB_EVENT_PATH cannot be read: {error}") from error
    return value if isinstance(value, dict) else {}


def _in(payload: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = payload.get(key)
    return value if isinstance(value, dict) else {}


def _matching(pattern: re.Pattern[str], value: Any, name: str) -> str:
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    raise LauncherError(
        f"{name} is {str(value)[:80]!r}", hint="run this step in a workflow of GitHub, or a job of GitLab"
    )
