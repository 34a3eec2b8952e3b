"""`ci STEP --json` on a bare remote, with local jobs."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from launcher.cli.schema import result_schema
from launcher.plan.schema import plan_schema
from tests.github.fake import FakeGitHub
from tests.github.repository import Repository
from tests.scenario import Scenario
from tests.scenarios.ci.test_stories import BY_HAND, job


@pytest.mark.slow
def test_each_step_has_its_result_in_json(tmp_path: Path, scenario: Scenario) -> None:
    with FakeGitHub() as github:
        repo = Repository(tmp_path, github, scenario.home)
        _tell(repo, scenario)
        repo.propose(3, {"train.launcher.yaml": job("train", "again")})
        repo.merge(3)
        github.faults.answers = {"POST /check-runs": [422]}
        repo.apply("--json", code=1)  # the jobs have started, and the server does not take the record
        done = json.loads(repo.printed)
        assert [each["action"] for each in done["jobs"]] == ["keep", "create"]
        assert "GitHub refuses POST" in done["problems"][0]["message"]


def _tell(repo: Repository, scenario: Scenario) -> None:
    def result() -> Any:
        return json.loads(repo.printed)

    repo.push({"base.launcher.yaml": job("base")})
    repo.apply(BY_HAND, event="workflow_dispatch")
    repo.pull_request(1, {"train.launcher.yaml": job("train")})
    repo.plan(1, "--json")
    Draft202012Validator(plan_schema()).validate(result())
    repo.pull_request(2, {"bad.launcher.yaml": job("bad", more="nope: 1\n")})
    repo.plan(2, "--json", code=6)
    assert [found["code"] for found in result()["diagnostics"]] == ["unknown-field"]
    repo.merge(1)
    repo.apply("--json")
    Draft202012Validator(result_schema()).validate(result())
    assert [each["action"] for each in result()["jobs"]] == ["keep", "create"]
    scenario.wait("train")
    repo.report("--json")
    assert result() == {"reported": ["#1 (default, default): 1 succeeded"]}
