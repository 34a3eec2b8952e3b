"""A GitHub for tests: a real HTTP server on loopback that keeps comments, check runs and pull requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ssl import SSLContext
from typing import Any

from launcher.ci.github import APP
from tests.github.description import violations
from tests.github.server import FakeServer

REPOSITORY = "acme/vision"
MOST_CHARACTERS = 65_536


class FakeGitHub(FakeServer):
    """One repository.

    Attributes:
        app: whose token writes.
    """

    root = "/api/v3"
    repository = f"/repos/{REPOSITORY}"
    items = "check_runs"
    forbidden = "Resource not accessible by integration"

    def __init__(self, context: SSLContext | None = None) -> None:
        super().__init__(context)
        self.app = APP
        self.comments: dict[int, dict[str, Any]] = {}
        self.checks: list[dict[str, Any]] = []
        self.pulls: dict[int, dict[str, Any]] = {}
        self.commits: dict[str, list[int]] = {}
        self.rules: list[dict[str, Any]] = []

    def faults_of(self, method: str, path: str, query: dict[str, str], body: Any) -> Iterator[str]:
        """Yield where a request differs from GitHub's description."""
        return violations(method, path, query, body)

    def open_pull(self, number: int, head: str, *, base: str = "main", repository: str = REPOSITORY) -> None:
        """Open a pull request, or push to its branch."""
        self.pulls[number] = {
            "number": number, "title": f"change {number}",
            "html_url": f"https://github.invalid/{REPOSITORY}/pull/{number}", "user": {"login": "ann"},
            "head": {"sha": head, "repo": {"full_name": repository}}, "base": {"ref": base},
            "merged_at": None, "merge_commit_sha": None,
        }  # fmt: skip

    def merge_pull(self, number: int, commit: str) -> None:
        self.pulls[number] |= {"merged_at": "2026-01-01T00:00:00Z", "merge_commit_sha": commit}
        self.commits.setdefault(commit, []).append(number)

    def bodies(self, number: int) -> list[str]:
        """Return the comments of a pull request."""
        return [each["body"] for each in self.comments.values() if each["number"] == number]

    def conclusions(self, name: str) -> dict[str, str]:
        """Return the conclusion of the newest check run of a name, by commit."""
        return {each["head_sha"]: each["conclusion"] for each in self.checks if each["name"] == name}

    def routes(self) -> list[tuple[str, Callable[..., tuple[int, Any]]]]:
        return [
            (r"GET /issues/(\d+)/comments", self._list_comments),
            (r"POST /issues/(\d+)/comments", self._add_comment),
            (r"PATCH /issues/comments/(\d+)", self._edit_comment),
            (r"GET /commits/([0-9a-f]+)/check-runs", self._list_checks),
            (r"POST /check-runs", self._add_check), (r"GET /commits/([0-9a-f]+)/pulls", self._pulls_of),
            (r"GET /pulls/(\d+)", self._pull), (r"GET /rules/branches/(.+)", self._rules),
        ]  # fmt: skip

    def _list_comments(self, number: str, **_: Any) -> tuple[int, Any]:
        return 200, [each for each in self.comments.values() if each["number"] == int(number)]

    def _add_comment(self, number: str, *, body: Any, **_: Any) -> tuple[int, Any]:
        if len(body["body"]) > MOST_CHARACTERS:
            return 422, {"message": "Validation Failed"}
        user = {"login": f"{self.app}[bot]"}
        made = {"id": self._id(), "number": int(number), "body": body["body"], "user": user}
        self.comments[made["id"]] = made
        return 201, made

    def _edit_comment(self, comment: str, *, body: Any, **_: Any) -> tuple[int, Any]:
        if int(comment) not in self.comments:
            return 404, {"message": "Not Found"}
        self.comments[int(comment)]["body"] = body["body"]
        return 200, self.comments[int(comment)]

    def _list_checks(self, sha: str, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        name = query.get("check_name")
        found = [each for each in self.checks if each["head_sha"] == sha and name in (None, each["name"])]
        return 200, {"total_count": len(found), "check_runs": found[::-1]}

    def _add_check(self, *, body: Any, **_: Any) -> tuple[int, Any]:
        if len(body["output"]["text"]) > MOST_CHARACTERS - 1:
            return 422, {"message": "Validation Failed"}
        made = {**body, "id": self._id(), "app": {"slug": self.app}, "html_url": "", "started_at": ""}
        self.checks.append(made)
        return 201, made

    def _pulls_of(self, sha: str, **_: Any) -> tuple[int, Any]:
        if self.faults.unlinked.get(sha, 0):
            self.faults.unlinked[sha] -= 1
            return 422, {"message": f"No commit found for SHA: {sha}"}
        return 200, [self.pulls[number] for number in self.commits.get(sha, [])]

    def _pull(self, number: str, **_: Any) -> tuple[int, Any]:
        found = self.pulls.get(int(number))
        return (200, found) if found else (404, {"message": "Not Found"})

    def _rules(self, branch: str, **_: Any) -> tuple[int, Any]:
        return 200, self.rules
