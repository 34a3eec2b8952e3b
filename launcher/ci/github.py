"""A client of GitHub's REST API: comments, check runs, pull requests.

https://docs.github.com/rest (version 2022-11-28)
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from launcher.dataclass import dataclass
from launcher.errors import LauncherError

APP: Final = "github-actions"
"""The app that the token of a workflow belongs to; check runs of other apps do not count."""
MOST_CHARACTERS: Final = 60_000
"""The longest text that is written; GitHub takes at most 65,536 in a comment and 65,535 in a check run."""
_TIMEOUT_S: Final = 30.0
_PATIENCE_S: Final = 300.0
"""Seconds that one request may take with all of its repeats."""
_MOST_BYTES: Final = 64 << 20
_MOST_PAGES: Final = 100
_PERMISSIONS: Final = (
    (r"/check-runs", "checks"),
    (r"/issues/", "pull-requests"),
    (r"/pulls", "pull-requests"),
    (r"/commits/", "contents"),
    (r"/rules/", "metadata"),
)


AUTHOR: Final = f"{APP}[bot]"
"""The author of the workflow's comments; comments of users may hold any text."""


class GitHubError(LauncherError):
    """GitHub refused a request, or did not answer.

    Attributes:
        status: HTTP status of the answer; 0 without an answer.
        permission: the permission that the token lacks, such as `checks: write`; "" for another reason.
    """

    code = "github"

    def __init__(self, message: str, *, status: int = 0, permission: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.permission = permission

    @property
    def is_forbidden(self) -> bool:
        """Whether the token may not do this."""
        return bool(self.permission)


@dataclass(frozen=True, slots=True)
class Comment:
    id: int
    body: str
    author: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    id: int
    name: str
    sha: str
    conclusion: str = ""
    title: str = ""
    summary: str = ""
    text: str = ""
    external_id: str = ""
    app: str = ""
    started_at: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    number: int
    head_sha: str
    base_ref: str
    merged: bool
    merge_commit_sha: str = ""
    head_repository: str = ""
    title: str = ""
    url: str = ""
    author: str = ""


class Check(NamedTuple):
    """A check run to write."""

    name: str
    conclusion: str
    title: str
    summary: str
    text: str
    external_id: str


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: one would carry the token to another address."""

    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


class GitHub:
    """The API of one repository.

    Args:
        api_url: such as `https://api.github.com`, or of an enterprise server, with its path.
        repository: `owner/name`.
        token: sent to this address alone.
        sleep: waits between repeats, in seconds.
    """

    def __init__(
        self, api_url: str, repository: str, token: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._api, self._token, self._sleep = api_url.rstrip("/"), token, sleep
        self._base = f"{self._api}/repos/{repository}"
        self._opener: OpenerDirector = build_opener(_NoRedirects)

    def comments(self, number: int) -> list[Comment]:
        """The comments of workflows on a pull request, the oldest first."""
        found = (_comment(each) for each in self._pages(f"/issues/{number}/comments"))
        return [each for each in found if each.author == AUTHOR]

    def add_comment(self, number: int, body: str) -> Comment:
        made = self._send("POST", f"/issues/{number}/comments", {"body": body})
        return _comment(made)

    def edit_comment(self, comment_id: int, body: str) -> bool:
        """Replace the text of a comment; False where it is gone."""
        try:
            self._send("PATCH", f"/issues/comments/{comment_id}", {"body": body})
        except GitHubError as error:
            if error.status in (404, 410):
                return False
            raise
        return True

    def check_runs(self, sha: str, name: str = "") -> list[CheckRun]:
        """The check runs of workflows on a commit, the newest first; of one name, or all."""
        query = urlencode({"filter": "all", **({"check_name": name} if name else {})})
        found = self._pages(f"/commits/{quote(sha)}/check-runs?{query}", key="check_runs")
        checks = (_check_run(each) for each in found)
        return sorted((each for each in checks if each.app == APP), key=lambda each: each.id, reverse=True)

    def add_check(self, check: Check, *, sha: str) -> CheckRun:
        """Write a check run that is complete."""
        made = self._send(
            "POST",
            "/check-runs",
            {
                "name": check.name,
                "head_sha": sha,
                "status": "completed",
                "conclusion": check.conclusion,
                "external_id": check.external_id,
                "output": {"title": check.title, "summary": check.summary, "text": check.text},
            },
        )
        return _check_run(made)

    def pulls_of(self, sha: str) -> list[Pull]:
        """Return the pull requests that a commit belongs to; empty also for a moment after a squash."""
        try:
            return [_pull(each) for each in self._pages(f"/commits/{quote(sha)}/pulls")]
        except GitHubError as error:
            if error.status == 422:  # the commit is not known yet
                return []
            raise

    def pull(self, number: int) -> Pull | None:
        """A pull request; None where there is none of that number."""
        try:
            return _pull(self._send("GET", f"/pulls/{number}"))
        except GitHubError as error:
            if error.status == 404 and not error.is_forbidden:
                return None
            raise

    def rules(self, branch: str) -> list[dict[str, Any]]:
        """The active rules of a branch, each with its `type` and `parameters`."""
        return list(self._pages(f"/rules/branches/{quote(branch, safe='')}"))

    def _pages(self, path: str, key: str = "") -> Iterator[dict[str, Any]]:
        """The items of every page of a list."""
        url = f"{self._base}{path}{'&' if '?' in path else '?'}per_page=100"
        for _ in range(_MOST_PAGES):
            value, headers = self._request("GET", url)
            yield from value[key] if key else value
            following = re.search(r'<([^<>]+)>;\s*rel="next"', headers.get("Link", ""))
            if following is None:
                return
            if not following[1].startswith(f"{self._api}/"):
                raise GitHubError(f"the next page of {path} lies on another host: {following[1][:100]}")
            url = following[1]
        raise GitHubError(f"{path} has more than {_MOST_PAGES} pages")

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        value, _ = self._request(method, self._base + path, body)
        return dict(value)

    def _request(
        self, method: str, url: str, body: Mapping[str, Any] | None = None
    ) -> tuple[Any, Mapping[str, str]]:
        """Return the answer as JSON and its headers. Repeats a request without effect for `_PATIENCE_S`."""
        deadline = time.monotonic() + _PATIENCE_S
        pause = 1.0
        while True:
            try:
                return self._once(method, url, body)
            except HTTPError as error:
                refusal = _Refusal.of(error)
                wait = refusal.wait_s(method, pause)
                if wait is None or time.monotonic() + wait > deadline:
                    raise refusal.error(method, url) from None
            except (URLError, HTTPException, OSError) as error:
                # The answer was lost: a POST may have taken effect.
                if method == "POST" or time.monotonic() + pause > deadline:
                    why = getattr(error, "reason", error)
                    raise GitHubError(f"{urlsplit(url).netloc} does not answer: {why}") from error
                wait = pause
            self._sleep(wait)
            pause = min(pause * 2, 60.0)

    def _once(self, method: str, url: str, body: Mapping[str, Any] | None) -> tuple[Any, Mapping[str, str]]:
        headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "launcher",
        }
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        request = Request(url, data=data, headers=headers, method=method)
        with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
            raw = answer.read(_MOST_BYTES)
            try:
                return json.loads(raw), answer.headers
            except (ValueError, RecursionError) as error:
                raise GitHubError(f"{urlsplit(url).netloc} answers with what is no JSON: {error}") from error


class _Refusal(NamedTuple):
    """An HTTP error that GitHub answered: status, headers and message."""

    status: int
    headers: Message
    message: str

    @classmethod
    def of(cls, error: HTTPError) -> _Refusal:
        with error:
            try:
                said = json.loads(error.read(100_000))
                message = str(said.get("message", "")) if isinstance(said, dict) else ""
            except (ValueError, OSError, RecursionError):
                message = ""
        return cls(error.code, error.headers, message)

    @property
    def is_limit(self) -> bool:
        """Whether a rate limit refused the request, which then had no effect."""
        if self.status == 429:
            return True
        named = "Retry-After" in self.headers or self.headers.get("X-RateLimit-Remaining") == "0"
        return self.status == 403 and (named or "rate limit" in self.message.lower())

    def wait_s(self, method: str, pause: float) -> float | None:
        """Return the seconds to wait before the request is repeated; None where it must not be repeated."""
        if not (self.is_limit or (self.status >= 500 and method != "POST")):
            return None
        after, reset = self.headers.get("Retry-After", ""), self.headers.get("X-RateLimit-Reset", "")
        if after.isdigit():
            return float(after)
        if self.is_limit and self.headers.get("X-RateLimit-Remaining") == "0" and reset.isdigit():
            return max(1.0, float(reset) - time.time())
        return pause

    def error(self, method: str, url: str) -> GitHubError:
        """Return the error, with the permission that the token lacks."""
        path = urlsplit(url).path
        below = re.sub(r".*?/repos/[^/]+/[^/]+", "", path)
        is_hidden = self.status == 404 and method == "POST"
        if self.status == 401 or is_hidden or (self.status == 403 and not self.is_limit):
            needed = next((name for pattern, name in _PERMISSIONS if re.search(pattern, below)), "contents")
            permission = f"{needed}: {'read' if method == 'GET' else 'write'}"
            return GitHubError(
                f"the token lacks the permission `{permission}` ({self.status} {self.message[:200]})",
                status=self.status,
                permission=permission,
                hint="add it to `permissions` of the job in the workflow",
            )
        moved = (
            "the repository was renamed or moved: push to its new address" if self.status // 100 == 3 else ""
        )
        words = f"GitHub refuses {method} {path}: {self.status} {self.message[:500]}"
        return GitHubError(words, status=self.status, hint=moved)


def _login(value: Mapping[str, Any]) -> str:
    return str((value.get("user") or {}).get("login") or "")


def _comment(value: Mapping[str, Any]) -> Comment:
    return Comment(value["id"], value.get("body") or "", _login(value))


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
        started_at=value.get("started_at") or "",
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
        head_repository=(head.get("repo") or {}).get("full_name") or "",
        title=value.get("title") or "",
        url=value.get("html_url") or "",
        author=_login(value),
    )
