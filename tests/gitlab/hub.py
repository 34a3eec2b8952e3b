"""A project whose merge requests and pushes start its own pipeline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.github import hub
from tests.github.repository import Repository, git
from tests.github.workflow import Ran
from tests.gitlab.fake import PROJECT, FakeGitLab
from tests.gitlab.pipeline import Pipelines


class Hub(hub.Hub):
    """Branches, merge requests and merges, in the words of the stories of GitHub."""

    github: Any
    runner: Any

    def __init__(self, folder: Path, gitlab: FakeGitLab) -> None:
        Repository.__init__(self, folder, gitlab, Path(os.environ["LAUNCHER_HOME"]))  # type: ignore[arg-type]
        self.runner = Pipelines(folder / "runner", self.remote, gitlab)

    def planned(self, number: int, *, code: int = 0, **more: str) -> Ran:
        """Run the pipeline of a merge request on the head of its branch."""
        head = self.commit(f"change-{number}")
        variables = {
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": git(self.remote, "merge-base", "main", head),
            "CI_MERGE_REQUEST_EVENT_TYPE": "detached", "CI_MERGE_REQUEST_IID": str(number),
            "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT), "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": f"change-{number}",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            **more,
        }  # fmt: skip
        return self._piped("launcher plan", head, f"refs/merge-requests/{number}/head", variables, code)

    def merge(self, number: int, *, squash: bool = True, forward: bool = False) -> str:
        """Merge a merge request: by a squash, by a merge commit, or by moving the branch forward."""
        if forward:
            commit = self._moved(number)
        else:
            commit = super().merge(number, squash=squash)
            self.github.pulls[number]["merge_commit_sha"] = None
            self.github.commits[commit].remove(number)
        way = "sha" if forward else "squash_commit_sha" if squash else "merge_commit_sha"
        self.github.merge_pull(number, commit, way=way)
        return commit

    def _moved(self, number: int) -> str:
        """Rebase a merge request onto main, plan its new head, and move main there."""
        branch = f"change-{number}"
        git(self.work, "rebase", "-q", "main", branch)
        git(self.work, "push", "-q", "--force", "origin", branch)
        self.github.open_pull(number, self.commit(branch))
        self.planned(number)
        git(self.work, "checkout", "-q", "main")
        git(self.work, "merge", "-q", "--ff-only", branch)
        git(self.work, "push", "-q", "origin", "main")
        return self.commit()

    def _ran(self, job: str, event: str, ref: str, sha: str, payload: Mapping[str, Any], code: int) -> Ran:
        source = {"workflow_dispatch": "web"}.get(event, event)
        variables = {"CI_PIPELINE_SOURCE": source, "CI_COMMIT_BRANCH": "main"}
        digest = payload.get("inputs", {}).get("digest", "")
        name = {"schedule": "report", "web": "apply" if digest else "doctor"}.get(source, "apply")
        return self._piped(
            f"launcher {name}", sha, ref.removeprefix("refs/heads/"),
            {**variables, **({"LAUNCHER_DIGEST": digest} if digest else {})}, code,
        )  # fmt: skip

    def _piped(self, job: str, sha: str, ref: str, variables: Mapping[str, str], code: int) -> Ran:
        done = self.runner.run(sha, ref, variables)
        assert [*done] == [job]
        assert done[job].code == code, done[job].output
        return done[job]
