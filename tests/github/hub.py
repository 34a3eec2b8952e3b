"""A repository on GitHub as its users see it: branches, pull requests, merges, and the runs that they start."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.github.workflow import Event, Ran, Runner, git

REPOSITORY = "us/jobs"


@dataclass
class Pull:
    """A pull request."""

    number: int
    branch: str
    title: str
    head: str = ""
    merged_as: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """As the API and the payloads of events describe it."""
        return {
            "number": self.number,
            "title": self.title,
            "user": {"login": "author"},
            "html_url": f"https://github.com/{REPOSITORY}/pull/{self.number}",
            "head": {"sha": self.head, "ref": self.branch, "repo": {"full_name": REPOSITORY, "fork": False}},
            "base": {"ref": "main", "repo": {"full_name": REPOSITORY}},
            "merged_at": "2026-11-24T00:00:00Z" if self.merged_as else None,
            "merge_commit_sha": self.merged_as or None,
        }


@dataclass
class Records:
    """What the API keeps: comments by pull request, check runs, pull requests."""

    comments: dict[int, dict[int, str]] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    pulls: dict[int, Pull] = field(default_factory=dict)
    last_id: int = 0

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any]) -> Any:
        """The answer to a request below /repos/OWNER/NAME; None for 404."""
        routes = {
            r"GET /commits/(\w+)/check-runs": lambda sha: self._checks_of(sha, query.get("check_name", "")),
            r"POST /check-runs": lambda: self._add_check(body),
            r"GET /commits/(\w+)/pulls": lambda sha: self._pulls_of(sha),
            r"GET /pulls/(\d+)": lambda number: self.pulls[int(number)].data,
            r"GET /issues/(\d+)/comments": lambda number: self._comments_of(int(number)),
            r"POST /issues/(\d+)/comments": lambda number: self._write(int(number), self.next_id(), body["body"]),
            r"PATCH /issues/comments/(\d+)": lambda each: self._write(
                next(number for number, found in self.comments.items() if int(each) in found), int(each), body["body"]
            ),
        }
        for route, act in routes.items():
            if found := re.fullmatch(route, f"{method} {path}"):
                return act(*found.groups())
        return None

    def _checks_of(self, sha: str, name: str) -> dict[str, Any]:
        found = [each for each in self.checks if each["head_sha"] == sha and name in ("", each["name"])]
        return {"total_count": len(found), "check_runs": found}

    def _add_check(self, body: Mapping[str, Any]) -> dict[str, Any]:
        made = {**body, "id": self.next_id(), "app": {"slug": "github-actions"}}
        self.checks.append(made)
        return made

    def _pulls_of(self, sha: str) -> list[dict[str, Any]]:
        return [pull.data for pull in self.pulls.values() if sha in (pull.head, pull.merged_as)]

    def _comments_of(self, number: int) -> list[dict[str, Any]]:
        return [{"id": key, "body": text} for key, text in self.comments.get(number, {}).items()]

    def _write(self, number: int, key: int, text: str) -> dict[str, Any]:
        self.comments.setdefault(number, {})[key] = text
        return {"id": key, "body": text}


class Hub:
    """The repository, its API, and the runner that its events go to."""

    def __init__(self, folder: Path, api_url: str, records: Records) -> None:
        self.records = records
        self.remote, self.clone = folder / "hub" / "jobs.git", folder / "author"
        self.remote.mkdir(parents=True)
        git(self.remote, "init", "-q", "--bare", "-b", "main")
        git(folder, "clone", "-q", str(self.remote), "author")
        for name, value in {"user.name": "author", "user.email": "author@example.org"}.items():
            git(self.clone, "config", name, value)
            git(self.remote, "config", name, value)
        git(self.clone, "commit", "-q", "--allow-empty", "-m", "Create the repository")
        git(self.clone, "push", "-q", "origin", "HEAD:main")
        git(self.clone, "branch", "-q", "-M", "main")
        self.runner = Runner(folder / "runner", self.remote, repository=REPOSITORY, api_url=api_url)

    # what authors do

    def push(self, files: Mapping[str, str | None] = {}, message: str = "Change", *, runs: bool = True) -> Ran | None:
        """Commit on main and push, as who may."""
        git(self.clone, "checkout", "-q", "main")
        self._commit(files, message)
        return self._land(runs=runs)

    def open(self, files: Mapping[str, str | None], title: str) -> tuple[Pull, Ran]:
        """Open a pull request, and run its plan."""
        number = self.records.next_id()
        pull = self.records.pulls[number] = Pull(number, f"change-{number}", title)
        git(self.clone, "checkout", "-q", "-b", pull.branch, "main")
        return pull, self.update(pull, files)

    def update(self, pull: Pull, files: Mapping[str, str | None] = {}) -> Ran:
        """Push to a pull request, or only bring its merge commit up to date, and run its plan."""
        git(self.clone, "checkout", "-q", pull.branch)
        if files:
            self._commit(files, pull.title)
        git(self.clone, "push", "-q", "origin", pull.branch)
        pull.head = self._sha(pull.branch)
        base = self._sha("main")
        tree = git(self.remote, "merge-tree", "--write-tree", "main", pull.branch).split()[0]
        message = f"Merge {pull.head} into {base}"
        sha = git(self.remote, "commit-tree", tree, "-p", "main", "-p", pull.branch, "-m", message).strip()
        git(self.remote, "update-ref", f"refs/pull/{pull.number}/merge", sha)
        payload = {"action": "synchronize", "number": pull.number, "pull_request": pull.data, **_OF_REPOSITORY}
        payload["pull_request"]["base"]["sha"] = base
        return self.runner.run(Event("pull_request", f"refs/pull/{pull.number}/merge", sha, payload))["plan"]

    def merge(self, pull: Pull, *, squash: bool = False, runs: bool = True) -> Ran | None:
        """Merge a pull request, and run the workflow on the new commit, unless that run is evicted."""
        git(self.clone, "checkout", "-q", "main")
        if squash:
            git(self.clone, "merge", "-q", "--squash", pull.branch)
            git(self.clone, "commit", "-q", "-m", f"{pull.title} (#{pull.number})")
        else:
            message = f"Merge pull request #{pull.number} from us/{pull.branch}"
            git(self.clone, "merge", "-q", "--no-ff", "-m", message, pull.branch)
        pull.merged_as = git(self.clone, "rev-parse", "HEAD").strip()
        return self._land(runs=runs)

    def dispatch(self, digest: str) -> Ran:
        """Run the workflow by hand on main."""
        payload = {"inputs": {"digest": digest}, "ref": "refs/heads/main", **_OF_REPOSITORY}
        return self.runner.run(Event("workflow_dispatch", "refs/heads/main", self._sha("main"), payload))["apply"]

    def tick(self) -> Ran:
        """Run the workflow on its schedule."""
        return self.runner.run(Event("schedule", "refs/heads/main", self._sha("main"), {"schedule": "* * * * *"}))["apply"]

    # what they see

    def comment(self, pull: Pull) -> str:
        """The text of the only comment on a pull request."""
        (text,) = self.records.comments[pull.number].values()
        return text

    def applied(self, sha: str = "") -> list[str]:
        """The conclusions of the applies of a commit, of main's newest without one."""
        sha = sha or self._sha("main")
        checks = [each for each in self.records.checks if each["head_sha"] == sha]
        return [each["conclusion"] for each in checks if each["name"].startswith("launcher apply")]

    def _commit(self, files: Mapping[str, str | None], message: str) -> None:
        for name, text in files.items():
            path = self.clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text) if text is not None else path.unlink()
        git(self.clone, "add", "-A")
        git(self.clone, "commit", "-q", "-m", message)

    def _land(self, *, runs: bool) -> Ran | None:
        before = self._sha("main")
        git(self.clone, "push", "-q", "origin", "main")
        payload = {"ref": "refs/heads/main", "before": before, "after": self._sha("main"), **_OF_REPOSITORY}
        event = Event("push", "refs/heads/main", self._sha("main"), payload)
        return self.runner.run(event)["apply"] if runs else None

    def _sha(self, branch: str) -> str:
        return git(self.remote, "rev-parse", branch).strip()


_OF_REPOSITORY = {"repository": {"full_name": REPOSITORY, "default_branch": "main", "private": True}}


@contextmanager
def hub(folder: Path) -> Iterator[Hub]:
    """A repository whose API is served on loopback."""
    records = Records()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            url = urlsplit(self.path)
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            found = records.answer(self.command, url.path.removeprefix(f"/repos/{REPOSITORY}"), query, body)
            data = json.dumps({"message": "Not Found"} if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = answer

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Hub(folder, f"http://127.0.0.1:{server.server_port}", records)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
