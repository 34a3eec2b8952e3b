"""`ci doctor` as a run of a workflow calls it. `tests/unit/ci/test_doctor.py` has the faults."""

import json
from pathlib import Path

import pytest

from launcher.cli.init_ci import WORKFLOW
from tests.github.fake import FakeGitHub
from tests.github.repository import Repository
from tests.scenario import Scenario
from tests.scenarios.ci.test_stories import BY_HAND, job


@pytest.mark.slow
def test_doctor_finds_nothing_missing_in_a_complete_set_up_and_exits_with_1_for_a_fault(
    tmp_path: Path, github: FakeGitHub, scenario: Scenario
) -> None:
    repo = Repository(tmp_path, github, scenario.home)
    scenario.launcher("init", repo.work, "--ci", "github")
    text = (repo.work / WORKFLOW).read_text().splitlines()
    pinned = ["  LAUNCHER: launcher-jobs==0.1.0" if "  LAUNCHER:" in line else line for line in text]
    repo.push({WORKFLOW: "\n".join([*pinned, ""]), "train.launcher.yaml": job("train")})
    repo.apply(BY_HAND, event="workflow_dispatch")
    found = json.loads(repo.doctor("--format", "json", code=0))
    assert {each["state"] for each in found} == {"ok"}
    repo.home = tmp_path / "other-home"
    assert "missing  ledger: commits were applied" in repo.doctor(code=1)
