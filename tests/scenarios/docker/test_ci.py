"""Plan on the pull request and apply on merge with an engine that remembers: no run keeps a state folder."""

import shutil
from pathlib import Path

import pytest

from tests.docker_scenario import DockerScenario
from tests.engines.images import SHELL_IMAGE
from tests.github.fake import FakeGitHub
from tests.github.repository import Repository


class Forgetful(Repository):
    """Each run of the workflow begins with an empty state folder, as on a hosted runner."""

    def _clone(self, commit: str) -> Path:
        shutil.rmtree(self.home, ignore_errors=True)
        return super()._clone(commit)


@pytest.fixture
def repo(tmp_path: Path, github: FakeGitHub, scenario: DockerScenario) -> Repository:
    made = Forgetful(tmp_path, github, scenario.home)
    made.push({"launcher.toml": f'project = "{scenario.token}"\n[ci]\nprune = true\n'})
    made.push({"base.launcher.yaml": job("base")})
    made.apply("--without-review", event="workflow_dispatch")
    return made


def job(name: str, script: str = "true") -> str:
    return (
        f"version: 1\nname: {name}\nscheduler: local_docker\n"
        f"roles: {{main: {{image: '{SHELL_IMAGE}', run: {script}}}}}\n"
    )


def states(scenario: DockerScenario, repo: Repository, name: str) -> list[tuple[str, str]]:
    """Return pull request and state of each attempt, from the engine alone, oldest first."""
    import json

    shutil.rmtree(repo.home, ignore_errors=True)
    scenario.launcher("wait", name, code=None)
    found = json.loads(scenario.launcher("history", name, "--json").out)
    return [(each["pull_request"] or "", each["state"]) for each in reversed(found)]


def test_a_merge_is_applied_once_and_a_merged_removal_stops_its_job(
    repo: Repository, scenario: DockerScenario
) -> None:
    for number, word in ((1, "sleep 1000"), (2, "sleep 2000")):
        repo.land(number, {"serve.launcher.yaml": job("serve", word)})
        repo.apply()
    repo.land(3, {"serve.launcher.yaml": None})
    assert states(scenario, repo, "serve") == [("1", "cancelled"), ("2", "cancelled")]


def test_an_approval_is_used_up_on_the_engine(repo: Repository, scenario: DockerScenario) -> None:
    for number, word in ((1, "echo one"), (2, "echo two")):
        repo.land(number, {"train.launcher.yaml": job("train", word)})
        assert states(scenario, repo, "train")[-1] == (str(number), "succeeded")
    repo.push({"train.launcher.yaml": job("train", "echo one")})
    assert "no approval starts it" in repo.apply(code=4)
    assert [number for number, _ in states(scenario, repo, "train")] == ["1", "2"]


def test_a_later_apply_applies_a_merge_between_two_applies(
    repo: Repository, scenario: DockerScenario
) -> None:
    for number, name in ((1, "one"), (2, "two")):
        repo.propose(number, {f"{name}.launcher.yaml": job(name)})
        repo.merge(number)
    repo.apply()
    assert states(scenario, repo, "one") == [("1", "succeeded")]
    assert states(scenario, repo, "two") == [("2", "succeeded")]
