"""`history` and `diff`: the attempts of jobs, from the ledger."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from launcher.cli.history import history_text
from launcher.inventory.attempts import newest_attempts
from tests.scenario import Scenario


@pytest.fixture
def file(scenario: Scenario) -> Path:
    """A job with two attempts, the second one started in CI."""
    made = scenario.job("echo one", name="train")
    scenario.run_to_end(made)
    made = scenario.job("echo two; exit 3", name="train")
    variables = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "acme/vision",
        "GITHUB_RUN_ID": "77",
    }
    scenario.launcher("apply", made, "--yes", "--wait", code=5, env={**os.environ, **variables})
    return made


REASONS = ["changed: roles.main.args[1]", "no attempt of this job is on record"]


def test_the_attempts_of_a_job_are_listed_newest_first_with_their_reasons(file, scenario):
    heading, *rows = scenario.launcher("history", "train").out.splitlines()
    assert heading.split()[:3] == ["ATTEMPT", "STATE", "ACTION"]
    assert [row.split()[:3] for row in rows] == [["2", "FAILED", "create"], ["1", "SUCCEEDED", "create"]]
    assert all(row.endswith(reason) for row, reason in zip(rows, REASONS, strict=True))
    page = json.loads(scenario.launcher("report", "train", "--json").out)
    assert [attempt["why"] for attempt in page["attempts"]] == REASONS
    limited = scenario.launcher("history", "train", "--limit", "1")
    assert [line.split()[0] for line in limited.out.splitlines()] == ["ATTEMPT", "2"]
    assert "showing the newest 1" in limited.err
    assert "showing" not in scenario.launcher("history", "train", "--limit", "2").err


@pytest.mark.parametrize("command", ["history", "use", "report --markdown"])
def test_jobs_of_one_name_in_two_projects_or_targets_are_told_apart(scenario: Scenario, command: str) -> None:
    first = "version: 1\nname: train\nroles: {main: {run: sleep 0.01}}\n"
    scenario.write("job.launcher.yaml", first + "targets: {dev: {timeout: 1h}}\n")
    scenario.run_to_end("job.launcher.yaml")
    alone = scenario.launcher(*command.split()).out
    scenario.run_to_end("job.launcher.yaml", "--target", "dev")
    shown = scenario.launcher(*command.split()).out
    assert ("default/train" in alone, "train" in alone) == (False, True)
    assert all(name in shown for name in ("default/train", "default.dev/train"))


def test_json_has_the_reason_and_the_whole_origin_of_an_attempt(file: Path, scenario: Scenario) -> None:
    listed = json.loads(scenario.launcher("history", "train", "--json").out)
    assert [attempt["reason"] for attempt in listed] == REASONS
    second, first = listed
    assert second["run_url"] == "https://github.example/acme/vision/actions/runs/77"
    assert (second["attempt"], second["state"], second["exit_code"]) == (2, "failed", 3)
    assert first["run_url"] is None
    assert first["effect"].startswith("le1:")
    assert first["effect"] != second["effect"]


def test_attempts_are_compared_with_attempts_and_with_their_file(file: Path, scenario: Scenario) -> None:
    shown = scenario.launcher("diff", "train@1", "train@2").out
    assert "train@1 → train@2" in shown
    assert "echo one" in shown
    assert "state: succeeded → failed" in shown
    assert "documents are equal" in scenario.launcher("diff", "train@1", "train@1").out
    assert "documents are equal" in scenario.launcher("diff", "train@2", file).out
    found = json.loads(scenario.launcher("diff", "train@1", file, "--json").out)
    assert (found["old"], found["new"]) == ("train@1", "train.launcher.yaml")
    assert len(found["changes"]) == 1
    for name, top in (("other", ""), ("train", "project: another")):
        other = scenario.job("true", name=name, top=top)
        refused = scenario.launcher("diff", "train@2", other, code=1).err
        assert "does not declare the job `train` of project" in refused


def test_the_attempts_of_all_jobs_have_their_names(file: Path, scenario: Scenario) -> None:
    scenario.run_to_end(scenario.job("true", name="other"))
    rows = [line.split()[:2] for line in scenario.launcher("history").out.splitlines()]
    assert rows == [["JOB", "ATTEMPT"], ["other", "1"], ["train", "2"], ["train", "1"]]
    shown = scenario.launcher("history", "--limit", "1")
    assert len(shown.out.splitlines()) == 2
    assert "showing the newest 1" in shown.err


def test_a_reason_is_wrapped_on_a_terminal_and_empty_columns_are_left_out(scenario: Scenario) -> None:
    scenario.run_to_end(scenario.job("true", name="plain"))
    (made,) = newest_attempts(1, None)
    text = history_text([made], with_jobs=False, color=False, columns=80)
    heading, *below = text.splitlines()
    assert heading.split() == ["ATTEMPT", "STATE", "ACTION", "CREATED", "TOOK", "BY", "WHY"]
    assert max(map(len, below)) <= 80
    assert " ".join(line[heading.index("WHY") :] for line in below) == made.reason


def test_show_is_an_alias_of_describe(file: Path, scenario: Scenario) -> None:
    shown = scenario.launcher("show", "train@2").out
    assert "actions/runs/77" in shown
    described = scenario.launcher("describe", "train@2").out
    ages = re.compile(r"\((just now|\S+ ago)\)")  # which differ from one second to the next
    assert ages.sub("", shown).split("\n")[1:] == ages.sub("", described).split("\n")[1:]


def test_a_file_is_compiled_for_the_target_of_the_attempt(scenario: Scenario) -> None:
    variables = "vars:\n  word: {type: str, default: none}\n"
    targets = "targets:\n  prod:\n    vars: {word: {default: one}}\n  stage: {}"
    made = scenario.job("echo $<var.word>", name="train", top=variables + targets)
    scenario.launcher("apply", made, "--yes", "--wait", "--target", "prod")
    assert "documents are equal" in scenario.launcher("diff", "train@1", made).out
    refused = scenario.launcher("diff", "train@1", made, "--target", "stage", code=1).err
    assert "train" in refused


def test_an_app_of_no_job_has_no_attempts(scenario: Scenario) -> None:
    scenario.launcher("run", "utils.echo", "--msg", "x")
    (app,) = json.loads(scenario.launcher("list", "--json").out)
    assert "no job file made it" in scenario.launcher("history", app["app_id"], code=1).err


def test_a_run_url_with_control_characters_is_not_recorded(scenario: Scenario) -> None:
    variables = {"GITLAB_CI": "true", "CI_JOB_URL": "https://x\x1b[2J"}
    made = scenario.job("true", name="train")
    scenario.launcher("apply", made, "--yes", "--wait", env={**os.environ, **variables})
    (only,) = json.loads(scenario.launcher("history", "train", "--json").out)
    assert only["run_url"] is None


@pytest.mark.parametrize("command", ["list", "history", "use"])
def test_a_limit_of_0_is_refused(command: str, scenario: Scenario) -> None:
    assert "expected at least 1" in scenario.launcher(command, "--limit", "0", code=64).err


def test_the_hint_on_a_missing_branch_names_a_branch_that_the_clone_has(
    scenario: Scenario, tmp_path: Path
) -> None:
    repo = tmp_path / "repo"
    for command in (
        ("init", "-q", "-b", "trunk", str(repo)),
        (
            "-C",
            str(repo),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-mx",
        ),
    ):
        subprocess.run(["git", *command], check=True)
    said = scenario.launcher("synced", "--branch", "trunc", code=1, cwd=repo).err
    assert "did you mean `trunk`?" in said
