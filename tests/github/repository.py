"""A repository of job files: a bare remote, pull requests on a fake GitHub, runs of its workflow."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.forkserver import launcher
from tests.github.fake import REPOSITORY, FakeGitHub

_WHO = ["-c", "user.name=ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"]


def git(folder: Path, *args: str) -> str:
    command = ["git", *_WHO, *args]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


class Repository:
    """Branches, pull requests, merges and workflow runs, each run in a fresh clone.

    Attributes:
        printed: the standard output of the last run.
    """

    def __init__(self, folder: Path, github: FakeGitHub, home: Path) -> None:
        self.github, self.home, self._folder = github, home, folder
        self.remote, self.work = folder / "remote.git", folder / "work"
        self._runs = 0
        self.depth = 0
        self.printed = ""
        git(folder, "init", "-q", "--bare", str(self.remote))
        git(folder, "clone", "-q", str(self.remote), str(self.work))
        git(self.work, "checkout", "-qb", "main")
        self.push({"README": "jobs"})

    def push(self, files: dict[str, str | None]) -> str:
        """Push files to main without a pull request, None for a file to remove; return the commit."""
        return self._commit("main", files, "a direct push")

    def pull_request(self, number: int, files: dict[str, str | None]) -> str:
        """Push a branch from main and open a pull request, or push to it again; return the head."""
        branch = f"change-{number}"
        exists = bool(git(self.work, "branch", "--list", branch))
        git(self.work, "checkout", "-q", *([] if exists else ["-b"]), branch)
        head = self._commit(branch, files, f"change {number}")
        git(self.work, "checkout", "-q", "main")
        self.github.open_pull(number, head)
        return head

    def merge(self, number: int, *, squash: bool = True) -> str:
        """Merge a pull request, as a squash or with a merge commit; return the commit on main."""
        git(self.work, "checkout", "-q", "main")
        if squash:
            git(self.work, "merge", "-q", "--squash", f"change-{number}")
            git(self.work, "commit", "-qm", f"change {number} (#{number})", "--allow-empty")
        else:
            title = f"Merge pull request #{number} from acme/change-{number}"
            git(self.work, "merge", "-q", "--no-ff", "-m", title, f"change-{number}")
        git(self.work, "push", "-q", "origin", "main")
        commit = git(self.work, "rev-parse", "HEAD")
        self.github.merge_pull(number, commit)
        return commit

    def plan(
        self,
        number: int,
        *args: str,
        at: str = "",
        into: str = "main",
        opened_on: str = "",
        code: int | None = 0,
    ) -> str:
        """Run `ci plan` as on a pull request: in a checkout of its merge with main.

        Args:
            at: an earlier head of it, whose run is repeated.
            into: another branch that it goes into.
            opened_on: an earlier commit of that branch, which the event still names.
        """
        head = at or git(self.work, "rev-parse", f"change-{number}")
        clone = self.clone(head)
        base = git(clone, "rev-parse", f"origin/{into}")
        git(clone, "merge", "-q", "--no-edit", base)
        pull = {
            "number": number,
            "head": {"sha": head, "repo": self.github.pulls[number]["head"]["repo"]},
            "base": {"sha": opened_on or base, "ref": into},
        }
        return self.run(clone, "pull_request", {"pull_request": pull}, ["plan", *args], code)

    def apply(self, *args: str, at: str = "main", event: str = "push", code: int | None = 0) -> str:
        """Run `ci apply` on a commit of main."""
        commit = git(self.work, "rev-parse", at)
        return self.run(self.clone(commit), event, {}, ["apply", *args], code)

    def propose(self, number: int, files: dict[str, str | None]) -> str:
        """Open a pull request, or push to it again, and plan it; returns what the plan printed."""
        self.pull_request(number, files)
        return self.plan(number)

    def land(self, number: int, files: dict[str, str | None]) -> None:
        """Open a pull request, plan, merge and apply it."""
        self.propose(number, files)
        self.merge(number)
        self.apply()

    def doctor(self, *args: str, code: int | None = None) -> str:
        """Run `ci doctor` on main; return its standard output."""
        clone = self.clone(git(self.work, "rev-parse", "main"))
        shown = self.run(clone, "push", {}, ["doctor", *args], code)
        assert self.printed, shown
        return self.printed

    def report(self, *args: str, private: bool = False) -> str:
        """Run `ci report` as on a schedule."""
        commit = git(self.work, "rev-parse", "main")
        payload = {"repository": {"default_branch": "main", "private": private}}
        return self.run(self.clone(commit), "schedule", payload, ["report", *args], 0)

    def _commit(self, branch: str, files: dict[str, str | None], message: str) -> str:
        for name, text in files.items():
            path = self.work / name
            if text is None:
                git(self.work, "rm", "-q", name)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            git(self.work, "add", name)
        git(self.work, "commit", "-qm", message, "--allow-empty")
        git(self.work, "push", "-q", "origin", branch)
        return git(self.work, "rev-parse", "HEAD")

    def clone(self, commit: str) -> Path:
        """Check a commit out in a new clone, as for a run."""
        self._runs += 1
        clone = self._folder / f"run-{self._runs}"
        if self.depth:  # as actions/checkout does with `fetch-depth`
            git(self._folder, "init", "-q", str(clone))
            git(clone, "remote", "add", "origin", f"file://{self.remote}")
            branch = f"+{commit}:refs/remotes/origin/main"
            git(clone, "fetch", "-q", f"--depth={self.depth}", "origin", branch)
        else:
            git(self._folder, "clone", "-q", str(self.remote), str(clone))
        git(clone, "checkout", "-q", "--detach", commit)
        for name, value in (("user.name", "ann"), ("user.email", "ann@example.com")):
            git(clone, "config", name, value)
        return clone

    def run(
        self, clone: Path, event: str, payload: dict[str, object], argv: list[str], code: int | None
    ) -> str:
        """Run a step of `launcher ci` in a clone; returns what it printed."""
        event_file = self._folder / f"event-{self._runs}.json"
        event_file.write_text(json.dumps({"repository": {"default_branch": "main"}, **payload}))
        env = {
            **os.environ, "LAUNCHER_HOME": str(self.home), "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": event, "GITHUB_EVENT_PATH": str(event_file), "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_SHA": git(clone, "rev-parse", "HEAD"), "GITHUB_API_URL": self.github.url,
            "GITHUB_SERVER_URL": "https://github.invalid", "GITHUB_RUN_ID": str(self._runs),
            "GITHUB_TOKEN": "token", "GITHUB_STEP_SUMMARY": str(self._folder / f"summary-{self._runs}.md"),
        }  # fmt: skip
        done = launcher(["ci", *argv], cwd=str(clone), environ=env)
        self.printed, shown = done.out, done.out + done.err
        assert code is None or done.code == code, f"exit {done.code}\n{shown}"
        return shown
