"""A runner for the pipeline of `init --ci gitlab`, with the executor shell: checks out, and runs scripts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.forkserver import server
from tests.github.repository import git
from tests.github.workflow import Ran
from tests.gitlab.fake import JOB_TOKEN, PROJECT, FakeGitLab

INCLUDING = ".gitlab-ci.yml"
_KEYWORDS = ("include", "variables", "stages", "workflow", "default")


class Pipelines:
    """A machine of the project: its checkout, its tools and LAUNCHER_HOME stay from job to job.

    Attributes:
        secrets: the variables of the project.
    """

    def __init__(self, folder: Path, remote: Path, gitlab: FakeGitLab) -> None:
        self.remote, self.gitlab = remote, gitlab
        self.checkout = folder / "builds" / "acme" / "vision"
        keys = {name: folder / name for name in ("LAUNCHER_SSH_KEY", "LAUNCHER_KNOWN_HOSTS")}
        self.secrets = {"LAUNCHER_GITLAB_TOKEN": gitlab.own_token, **{name: str(keys[name]) for name in keys}}
        self.bin = folder / "bin"
        programs = {self.bin / "launcher": server().script(), self.bin / "pip": "#!/bin/sh\n"}
        for path, text in {**programs, **dict.fromkeys(keys.values(), "key\n")}.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    def installed(self, requirement: str) -> None:
        """Make launcher look as if a job of this pipeline had installed it."""
        name = subprocess.run(
            ["git", "hash-object", "--stdin"], input=requirement, capture_output=True, text=True, check=True
        ).stdout.strip()
        path = Path(os.environ["HOME"]) / "launcher-ci" / name / "bin" / "launcher"
        path.parent.mkdir(parents=True)
        path.write_text(server().script())
        path.chmod(0o755)

    def run(self, sha: str, ref: str, variables: Mapping[str, str]) -> dict[str, Ran]:
        """Run the jobs of the pipeline that a commit has, each with its artifacts and its deployment."""
        config = self._config(sha)
        known = {
            "CI_COMMIT_SHA": sha, "CI_DEFAULT_BRANCH": "main",
            **{name: _value(value) for name, value in config.get("variables", {}).items()}, **variables,
        }  # fmt: skip
        jobs = {
            name: extended(job, config)
            for name, job in config.items()
            if name not in _KEYWORDS and not name.startswith(".")
        }
        chosen = {name: job for name, job in jobs.items() if starts(job, known)}
        return {name: self._job(name, job, sha, ref, known) for name, job in chosen.items()}

    def _config(self, sha: str) -> dict[str, Any]:
        text = git(self.remote, "show", f"{sha}:{INCLUDING}")
        config = YAML(typ="safe", pure=True).load(text)
        for each in config.pop("include", []):
            text = git(self.remote, "show", f"{sha}:{each['local']}")
            config = {**YAML(typ="safe", pure=True).load(text), **config}
        return dict(config)

    def _job(self, name: str, job: dict[str, Any], sha: str, ref: str, known: Mapping[str, str]) -> Ran:
        self._check_out(sha)
        given = {key: _value(value) for key, value in job.get("variables", {}).items()}
        begun = self.gitlab.begin(name, ref, sha, environment=job.get("environment", ""))
        env = {
            **os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "CI": "true", "GITLAB_CI": "true",
            "CI_API_V4_URL": self.gitlab.url, "CI_JOB_ID": str(begun.id), "CI_JOB_TOKEN": JOB_TOKEN,
            "CI_JOB_URL": f"https://gitlab.invalid/acme/vision/-/jobs/{begun.id}",
            "CI_PROJECT_DIR": str(self.checkout),
            "CI_PROJECT_ID": str(PROJECT),
            "CI_PROJECT_URL": str(self.remote).removesuffix(".git"),
            "CI_PROJECT_VISIBILITY": "private",
            "CI_REPOSITORY_URL": f"https://gitlab-ci-token:{JOB_TOKEN}@gitlab.invalid/acme/vision.git",
            "CI_SHARED_ENVIRONMENT": "true",
            **self.secrets,
            **given,
            **known,
        }  # fmt: skip
        lines = "\n".join([*job.get("before_script", []), *job["script"]])
        got = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", lines], cwd=self.checkout,
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        assert "Traceback (most recent call last)" not in got.stdout, got.stdout
        assert JOB_TOKEN not in got.stdout
        assert self.gitlab.own_token not in got.stdout or not self.gitlab.own_token
        self.gitlab.end(begun, self._kept(job, got.returncode), succeeded=got.returncode == 0)
        page = begun.files.get("launcher-ci/plan.md", b"").decode()
        return Ran(name, ",".join(job.get("tags", [])), got.returncode, got.stdout, page)

    def _check_out(self, sha: str) -> None:
        """Check out as a runner does with `GIT_DEPTH: "0"`: every branch, and a commit alone."""
        if not (self.checkout / ".git").exists():
            self.checkout.mkdir(parents=True)
            git(self.checkout, "init", "-q", "-b", "none")
            git(self.checkout, "remote", "add", "origin", str(self.remote))
        git(self.checkout, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*", sha)
        git(self.checkout, "checkout", "-q", "--force", "--detach", sha)
        git(self.checkout, "clean", "-ffdxq")

    def _kept(self, job: Mapping[str, Any], code: int) -> dict[str, bytes]:
        artifacts = job.get("artifacts", {})
        if code and artifacts.get("when") != "always":
            return {}
        places = [self.checkout / path for path in artifacts.get("paths", [])]
        files = [path for place in places for path in place.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.checkout)): path.read_bytes() for path in files}


def starts(job: Mapping[str, Any], variables: Mapping[str, str]) -> bool:
    """Return whether one of the rules of a job adds it to a pipeline."""
    return any(_holds(rule["if"], variables) for rule in job["rules"])


def _holds(rule: str, variables: Mapping[str, str]) -> bool:
    return all(_is_true(part.strip(), variables) for part in rule.split("&&"))


def _is_true(part: str, variables: Mapping[str, str]) -> bool:
    left, sign, right = part.partition("==")
    value = variables.get(left.strip().removeprefix("$"))
    if not sign:
        return bool(value)
    other = right.strip()
    assert re.fullmatch(r'\$\w+|"[^"]*"', other), f"`{part}` is beyond this evaluator"
    return value == (other.strip('"') if other.startswith('"') else variables.get(other[1:]))


def extended(job: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job with what it extends; mappings are merged."""
    base = extended(config[job["extends"]], config) if "extends" in job else {}
    return _merged(base, job)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(below)
    for name, value in above.items():
        old = made.get(name)
        made[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return made


def _value(value: Any) -> str:
    return str(value["value"] if isinstance(value, dict) else value)
