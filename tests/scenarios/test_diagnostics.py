"""Six mistakes in one file are six diagnostics, each at its place, in YAML as in TOML."""

from __future__ import annotations

import json

import pytest

YAML = """\
version: 1
name: Train_Job
scheduler: local_cdw
timeout: soon
roles:
  trainer:
    entrypoint: python
    num_replica: 2
    max_retries: -1
    args: [--run, $<app_idd>]
"""
TOML = """\
version = 1
name = "Train_Job"
scheduler = "local_cdw"
timeout = "soon"

[roles.trainer]
entrypoint = "python"
num_replica = 2
max_retries = -1
args = ["--run", "$<app_idd>"]
"""
EXPECTED = {
    "train.launcher.yaml": [
        (2, 7, "invalid-name"),
        (3, 12, "unknown-variant"),
        (4, 10, "invalid-value"),
        (8, 5, "unknown-field"),
        (9, 18, "out-of-range"),
        (10, 19, "unknown-reference"),
    ],
    "train.launcher.toml": [
        (2, 8, "invalid-name"),
        (3, 13, "unknown-variant"),
        (4, 11, "invalid-value"),
        (8, 1, "unknown-field"),
        (9, 15, "out-of-range"),
        (10, 19, "unknown-reference"),
    ],
}


@pytest.mark.parametrize(("name", "text"), [("train.launcher.yaml", YAML), ("train.launcher.toml", TOML)])
def test_six_mistakes_are_six_diagnostics_with_line_and_column(scenario, name, text):
    scenario.write(name, text)
    done = scenario.launcher("validate", name, "--format", "json", code=6)
    found = json.loads(done.out)["diagnostics"]
    assert [(d["span"]["line"], d["span"]["column"], d["code"]) for d in found] == EXPECTED[name]

    shown = scenario.launcher("validate", name, code=6)
    places = [line for line in (shown.err + shown.out).splitlines() if line.lstrip().startswith("--> ")]
    assert [place.split()[-1] for place in places] == [
        f"{name}:{line}:{col}" for line, col, _ in EXPECTED[name]
    ]


@pytest.mark.parametrize(("name", "text"), [("train.launcher.yaml", YAML), ("train.launcher.toml", TOML)])
def test_plan_and_apply_refuse_it_with_the_same_diagnostics(scenario, name, text):
    scenario.write(name, text)
    for command in (["plan", name], ["apply", name, "--yes"]):
        done = scenario.launcher(*command, code=6)
        assert (done.err + done.out).count("--> ") == 6
    assert not scenario.home.exists()


def test_problems_of_all_files_are_reported_at_once(scenario):
    scenario.write("a.launcher.yaml", YAML)
    scenario.write("b.launcher.toml", TOML)
    done = scenario.launcher("validate", ".", code=6)
    assert (done.err + done.out).count("--> ") == 12


def test_the_nearest_name_is_offered(scenario):
    scenario.write("a.launcher.yaml", YAML)
    done = scenario.launcher("validate", ".", code=6)
    for name in ("`local_cwd`", "`num_replicas`", "app_id"):
        assert name in done.err + done.out


def test_a_valid_file_is_said_to_be_valid(scenario):
    done = scenario.launcher("validate", scenario.job("true"))
    assert "valid: 1 job" in done.err
