"""Plans and commands on job files that share parents and a launcher.toml."""

import json

BASE = """version: 1
abstract: true
timeout: 1h
targets: [dev]
roles: {main: {run: echo $NAME, env: {NAME: nothing}}}
"""
PROJECT = """[defaults.role]
max_retries = 1

[targets.dev]
timeout = "1m"
"""
JOBS = """version: 1
extends: base.launcher.yaml
jobs:
  prepare: {roles: {main: {env: {NAME: prepare}}}}
  train: {needs: [prepare], roles: {main: {env: {NAME: train}}}}
"""


def write(scenario) -> None:
    scenario.write("launcher.toml", PROJECT)
    scenario.write("base.launcher.yaml", BASE)
    scenario.write("steps.launcher.yaml", JOBS)
    scenario.job("echo alone", name="alone")


def test_a_plan_names_the_line_of_a_shared_file_that_changes_several_jobs(scenario):
    write(scenario)
    scenario.run_to_end(".")
    assert set(scenario.actions(".").values()) == {"keep"}
    scenario.write("launcher.toml", PROJECT.replace("max_retries = 1", "max_retries = 2"))
    scenario.write("base.launcher.yaml", BASE.replace("1h", "2h"))
    shown = scenario.launcher("plan", ".").out
    assert "launcher.toml:2 changes 3 jobs (`max_retries`)" in shown
    assert "base.launcher.yaml:3 changes 2 jobs (`timeout`)" in shown
    saved = json.loads(scenario.launcher("plan", ".", "--format", "json").out)
    assert any(line.startswith("launcher.toml:2 changes 3 jobs") for line in saved["shared"])


def test_a_plan_of_one_file_finds_no_orphans_among_the_jobs_of_others(scenario):
    write(scenario)
    scenario.run_to_end(".")
    assert scenario.actions("steps.launcher.yaml") == {"prepare": "keep", "train": "keep"}
    assert "orphan" not in scenario.launcher("plan", "steps.launcher.yaml").out


def test_a_plan_of_a_target_leaves_out_and_names_files_without_that_target(scenario):
    write(scenario)
    answer = scenario.launcher("plan", ".", "--target", "dev")
    assert "left out: 1 file that has no target `dev`: ./alone.launcher.yaml" in answer.err
    assert "2 to create" in answer.out


def test_a_target_that_no_file_has_is_an_error(scenario):
    write(scenario)
    answer = scenario.launcher("plan", ".", "--target", "nowhere", code=6)
    assert answer.err.count("error[unknown-target]") == 3
