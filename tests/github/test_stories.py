"""From a pull request to what became of it, through the steps of the workflow that `init --ci github` writes."""

from __future__ import annotations

import pytest

from launcher.cli.init_ci import ENGINES, Setup, workflow
from tests.github.hub import Hub, hub
from tests.github.workflow import FILE

REQUIREMENT = "launcher-jobs==0.1.0"


def job(name: str, script: str = "true") -> dict[str, str]:
    text = f"version: 1\nname: {name}\nroles:\n  main:\n    run: {script}\n"
    return {f"{name}.launcher.yaml": text}


@pytest.fixture
def github(tmp_path, launcher_home):
    with hub(tmp_path) as found:
        found.runner.installed(REQUIREMENT)
        yield found


@pytest.fixture
def team(github: Hub, scenario):
    """A repository whose first job was applied by hand."""
    files = {
        FILE: workflow(Setup(ENGINES["local"], "", (), "main", REQUIREMENT)),
        "launcher.toml": 'project = "vision"\n',
        **job("first"),
    }
    ran = github.push(files, "Begin")
    print(ran)
    return github


def test_x(team, scenario):
    pull, ran = team.open(job("second"), "Add second")
    print(ran)
    print(team.comment(pull))
    print(team.merge(pull))
    print(team.comment(pull))
    print(scenario.launcher("list").out)
    assert 0
