"""A repository whose pull requests and pushes start the runs of its own workflow file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tests.github.fake import REPOSITORY, FakeGitHub
from tests.github.repository import Repository, git
from tests.github.workflow import Event, Ran, Runner

_OF_REPOSITORY = {"repository": {"full_name": REPOSITORY, "default_branch": "main", "private": True}}


class Hub(Repository):
    """Branches, pull requests and merges.

    Args:
        kind: of the runner. The self-hosted one keeps its state from run to run.
    """

    def __init__(self, folder: Path, github: FakeGitHub, kind: type[Runner] = Runner) -> None:
        super().__init__(folder, github, Path(os.environ["LAUNCHER_HOME"]))
        for name, value in {"user.name": "ann", "user.email": "ann@example.com"}.items():
            git(self.remote, "config", name, value)
        self.runner = kind(folder / "runner", self.remote, repository=REPOSITORY, api_url=github.url)

    def propose(self, number: int, files: Mapping[str, str | None], *, code: int = 0) -> Ran:
        """Open a pull request, or push to it again, and run its plan."""
        self.pull_request(number, dict(files))
        return self.planned(number, code=code)

    def planned(self, number: int, *, code: int = 0) -> Ran:
        """Run the plan of a pull request on its merge with main."""
        head = self.commit(f"change-{number}")
        sha = self._merged(number, f"Merge {head} into {self.commit()}", f"refs/pull/{number}/merge")
        pull = self.github.pulls[number]
        pull["head"] |= {"ref": f"change-{number}"}
        pull["base"] |= {"sha": self.commit()}
        payload = {"action": "synchronize", "number": number, "pull_request": pull}
        return self._ran("plan", "pull_request", f"refs/pull/{number}/merge", sha, payload, code)

    def queue(self, number: int, *, code: int = 0) -> Ran:
        """Put a pull request into the merge queue: plan the commit that lands, land it, and run the push."""
        ref = f"refs/heads/gh-readonly-queue/main/pr-{number}-{self.commit()}"
        sha = self._merged(number, f"Merge pull request #{number} from acme/change-{number}", ref)
        group = {"head_sha": sha, "head_ref": ref, "base_sha": self.commit(), "base_ref": "refs/heads/main"}
        payload = {"action": "checks_requested", "merge_group": group}
        self._ran("plan", "merge_group", ref, sha, payload, 0)
        git(self.remote, "update-ref", "refs/heads/main", sha)
        git(self.work, "pull", "-q", "--ff-only", "origin", "main")
        self.github.merge_pull(number, sha)
        return self.pushed(code=code)

    def land(self, number: int, *, squash: bool = True, code: int = 0) -> Ran:
        """Merge a pull request and run what the push to main starts."""
        self.merge(number, squash=squash)
        return self.pushed(code=code)

    def pushed(self, commit: str = "main", *, code: int = 0) -> Ran:
        """Run what the push of a commit starts, by default of main's newest one."""
        sha, payload = self.commit(commit), {"ref": "refs/heads/main"}
        return self._ran("apply", "push", "refs/heads/main", sha, payload, code)

    def dispatched(self, digest: str, *, code: int = 0) -> Ran:
        """Run the workflow by hand on main."""
        inputs = {"inputs": {"digest": digest}}
        return self._ran("apply", "workflow_dispatch", "refs/heads/main", self.commit(), inputs, code)

    def ticked(self, *, code: int = 0) -> Ran:
        """Run the workflow on its schedule."""
        payload = {"schedule": "*/15 * * * *"}
        return self._ran("apply", "schedule", "refs/heads/main", self.commit(), payload, code)

    def commit(self, branch: str = "main") -> str:
        """Return the newest commit of a branch of the remote."""
        return git(self.remote, "rev-parse", branch)

    def _merged(self, number: int, message: str, ref: str) -> str:
        """Make the merge of a pull request with main, as GitHub does, and return it."""
        branch = f"change-{number}"
        tree = git(self.remote, "merge-tree", "--write-tree", "main", branch).splitlines()[0]
        sha = git(self.remote, "commit-tree", tree, "-p", "main", "-p", branch, "-m", message)
        git(self.remote, "update-ref", ref, sha)
        return sha

    def _ran(self, job: str, event: str, ref: str, sha: str, payload: Mapping[str, object], code: int) -> Ran:
        done = self.runner.run(Event(event, ref, sha, {**_OF_REPOSITORY, **payload}))
        assert [*done] == [job]
        assert done[job].code == code, done[job].output
        return done[job]


def digest_in(text: str) -> str:
    """Return the one digest of a plan that a run has shown."""
    (digest,) = {*re.findall(r"lp3:sha256:[0-9a-f]{64}", text)}
    return digest
