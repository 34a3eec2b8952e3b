"""`ci doctor` names each fault of a set-up, and reports no fault that is not there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.github.fake import FakeGitHub
from tests.github.repository import Repository
from tests.scenario import Scenario

JOB = """\
version: 1
name: train
roles: {main: {entrypoint: echo, args: [done], env: {KEY: {secret: env:DOCTOR_KEY}}}}
"""
SHARED = """\
version: 1
name: shared
workspace: .
scheduler: local_dir
roles: {main: {image: /usr, entrypoint: bin/true}}
"""
BOXED = """\
version: 1
name: boxed
scheduler: local_docker
roles: {main: {image: "busybox:1", entrypoint: echo}}
"""
WORKFLOW = ".github/workflows/launcher.yml"


@pytest.fixture
def repo(
    tmp_path: Path, github: FakeGitHub, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> Repository:
    """A repository in order: its workflow is the one that init writes."""
    monkeypatch.setenv("DOCTOR_KEY", "s3cret")
    made = Repository(tmp_path, github, scenario.home)
    scenario.launcher("init", made.work, "--ci", "github")
    text = (made.work / WORKFLOW).read_text()
    pinned = "\n".join(
        "  LAUNCHER: launcher-jobs==0.1.0" if line.startswith("  LAUNCHER:") else line
        for line in text.splitlines()
    )
    made.push({WORKFLOW: pinned + "\n", "train.launcher.yaml": JOB})
    made.apply("--without-review", event="workflow_dispatch")
    return made


def states(repo: Repository, code: int | None = None) -> dict[str, str]:
    found = json.loads(repo.doctor("--format", "json", code=code))
    return {each["subject"]: each["state"] for each in found if each["state"] != "ok"}


def edited(old: str, new: str) -> Callable[[Repository], object]:
    def edit(repo: Repository) -> object:
        text = (repo.work / WORKFLOW).read_text()
        assert old in text
        return repo.push({WORKFLOW: text.replace(old, new)})

    return edit


def test_doctor_finds_nothing_missing_in_a_complete_set_up(repo: Repository) -> None:
    assert states(repo, code=0) == {}
    assert "s3cret" not in repo.doctor()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "subject"),
    [
        (edited("checks: write, ", ""), "permissions"),
        (edited(", pull-requests: write", ""), "permissions"),
        (edited("queue: max, ", ""), "concurrency"),
        (
            edited("queue: max, cancel-in-progress: false", "queue: max, cancel-in-progress: true"),
            "concurrency",
        ),
        (edited("launcher-jobs==0.1.0", "launcher-jobs"), "version"),
        (lambda repo: repo.push({WORKFLOW: None}), "workflow"),
        (lambda repo: repo.push({"shared.launcher.yaml": SHARED}), "branch"),
    ],
    ids=["checks", "comments", "queue", "cancels", "version", "workflow", "shared tree"],
)
def test_doctor_names_a_broken_job_file(
    repo: Repository, broken: Callable[[Repository], object], subject: str
) -> None:
    broken(repo)
    assert states(repo, code=1) == {subject: "missing"}


@pytest.mark.slow
def test_doctor_names_a_missing_secret(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCTOR_KEY")
    assert states(repo, code=1) == {"secrets": "missing"}
    assert "not here: DOCTOR_KEY" in repo.doctor(code=1)


@pytest.mark.slow
def test_doctor_names_a_missing_key_of_a_receiver(repo: Repository) -> None:
    receiver = '[notify]\nurl = "https://example.com/hook"\nsecret = "env:HOOK_KEY"\n'
    repo.push({"launcher.toml": receiver})
    assert "not here: HOOK_KEY" in repo.doctor(code=1)


@pytest.mark.slow
def test_doctor_names_an_empty_ledger(repo: Repository, tmp_path: Path) -> None:
    repo.home = tmp_path / "other-home"
    assert states(repo, code=1) == {"ledger": "missing"}


@pytest.mark.slow
def test_doctor_names_an_engine_that_does_not_answer(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    repo.push({"boxed.launcher.yaml": BOXED})
    found = json.loads(repo.doctor("--format", "json", code=1))
    assert "engine local_docker" in [each["subject"] for each in found if each["state"] == "missing"]


@pytest.mark.slow
def test_doctor_names_a_token_without_read_permissions(repo: Repository, github: FakeGitHub) -> None:
    github.faults.forbidden = ["GET"]
    assert states(repo, code=1) == {"token": "missing"}
    assert "`checks: read`" in repo.doctor(code=1)


@pytest.mark.slow
def test_doctor_names_a_shallow_clone(repo: Repository) -> None:
    repo.depth = 1
    assert states(repo, code=1) == {"clone": "missing"}


@pytest.mark.slow
def test_doctor_accepts_a_merge_queue_for_job_files_that_share_a_tree(
    repo: Repository, github: FakeGitHub
) -> None:
    repo.push({"shared.launcher.yaml": SHARED})
    assert states(repo, code=1) == {"branch": "missing"}
    github.rules = [{"type": "merge_queue", "parameters": {}}]
    assert states(repo, code=0) == {}
    github.faults.forbidden = ["GET /rules"]
    assert states(repo, code=0) == {"branch": "unknown"}


@pytest.mark.slow
def test_doctor_outside_of_a_runner_names_the_missing_variable(scenario: Scenario) -> None:
    shown = scenario.launcher("ci", "doctor", code=1).err
    assert "neither GITHUB_ACTIONS nor GITLAB_CI is set" in shown
    assert "launcher init --ci github" in shown
