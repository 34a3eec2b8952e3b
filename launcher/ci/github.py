"""A client of GitHub's REST API: comments, check runs, pull requests.

https://docs.github.com/rest (version 2022-11-28)
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from launcher.ci.forge import Api, Check, CheckRun, ForgeComment, ForgeError, HttpRefusal, Pull, Words
from launcher.ci.runner import OF_GITHUB
from launcher.errors import LauncherError
from launcher.git import pull_request_in

APP: Final = "github-actions"
"""The app that the token of a workflow belongs to; check runs of other apps do not count."""
_PERMISSIONS: Final = (
    (r"/check-runs", "checks"),
    (r"/issues/", "pull-requests"),
    (r"/pulls", "pull-requests"),
    (r"/commits/", "contents"),
    (r"/rules/", "metadata"),
)
AUTHOR: Final = f"{APP}[bot]"
"""The author of the workflow's comments; comments of other authors may contain any text."""


class GitHubError(ForgeError):
    """GitHub refused a request, or did not answer."""

    code = "github"


class GitHub(Api):
    """The API of one repository.

    Args:
        api_url: such as `https://api.github.com`, or of an enterprise server, with its path.
        repository: `owner/name`.
        token: sent to this address alone.
        sleep: waits between repeats, in seconds.
    """

    error = GitHubError
    name = "GitHub"
    words = Words("pull request", "#", "run the workflow by hand with the digest")

    def __init__(
        self, api_url: str, repository: str, token: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        url = api_url.rstrip("/")
        super().__init__(url, f"{url}/repos/{repository}", sleep=sleep)
        self._token = token

    def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The headers of a request, with the token."""
        token = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28", **token}

    def comments(self, number: int) -> list[ForgeComment]:
        """The comments of workflows on a pull request, the oldest first."""
        found = self._pages(f"/issues/{number}/comments", _comment)
        return [each for each in found if each.author == AUTHOR]

    def add_comment(self, number: int, body: str) -> ForgeComment:
        made = self._send("POST", f"/issues/{number}/comments", _comment, {"body": body})
        self._check_is_own(made.author, AUTHOR, "comments")
        return made

    def edit_comment(self, number: int, comment_id: int, body: str) -> bool:
        """Replace the text of a comment; False where it is gone."""
        path = f"/issues/comments/{comment_id}"
        return self._if_there(lambda: self._send("PATCH", path, _comment, {"body": body})) is not None

    def check_runs(self, sha: str) -> list[CheckRun]:
        """The check runs of workflows on a commit, the newest first."""
        found = self._pages(f"/commits/{quote(sha)}/check-runs?filter=all", _check_run, "check_runs")
        return sorted((each for each in found if each.app == APP), key=lambda each: each.id, reverse=True)

    def checks_of(self, pull: Pull) -> list[CheckRun]:
        """The check runs of workflows on the head of a pull request, the newest first."""
        return self.check_runs(pull.head_sha)

    def add_check(self, check: Check, *, sha: str) -> None:
        """Write a completed check run. Of equal ones, the newest counts."""
        made = self._send(
            "POST",
            "/check-runs",
            _check_run,
            {
                "name": check.name,
                "head_sha": sha,
                "status": "completed",
                "conclusion": check.conclusion,
                "external_id": check.external_id,
                "output": {"title": check.title, "summary": check.summary, "text": check.text},
            },
            repeats=True,
        )
        self._check_is_own(made.app, APP, "check runs")

    def _check_is_own(self, writer: str, own: str, what: str) -> None:
        """Raise GitHubError if the token is not that of a workflow: what it writes would never be found."""
        if writer != own:
            words = f"the token is that of `{writer}`, whose {what} do not count"
            raise GitHubError(words, hint="pass the token of the run: GITHUB_TOKEN: ${{ github.token }}")

    def pulls_of(self, sha: str) -> list[Pull]:
        """Return the pull requests that a commit belongs to; empty also for a moment after a squash."""
        try:
            return list(self._pages(f"/commits/{quote(sha)}/pulls", _pull))
        except GitHubError as error:
            if error.status == 422:  # the server does not know the commit yet
                return []
            raise

    def number_in(self, subject: str) -> int | None:
        """The pull request that the subject of a commit claims to come from; None without one."""
        return pull_request_in(subject)

    def pull(self, number: int) -> Pull | None:
        """A pull request; None where there is none of that number."""
        return self._if_there(lambda: self._send("GET", f"/pulls/{number}", _pull))

    def rules(self, branch: str) -> list[dict[str, Any]]:
        """The active rules of a branch, each with its `type` and `parameters`."""
        return list(self._pages(f"/rules/branches/{quote(branch, safe='')}", dict))

    def refused(self, refusal: HttpRefusal, method: str, url: str) -> GitHubError | None:
        """The error for a refusal, with the permission that the token lacks; None for another reason."""
        # GitHub hides what a token may not see or do.
        is_hidden = refusal.status == 404 and (method == "POST" or not self._token)
        if not (refusal.status == 401 or is_hidden or (refusal.status == 403 and not refusal.is_limit)):
            return None
        below = re.sub(r".*?/repos/[^/]+/[^/]+", "", urlsplit(url).path)
        needed = next((name for pattern, name in _PERMISSIONS if re.search(pattern, below)), "contents")
        permission = f"{needed}: {'read' if method == 'GET' else 'write'}"
        words, hint = f"the token lacks the permission `{permission}`", "add it to `permissions` of the job"
        if not self._token:
            words, hint = "GITHUB_TOKEN is not set", "pass it to the step: GITHUB_TOKEN: ${{ github.token }}"
        elif refusal.status == 401:
            words, hint = "GitHub does not accept the token", "it has expired, or belongs to another server"
        words += f" ({refusal.status} {refusal.message[:200]})"
        return GitHubError(words, status=refusal.status, permission=permission, hint=hint)


def github_of(origin: str) -> GitHub:
    """GitHub, for the repository of an origin such as `github.com/owner/name`, or of the runner.

    Raises LauncherError without a token, or for another origin.
    """
    token = next(filter(None, map(os.environ.get, OF_GITHUB)), "")
    host, _, path = origin.partition("/")
    url = os.environ.get("GITHUB_API_URL") or ("https://api.github.com" if host == "github.com" else "")
    repository = os.environ.get("GITHUB_REPOSITORY") or (path if host else "")
    if not token or not url or repository.count("/") != 1:
        why = "needs a token" if not token else f"cannot find the repository of {origin} on GitHub"
        names = "GITHUB_API_URL, and GITHUB_REPOSITORY=OWNER/NAME"
        hint = "set GITHUB_TOKEN" if not token else f"set {names}, or leave out --online"
        raise LauncherError(f"--online {why}", hint=hint)
    return GitHub(url, repository, token)


def _comment(value: Mapping[str, Any]) -> ForgeComment:
    author = str((value.get("user") or {}).get("login") or "")
    return ForgeComment(value["id"], value.get("body") or "", author)


def _check_run(value: Mapping[str, Any]) -> CheckRun:
    output = value.get("output") or {}
    return CheckRun(
        id=value["id"],
        name=value["name"],
        sha=value.get("head_sha") or "",
        conclusion=value.get("conclusion") or "",
        title=output.get("title") or "",
        summary=output.get("summary") or "",
        text=output.get("text") or "",
        external_id=value.get("external_id") or "",
        app=(value.get("app") or {}).get("slug") or "",
        url=value.get("html_url") or "",
    )


def _pull(value: Mapping[str, Any]) -> Pull:
    head, base = value.get("head") or {}, value.get("base") or {}
    return Pull(
        number=value["number"],
        head_sha=head.get("sha") or "",
        base_ref=base.get("ref") or "",
        merged=bool(value.get("merged_at")),
        merge_commit_sha=value.get("merge_commit_sha") or "",
    )
