"""A client of GitLab's REST API: merge requests, their notes, and checks that lie in the artifacts of jobs.

A job writes its checks into one file, which GitLab keeps as its artifact. The checks of a merge request are
found by its ref, those of an apply by the deployment that GitLab records for the job.

https://docs.gitlab.com/api/rest/ (version 4), https://docs.gitlab.com/ci/jobs/ci_job_token/
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from launcher.ci.forge import Api, Check, CheckRun, ForgeComment, ForgeError, HttpRefusal, Pull, Words
from launcher.ci.runner import CiRunner
from launcher.files import read_regular, write_whole

TOKEN: Final = "LAUNCHER_GITLAB_TOKEN"
"""The variable of the access token that may comment."""
ENVIRONMENT: Final = "launcher"
"""The environment of the job that applies."""
FILE: Final = "launcher-ci/checks.json"
PLAN_JOB: Final = "launcher plan"
APPLY_JOB: Final = "launcher apply"
_KINDS: Final = ("head", "merge", "train")
"""The refs of a merge request: its head, its merge with the target, its place in a merge train."""
HINT: Final = f"add a project access token with the role Reporter and the scope api as the variable {TOKEN}"
_MOST_ITEMS: Final = 1000
_TRIES = 4
_PAUSE_S = 2.0


class GitLabError(ForgeError):
    """GitLab refused a request, or did not answer."""

    code = "gitlab"


class GitLab(Api):
    """The API of one project.

    Reads use the token of the job, and the own token if GitLab refuses the first; writes use the own token.
    """

    error = GitLabError
    name = "GitLab"
    words = Words("merge request", "!", "run a pipeline by hand, in which LAUNCHER_DIGEST is the digest")

    def __init__(self, runner: CiRunner, *, sleep: Callable[[float], None] = time.sleep) -> None:
        url = runner.api_url.rstrip("/")
        super().__init__(url, f"{url}/projects/{runner.repository}", sleep=sleep)
        self._runner, self._own = runner, runner.own_token
        self._reads_as_own = not runner.token
        self._written: list[dict[str, Any]] = []
        self._artifacts: dict[str, list[CheckRun]] = {}

    def comments(self, number: int) -> list[ForgeComment]:
        """The notes of the own token's user on a merge request, the oldest first."""
        user = self._user
        notes = self._list(f"/merge_requests/{number}/notes?sort=asc&order_by=created_at")
        own = (each for each in notes if (each.get("author") or {}).get("id") == user)
        return [self._made(_comment, each) for each in own]

    def add_comment(self, number: int, body: str) -> ForgeComment:
        return self._write("POST", f"/merge_requests/{number}/notes", body)

    def edit_comment(self, number: int, comment_id: int, body: str) -> bool:
        """Replace the text of a note; False where it is gone."""
        path = f"/merge_requests/{number}/notes/{comment_id}"
        return self._if_there(lambda: self._write("PUT", path, body)) is not None

    def check_runs(self, sha: str) -> list[CheckRun]:
        """The checks that applies of a commit have left, the newest first."""
        jobs = [job for job, commit in self._applies if commit == sha]
        found = [check for job in jobs for check in self._artifact(f"/jobs/{job}/artifacts/{FILE}")]
        return [each for each in found if each.sha == sha]

    def checks_of(self, pull: Pull) -> list[CheckRun]:
        """The checks that pipelines of a merge request have left for its head, the newest first."""
        job = urlencode({"job": PLAN_JOB})
        refs = [quote(f"refs/merge-requests/{pull.number}/{kind}", safe="") for kind in _KINDS]
        found = [check for ref in refs for check in self._artifact(f"/jobs/artifacts/{ref}/raw/{FILE}?{job}")]
        own = [each for each in found if each.sha == pull.head_sha]
        return sorted(own, key=lambda each: each.id, reverse=True)

    def add_check(self, check: Check, *, sha: str) -> None:
        """Keep a check for `finish`: a file that is written now would change the workspaces of later jobs."""
        self._written.append({**check._asdict(), "sha": sha, "id": self._runner.job_id})

    def finish(self) -> None:
        """Write the checks into the file that GitLab keeps, with those of earlier steps of this job."""
        if not self._written:
            return
        name = os.path.basename(FILE)
        kept: list[dict[str, Any]] = []
        scopes = {_scope_in(each) for each in self._written}
        with suppress(OSError, ValueError, KeyError, TypeError):  # in the first step
            earlier = json.loads(read_regular(os.path.join(self._runner.artifacts, name)))["checks"]
            own = [each for each in earlier if each["id"] == self._runner.job_id]
            kept = [each for each in own if _scope_in(each) not in scopes]
        self.keep(name, json.dumps({"checks": [*kept, *self._written]}, indent=1))

    def keep(self, name: str, text: str) -> None:
        """Write a file that GitLab keeps as an artifact."""
        path = os.path.join(self._runner.artifacts, name)
        try:
            os.makedirs(self._runner.artifacts, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            raise GitLabError(f"cannot write {path}: {error.strerror or error}") from error

    def pulls_of(self, sha: str) -> list[Pull]:
        """Return the merge requests that a commit belongs to. Waits for a merge that is under way."""
        for tried in range(_TRIES):
            found = self._list(f"/repository/commits/{quote(sha)}/merge_requests")
            if not any(each.get("state") == "locked" for each in found):
                break
            self._sleep(_PAUSE_S * 2**tried)
        return [self._made(_pull, each) for each in found]

    def number_in(self, subject: str) -> None:
        """Return None: GitLab knows the merge request of a commit at once, so its subject is not read."""

    def pull(self, number: int) -> Pull | None:
        """A merge request; None where there is none of that number."""
        return self._if_there(lambda: self._made(_pull, self.get(f"/merge_requests/{number}")))

    def get(self, path: str) -> Any:
        """Return the JSON at a path below the project."""
        return self._read(lambda: self._request("GET", self._base + path)[0])

    def token(self) -> Mapping[str, Any]:
        """The facts of the own token: `scopes`, `expires_at`, `active`."""
        if not self._own:
            raise self._lacking("comment")
        return dict(self._request("GET", f"{self._api}/personal_access_tokens/self")[0])

    def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The headers of a request, with one of the tokens."""
        if method != "GET" or self._reads_as_own or not url.startswith(self._base):
            return {"PRIVATE-TOKEN": self._own} if self._own else {}
        return {"JOB-TOKEN": self._runner.token}

    def refused(self, refusal: HttpRefusal, method: str, url: str) -> GitLabError | None:
        """The error for a refusal, with the token that is missing; None for another reason.

        GitLab hides a project from a token: `404 Project Not Found`.
        """
        is_hidden = refusal.status == 404 and "project" in refusal.message.lower()
        if not (is_hidden or refusal.status in (401, 403)) or refusal.is_limit:
            return None
        said = f"({refusal.status} {refusal.message[:200]})"
        if "JOB-TOKEN" in self.headers(method, url):
            return self._lacking(f"{method.lower()} {urlsplit(url).path}", said, status=refusal.status)
        words = f"{TOKEN} may not {method.lower()} {urlsplit(url).path} {said}"
        return GitLabError(words, status=refusal.status, permission="api", hint=HINT)

    def _lacking(self, what: str, said: str = "", *, status: int = 0) -> GitLabError:
        words = f"{TOKEN} is not set, and the token of the job may not {what} {said}".rstrip()
        return GitLabError(words, status=status, permission=TOKEN, hint=HINT)

    def _read(self, ask: Callable[[], Any]) -> Any:
        """Ask with the token of the job, and again with the own token if GitLab refuses it."""
        try:
            return ask()
        except GitLabError as error:
            if error.permission != TOKEN or not self._own:
                raise
            self._reads_as_own = True
            return ask()

    def _list(self, path: str) -> list[dict[str, Any]]:
        return list(self._read(lambda: list(islice(self._pages(path, dict), _MOST_ITEMS))))

    def _write(self, method: str, path: str, body: str) -> ForgeComment:
        """Send a note. GitLab obeys lines such as `/merge`, unless a blank is before the slash."""
        if not self._own:
            raise self._lacking("comment")
        text = re.sub(r"^/", " /", body, flags=re.MULTILINE)
        return self._send(method, path, _comment, {"body": text})

    @cached_property
    def _user(self) -> int:
        """The id of the user whom the own token belongs to."""
        if not self._own:
            raise self._lacking("comment")
        return int(self._request("GET", f"{self._api}/user")[0]["id"])

    @cached_property
    def _applies(self) -> list[tuple[int, str]]:
        """Yield the jobs that have applied the default branch, the newest first, and their commits.

        A deployment that a user has made has no job.
        """
        path = f"/deployments?environment={ENVIRONMENT}&order_by=id&sort=desc"
        jobs = ((each, each.get("deployable") or {}) for each in self._list(path))
        return [
            (job["id"], each["sha"])
            for each, job in jobs
            if job.get("name") == APPLY_JOB
            and (job.get("ref"), job.get("tag")) == (self._runner.default_branch, False)
            and job["id"] != self._runner.job_id
        ]

    def _artifact(self, path: str) -> list[CheckRun]:
        """The checks of an artifact; empty where it has expired, or was never written."""
        if path not in self._artifacts:
            self._artifacts[path] = list(_check_runs(self._if_there(lambda: self.get(path))))
        return self._artifacts[path]


def _scope_in(check: Mapping[str, Any]) -> str:
    """Return the beginning of a check's name, up to its target: a step replaces all parts of a list."""
    return str(check["name"].partition(")")[0])


def _check_runs(value: Any) -> Iterator[CheckRun]:
    """The checks of an artifact. A branch may change its pipeline, and with it what an artifact holds."""
    checks = value.get("checks") if isinstance(value, dict) else None
    texts = ("name", "sha", "conclusion", "title", "summary", "text", "external_id")
    for each in checks if isinstance(checks, list) else ():
        if isinstance(each, dict) and isinstance(each.get("id"), int):
            yield CheckRun(id=each["id"], **{name: str(each.get(name) or "") for name in texts})


def _comment(value: Mapping[str, Any]) -> ForgeComment:
    return ForgeComment(value["id"], value.get("body") or "")


def _pull(value: Mapping[str, Any]) -> Pull:
    head = value.get("sha") or ""
    return Pull(
        number=value["iid"],
        head_sha=head,
        base_ref=value.get("target_branch") or "",
        merged=value.get("state") == "merged",
        # After a fast-forward, the head itself is on the branch.
        merge_commit_sha=value.get("merge_commit_sha") or value.get("squash_commit_sha") or head,
    )
