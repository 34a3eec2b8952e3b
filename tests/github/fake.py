"""A GitHub for tests: a real HTTP server on loopback that keeps comments, check runs and pull requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from launcher.ci.github import AUTHOR
from tests.github.description import violations

REPOSITORY = "acme/vision"
MOST_CHARACTERS = 65_536


@dataclass
class Faults:
    """What goes wrong, by the method and path of a request.

    Attributes:
        forbidden: patterns of `METHOD path` that the token may not do.
        answers: pattern → status codes for the next requests, one each; afterwards all is well.
        retry_after: seconds in the header of such an answer.
        unlinked: commits whose pull requests are not known yet, with the number of times.
        page: items of a page.
        message: of such an answer.
        text: in place of every answer, where it is not None.
    """

    forbidden: list[str] = field(default_factory=list)
    answers: dict[str, list[int]] = field(default_factory=dict)
    retry_after: int | None = None
    unlinked: dict[str, int] = field(default_factory=dict)
    page: int = 100
    message: str = "refused for a test"
    text: str | None = None


class FakeGitHub:
    """One repository. A context manager: the server runs inside."""

    def __init__(self) -> None:
        self.comments: dict[int, dict[str, Any]] = {}
        self.checks: list[dict[str, Any]] = []
        self.pulls: dict[int, dict[str, Any]] = {}
        self.commits: dict[str, list[int]] = {}
        self.rules: list[dict[str, Any]] = []
        self.faults = Faults()
        self.requests: list[str] = []
        self.violations: list[str] = []
        self._lock = Lock()
        self._last = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def __enter__(self) -> FakeGitHub:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Fails when a request was not as GitHub describes it."""
        self._server.shutdown()
        self._server.server_close()
        assert not self.violations, "\n".join(self.violations)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/api/v3"

    def open_pull(self, number: int, head: str, *, base: str = "main", repository: str = REPOSITORY) -> None:
        """A pull request, or a push to its branch."""
        self.pulls[number] = {
            "number": number,
            "title": f"change {number}",
            "html_url": f"https://github.invalid/{REPOSITORY}/pull/{number}",
            "user": {"login": "ann"},
            "head": {"sha": head, "repo": {"full_name": repository}},
            "base": {"ref": base},
            "merged_at": None,
            "merge_commit_sha": None,
        }

    def merge_pull(self, number: int, commit: str) -> None:
        self.pulls[number] |= {"merged_at": "2026-01-01T00:00:00Z", "merge_commit_sha": commit}
        self.commits.setdefault(commit, []).append(number)

    def bodies(self, number: int) -> list[str]:
        """The comments of a pull request."""
        return [each["body"] for each in self.comments.values() if each["number"] == number]

    def conclusions(self, name: str) -> dict[str, str]:
        """Commit → conclusion of its newest check run of a name."""
        return {each["head_sha"]: each["conclusion"] for each in self.checks if each["name"] == name}

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Status and JSON of the answer to a request; `path` is below the repository."""
        routes: list[tuple[str, Callable[..., tuple[int, Any]]]] = [
            (r"GET /issues/(\d+)/comments", self._list_comments),
            (r"POST /issues/(\d+)/comments", self._add_comment),
            (r"PATCH /issues/comments/(\d+)", self._edit_comment),
            (r"GET /commits/([0-9a-f]+)/check-runs", self._list_checks),
            (r"POST /check-runs", self._add_check),
            (r"GET /commits/([0-9a-f]+)/pulls", self._pulls_of),
            (r"GET /pulls/(\d+)", self._pull),
            (r"GET /rules/branches/(.+)", self._rules),
        ]
        for pattern, act in routes:
            if matched := re.fullmatch(pattern, f"{method} {path}"):
                with self._lock:
                    return act(*matched.groups(), query=query, body=body)
        return 404, {"message": "Not Found"}

    def _id(self) -> int:
        self._last += 1
        return self._last

    def _list_comments(self, number: str, **_: Any) -> tuple[int, Any]:
        return 200, [each for each in self.comments.values() if each["number"] == int(number)]

    def _add_comment(self, number: str, *, body: Any, **_: Any) -> tuple[int, Any]:
        if len(body["body"]) > MOST_CHARACTERS:
            return 422, {"message": "Validation Failed"}
        made = {"id": self._id(), "number": int(number), "body": body["body"], "user": {"login": AUTHOR}}
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
        made = {**body, "id": self._id(), "app": {"slug": "github-actions"}, "html_url": "", "started_at": ""}
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

    def _handler(fake) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(self) -> None:
                parts = urlsplit(self.path)
                path = parts.path.removeprefix(f"/api/v3/repos/{REPOSITORY}")
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                word = f"{self.command} {path}"
                fake.requests.append(word)
                headers: dict[str, str] = {}
                below = parts.path.removeprefix("/api/v3")
                fake.violations += violations(self.command, below, query, body)
                status, value = fake._refusal(word, headers) or fake.answer(self.command, path, query, body)
                value = self._page(value, query, headers)
                raw = (json.dumps(value) if fake.faults.text is None else fake.faults.text).encode()
                self.send_response(status)
                for name, text in {**headers, "Content-Length": str(len(raw))}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(raw)

            def _page(self, value: Any, query: dict[str, str], headers: dict[str, str]) -> Any:
                items = value.get("check_runs") if isinstance(value, dict) else value
                if not isinstance(items, list):
                    return value
                page, size = int(query.get("page", 1)), min(int(query.get("per_page", 30)), fake.faults.page)
                if len(items) > page * size:
                    base = self.path.partition("&page=")[0]
                    root = fake.url.removesuffix("/api/v3")
                    headers["Link"] = f'<{root}{base}&page={page + 1}>; rel="next"'
                part = items[(page - 1) * size : page * size]
                return {**value, "check_runs": part} if isinstance(value, dict) else part

            do_GET = do_POST = do_PATCH = handle_request

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _refusal(self, word: str, headers: dict[str, str]) -> tuple[int, Any] | None:
        if any(re.search(pattern, word) for pattern in self.faults.forbidden):
            return 403, {"message": "Resource not accessible by integration"}
        for pattern, codes in self.faults.answers.items():
            if codes and re.search(pattern, word):
                if self.faults.retry_after is not None:
                    headers["Retry-After"] = str(self.faults.retry_after)
                return codes.pop(0), {"message": self.faults.message}
        return None
