"""A GitLab for tests: a real HTTP server on loopback with notes, merge requests, deployments, artifacts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.github.server import FakeServer
from tests.gitlab.description import operation, violations

PROJECT = 42
JOB_TOKEN = "glcbt-64_job-token"
OWN_TOKEN = "glpat-own-token"
BOT, USER = 7, 8
"""The users of the own token, and of someone else."""
MOST_CHARACTERS = 1_000_000


@dataclass
class Job:
    """A job: where it runs, and the files that it has left.

    Attributes:
        is_latest: its pipeline is the latest successful one of its ref.
    """

    id: int
    name: str
    ref: str
    is_latest: bool = False
    files: dict[str, bytes] = field(default_factory=dict)


class FakeGitLab(FakeServer):
    """One private project.

    Attributes:
        own_token: the access token that exists; "" for none.
        is_paid: the tier is Premium, in which the token of a job may read artifacts.
    """

    root = "/api/v4"
    repository = f"/projects/{PROJECT}"
    forbidden = "403 Forbidden"

    def __init__(self) -> None:
        super().__init__()
        self.own_token, self.is_paid = OWN_TOKEN, True
        self.scopes = ["api"]
        self.notes: dict[int, dict[str, Any]] = {}
        self.pulls: dict[int, dict[str, Any]] = {}
        self.commits: dict[str, list[int]] = {}
        self.deployments: list[dict[str, Any]] = []
        self.jobs: dict[int, Job] = {}
        self.schedules: list[dict[str, Any]] = [{"id": 1, "active": True}]
        self.groups = {"launcher-apply": {"key": "launcher-apply", "process_mode": "oldest_first"}}
        self.project: dict[str, Any] = {"id": PROJECT, "merge_method": "merge", "merge_trains_enabled": False}

    def open_pull(self, number: int, head: str, *, base: str = "main") -> None:
        """Open a merge request, or push to its branch."""
        self.pulls[number] = {
            "iid": number, "sha": head, "target_branch": base, "state": "opened", "merge_commit_sha": None,
            "squash_commit_sha": None,
        }  # fmt: skip

    def merge_pull(self, number: int, commit: str, *, way: str = "merge_commit_sha") -> None:
        """Merge by a merge commit, by a squash (`squash_commit_sha`), or by moving the branch (`sha`)."""
        self.pulls[number] |= {"state": "merged", way: commit}
        self.commits.setdefault(commit, []).append(number)

    def begin(self, name: str, ref: str, sha: str = "", *, environment: str = "") -> Job:
        """Begin a job, the only one of its pipeline. With an environment it is recorded as a deployment."""
        job = Job(self._id(), name, ref)
        self.jobs[job.id] = job
        if environment:
            self.deployments.append(
                {"id": self._id(), "environment": {"name": environment}, "sha": sha, "ref": ref,
                    "deployable": {"id": job.id, "name": job.name, "ref": job.ref, "tag": False}}
            )  # fmt: skip
        return job

    def end(self, job: Job, files: dict[str, bytes], *, succeeded: bool = True) -> None:
        """End a job and its pipeline."""
        for each in self.jobs.values() if succeeded else ():
            each.is_latest = each.is_latest and each.ref != job.ref
        job.is_latest, job.files = succeeded, files

    def bodies(self, number: int) -> list[str]:
        """Return the notes of a merge request."""
        return [each["body"] for each in self.notes.values() if each["iid"] == number]

    def conclusions(self, name: str) -> dict[str, str]:
        """Return the conclusion of the newest check of a name, by commit."""
        files = [job.files.get("launcher-ci/checks.json") for job in self.jobs.values()]
        checks = [check for file in files if file for check in json.loads(file)["checks"]]
        return {each["sha"]: each["conclusion"] for each in checks if each["name"] == name}

    def faults_of(self, method: str, path: str, query: dict[str, str], body: Any) -> Iterator[str]:
        return violations(method, path, query, body)

    def unauthorized(self, headers: Any, method: str, path: str) -> tuple[int, Any] | None:
        """Return the answer by which GitLab hides a private project from a token without rights."""
        if self.own_token and headers.get("PRIVATE-TOKEN") == self.own_token:
            return None
        found = operation(method, path)
        by_job = found is not None and found.by_job and headers.get("JOB-TOKEN") == JOB_TOKEN
        if by_job and (self.is_paid or "/artifacts/" not in path):
            return None
        if path.startswith(self.repository) and method == "GET":
            return 404, {"message": "404 Project Not Found"}
        return 401, {"message": "401 Unauthorized"}

    def routes(self) -> list[tuple[str, Callable[..., tuple[int, Any]]]]:
        return [
            (r"GET ", lambda **_: (200, dict(self.project))),
            (r"GET /merge_requests/(\d+)/notes", self._list_notes),
            (r"POST /merge_requests/(\d+)/notes", self._add_note),
            (r"PUT /merge_requests/\d+/notes/(\d+)", self._edit_note),
            (r"GET /merge_requests/(\d+)", self._merge_request),
            (r"GET /repository/commits/([0-9a-f]+)/merge_requests", self._pulls_of),
            (r"GET /deployments", self._list_deployments),
            (r"GET /jobs/(\d+)/artifacts/(.+)", self._file_of_job),
            (r"GET /jobs/artifacts/([^/]+)/raw/(.+)", self._file_of_ref),
            (r"GET /resource_groups/(.+)", lambda key, **_: (200, dict(self.groups[unquote(key)]))),
            (r"GET /pipeline_schedules", lambda **_: (200, self.schedules)),
            (r"GET /personal_access_tokens/self", lambda **_: (200, {"scopes": self.scopes, "active": True})),
            (r"GET /user", lambda **_: (200, {"id": BOT, "username": "project_42_bot"})),
        ]

    def _list_notes(self, iid: str, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        found = [each for each in self.notes.values() if each["iid"] == int(iid)]
        return 200, found if query.get("sort") == "asc" else found[::-1]

    def _add_note(self, iid: str, *, body: Any, **_: Any) -> tuple[int, Any]:
        if len(body["body"]) > MOST_CHARACTERS:
            return 400, {"message": {"note": ["is too long (maximum is 1000000 characters)"]}}
        made = {
            "id": self._id(), "iid": int(iid), "body": body["body"], "author": {"id": BOT, "username": "bot"},
        }  # fmt: skip
        self.notes[made["id"]] = made
        return 201, dict(made)

    def _edit_note(self, note: str, *, body: Any, **_: Any) -> tuple[int, Any]:
        if int(note) not in self.notes:
            return 404, {"message": "404 Note Not Found"}
        self.notes[int(note)]["body"] = body["body"]
        return 200, dict(self.notes[int(note)])

    def _merge_request(self, iid: str, **_: Any) -> tuple[int, Any]:
        found = self.pulls.get(int(iid))
        return (200, dict(found)) if found else (404, {"message": "404 Not found"})

    def _pulls_of(self, sha: str, **_: Any) -> tuple[int, Any]:
        found = [self.pulls[number] for number in self.commits.get(sha, [])]
        if self.faults.unlinked.get(sha, 0):
            self.faults.unlinked[sha] -= 1
            return 200, [{**each, "state": "locked"} for each in found]
        return 200, found

    def _list_deployments(self, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        wanted = query.get("environment")
        found = [each for each in self.deployments if wanted in (None, each["environment"]["name"])]
        return 200, found[::-1] if query.get("sort") == "desc" else found

    def _file_of_job(self, job: str, path: str, **_: Any) -> tuple[int, Any]:
        found = self.jobs.get(int(job))
        return self._file(found, path)

    def _file_of_ref(self, ref: str, path: str, *, query: dict[str, str], **_: Any) -> tuple[int, Any]:
        """Return the file of the latest successful pipeline of a ref alone."""
        jobs = [job for job in self.jobs.values() if job.is_latest and job.ref == unquote(ref)]
        return self._file(next((job for job in jobs if job.name == query["job"]), None), path)

    @staticmethod
    def _file(job: Job | None, path: str) -> tuple[int, Any]:
        if job is None or path not in job.files:
            return 404, {"message": "404 Not found"}
        return 200, json.loads(job.files[path])
