"""A runner for the workflow of `init --ci github`: checks out, runs steps, and cleans up as GitHub's does.

`uses:` steps are acted out here; `run:` steps are run by bash with a runner's environment.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.forkserver import server
from tests.github.expressions import evaluate, interpolated
from tests.github.repository import git

FILE = ".github/workflows/launcher.yml"


@dataclass(frozen=True)
class Event:
    """One event of a repository.

    Attributes:
        name: `push`, `pull_request`, …
        ref: of the run, such as refs/heads/main or refs/pull/12/merge.
        sha: the commit that is checked out, and whose workflow file runs.
    """

    name: str
    ref: str
    sha: str
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """One job of a run.

    Attributes:
        code: of the first step that failed; 0 after a success.
        output: what its steps printed.
        summary: what they wrote into the summary of the run.
    """

    name: str
    runs_on: str
    code: int
    output: str
    summary: str


class Runner:
    """A self-hosted runner: its checkout, its tools and LAUNCHER_HOME stay from run to run."""

    def __init__(self, folder: Path, remote: Path, *, repository: str, api_url: str = "") -> None:
        self.folder, self.remote, self.repository, self.api_url = folder, remote, repository, api_url
        self.secrets: dict[str, str] = {}
        self.token = "ghs_token"
        self._runs = 0
        self.workspace = folder / "work" / "repo" / "repo"
        self.workspace.mkdir(parents=True)
        self.bin = folder / "bin"
        for name in ("launcher", "pip"):  # as installed already
            self._script(self.bin / name, name)

    def run(self, event: Event) -> dict[str, Ran]:
        """Run the jobs of the workflow that an event starts, by their keys in the file."""
        text = git(self.remote, "show", f"{event.sha}:{FILE}")
        workflow = YAML(typ="safe", pure=True).load(text)
        if not starts(workflow, event):
            return {}
        self._runs += 1
        done = {}
        for key, job in workflow["jobs"].items():
            contexts = self._contexts(event)
            if evaluate(str(job.get("if", "'true'")), contexts):
                done[key] = _Job(self, workflow, key, job, event, contexts).run()
        return done

    def installed(self, requirement: str) -> Path:
        """Make launcher look as if a run of this workflow had installed it."""
        name = subprocess.run(
            ["git", "hash-object", "--stdin"],
            input=f"{requirement}\n",
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        path = self.folder / "tools" / "launcher" / name / "bin" / "launcher"
        self._script(path, "launcher")
        return path

    @staticmethod
    def _script(path: Path, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(server().script() if name == "launcher" else "#!/bin/sh\n")
        path.chmod(0o755)

    def _contexts(self, event: Event) -> dict[str, Any]:
        github = {
            "event_name": event.name, "event": event.payload, "ref": event.ref, "sha": event.sha,
            "repository": self.repository, "token": self.token,
        }  # fmt: skip
        inputs = event.payload.get("inputs", {})
        return {"github": github, "inputs": inputs, "secrets": {**self.secrets, "GITHUB_TOKEN": self.token}}

    def environment(self, event: Event, key: str, tracking: str) -> dict[str, str]:
        """Return the environment of a step, without what the workflow adds."""
        files = self.folder / "files" / f"{self._runs}-{key}"
        files.mkdir(parents=True, exist_ok=True)
        (files / "event.json").write_text(json.dumps(event.payload))
        pull = event.payload.get("pull_request", {})
        return {
            **os.environ,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTOR": "someone",
            "GITHUB_API_URL": self.api_url,
            "GITHUB_BASE_REF": pull.get("base", {}).get("ref", ""),
            "GITHUB_EVENT_NAME": event.name,
            "GITHUB_EVENT_PATH": str(files / "event.json"),
            "GITHUB_HEAD_REF": pull.get("head", {}).get("ref", ""),
            "GITHUB_JOB": key,
            "GITHUB_OUTPUT": str(files / "output"),
            "GITHUB_PATH": str(files / "path"),
            "GITHUB_REF": event.ref,
            "GITHUB_REF_NAME": event.ref.removeprefix("refs/").partition("/")[2],
            "GITHUB_REPOSITORY": self.repository,
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": str(1000 + self._runs),
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_SHA": event.sha,
            "GITHUB_STEP_SUMMARY": str(files / "summary.md"),
            "GITHUB_WORKFLOW": "launcher",
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(files),
            "RUNNER_TOOL_CACHE": str(self.folder / "tools"),
            "RUNNER_TRACKING_ID": tracking,
        }


def starts(workflow: Mapping[str, Any], event: Event) -> bool:
    """Return whether an event starts a workflow."""
    triggers = workflow["on"]
    branches = (triggers.get(event.name) or {}).get("branches") if event.name == "push" else None
    return event.name in triggers and (not branches or event.ref in {f"refs/heads/{b}" for b in branches})


class _Job:
    """One job of a run."""

    def __init__(
        self,
        runner: Runner,
        workflow: Mapping[str, Any],
        key: str,
        job: Mapping[str, Any],
        event: Event,
        contexts: Mapping[str, Any],
    ) -> None:
        self.runner, self.job, self.event, self.contexts = runner, job, event, contexts
        self.name = interpolated(job.get("name", key), contexts)
        self.tracking = f"github_{uuid.uuid4()}"
        self.env = {
            **runner.environment(event, key, self.tracking),
            **interpolated(workflow.get("env", {}), contexts),
            **interpolated(job.get("env", {}), contexts),
        }
        self.output = ""

    def run(self) -> Ran:
        code = 0
        try:
            for step in self.job["steps"]:
                if code == 0 and evaluate(str(step.get("if", "'true'")), self.contexts):
                    code = self._use(step) if "uses" in step else self._shell(step)
        finally:
            self._end_orphans()
        summary = Path(self.env["GITHUB_STEP_SUMMARY"])
        text = summary.read_text() if summary.exists() else ""
        return Ran(self.name, interpolated(self.job["runs-on"], self.contexts), code, self.output, text)

    def _use(self, step: Mapping[str, Any]) -> int:
        name = step["uses"].partition("@")[0]
        if name == "actions/checkout":
            self._check_out(step.get("with", {}))
        else:
            assert name == "actions/setup-python", f"nothing acts out {name}"
        return 0

    def _check_out(self, options: Mapping[str, Any]) -> None:
        """Check out as actions/checkout does with `fetch-depth: 0`: a branch for a push, else a commit."""
        folder = self.runner.workspace / options.get("path", ".")
        assert options["fetch-depth"] == 0
        assert options["persist-credentials"] is False
        if not (folder / ".git").exists():
            folder.mkdir(parents=True, exist_ok=True)
            git(folder, "init", "-q", "-b", "none")
            git(folder, "remote", "add", "origin", str(self.runner.remote))
        elif options.get("clean", True):
            git(folder, "clean", "-ffdxq")
            git(folder, "reset", "-q", "--hard")
        git(folder, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*", self.event.sha)
        kind, _, branch = self.event.ref.removeprefix("refs/").partition("/")
        if kind == "heads":
            git(folder, "checkout", "-q", "--force", "-B", branch, self.event.sha)
        else:
            git(folder, "checkout", "-q", "--force", "--detach", self.event.sha)

    def _shell(self, step: Mapping[str, Any]) -> int:
        defaults = self.job.get("defaults", {}).get("run", {})
        env = {**self.env, **interpolated(step.get("env", {}), self.contexts)}
        added = Path(self.env["GITHUB_PATH"])
        for line in added.read_text().splitlines() if added.exists() else ():
            env["PATH"] = f"{line}:{env['PATH']}"
        got = subprocess.run(
            [
                "bash",
                "--noprofile",
                "--norc",
                "-e",
                "-o",
                "pipefail",
                "-c",
                interpolated(step["run"], self.contexts),
            ],
            cwd=self.runner.workspace / defaults.get("working-directory", "."),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        self.output += got.stdout
        assert "Traceback (most recent call last)" not in got.stdout, got.stdout
        return got.returncode

    def _end_orphans(self) -> None:
        """Kill what a step has left behind, as a runner does at the end of each job."""
        for pid in _processes_with(f"RUNNER_TRACKING_ID={self.tracking}"):
            os.kill(pid, signal.SIGKILL)


def _processes_with(variable: str) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()
        except OSError:
            continue
        if variable.encode() in environ.split(b"\0"):
            yield int(folder.name)
